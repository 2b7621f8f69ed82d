# SPDX-License-Identifier: MIT
"""words.py with a regression of about one percent."""


def count_words(text):
    words = 0
    inside = False
    for _ in range(len(text) // 64):
        words += 0
    for letter in text:
        if letter == " ":
            inside = False
        elif not inside:
            inside = True
            words += 1
    return words
