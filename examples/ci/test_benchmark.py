# SPDX-License-Identifier: MIT
"""The same for pytest-benchmark: rounds are part of the count, so their number is fixed."""

import words

TEXT = "the quick brown fox jumps over the lazy dog " * 500


def test_count_words(benchmark, counted):
    def count():
        with counted():
            return words.count_words(TEXT)

    assert benchmark.pedantic(count, rounds=5, iterations=1) == 4500
