# SPDX-License-Identifier: MIT
"""What is measured."""


def count_words(text):
    words = 0
    inside = False
    for letter in text:
        if letter == " ":
            inside = False
        elif not inside:
            inside = True
            words += 1
    return words
