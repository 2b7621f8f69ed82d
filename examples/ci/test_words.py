# SPDX-License-Identifier: MIT
"""A test whose instructions are counted: README.md has the commands."""

import words

TEXT = "the quick brown fox jumps over the lazy dog " * 500


def test_count_words(counted):
    with counted():
        assert words.count_words(TEXT) == 4500


if __name__ == "__main__":
    import marks
    test_count_words(marks.counted)
