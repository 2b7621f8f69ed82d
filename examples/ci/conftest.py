# SPDX-License-Identifier: MIT
"""The fixture `counted`: what a test executes within it is counted."""

import pytest

import marks


@pytest.fixture
def counted():
    return marks.counted
