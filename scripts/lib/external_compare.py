# SPDX-License-Identifier: MIT
"""What two runs of a test have to agree in, and in a few words where they do not.

They agree in the exit status and in the output, read as the suite means it (READERS). Lines may come in any
order: children and threads write when they come to it. A suite that prints what instructions compute is read
exactly, where native runs agree exactly. Else what is different in each run is made equal:

- addresses and other hexadecimal numbers (0x...),
- times and other numbers with a fraction,
- whole numbers of three digits and more: numbers of processes and threads, and what was counted in a time;
- all numbers, if the test's native runs differ in nothing else.
"""

import collections
import re
import signal

NUMBERS = (
    (re.compile(r"\b0x[0-9a-fA-F]+|\b[0-9a-f]{8,16}\b"), "0xN"),
    (re.compile(r"(?<![\w.])-?\d+\.\d+(e[-+]?\d+)?"), "N.N"),
    (re.compile(r"(?<!\w)-?\d{3,}(?!\d)"), "N"),
)
# ok 3 global.signal_delivery # SKIP no privilege
TAP_LINE = re.compile(r"^[\s#]*(ok|not ok)\b[\s\d-]*([^#]*)(#\s*(?:SKIP|XFAIL))?")
# [OK]    Fault was signalled
BRACKET_LINE = re.compile(r"^\s*\[\s*(OK|FAIL|SKIP|PASS|ERROR|WARN)\s*\]\s*(.*)")
LTP_WORDS = ("TBROK", "TFAIL", "TWARN", "TCONF", "TPASS")
LTP_WORD = re.compile(r"\b(" + "|".join(LTP_WORDS) + r")\b")
DIGITS = re.compile(r"\d+")
COLUMNS_OF_A_LINE = 60


def without_numbers(line):
    for pattern, name in NUMBERS:
        line = pattern.sub(name, line)
    return " ".join(line.split())


def read_text(text):
    return [line for line in map(without_numbers, text.splitlines()) if line]


def read_tap(text):
    """The results, if the output has any; else all of it."""
    results = []
    for line in text.splitlines():
        if match := TAP_LINE.match(line):
            skipped = " # SKIP" if match[3] else ""
            results.append(without_numbers(f"{match[1]} {match[2]}") + skipped)
        elif match := BRACKET_LINE.match(line):
            results.append(without_numbers(f"[{match[1]}] {match[2]}"))
    return results or read_text(text)


def read_ltp(text):
    """How often each result word comes, the worst one first; the messages have times and sizes in them."""
    words = collections.Counter(match[1] for match in map(LTP_WORD.search, text.splitlines()) if match)
    return [f"{word} {words[word]}" for word in LTP_WORDS if word in words]


def read_exactly(text):
    return text.splitlines()


READERS = {"exact": read_exactly, "text": read_text, "tap": read_tap, "ltp": read_ltp}


def status_in_words(outcome):
    if outcome.hangs:
        return "hangs"
    if outcome.status > 128:
        try:
            return signal.Signals(outcome.status - 128).name
        except ValueError:
            pass
    return f"status {outcome.status}"


def shortened(line):
    return line if len(line) <= COLUMNS_OF_A_LINE else line[:COLUMNS_OF_A_LINE - 1] + "…"


def lines_that_differ(native, ours):
    before, after = collections.Counter(native), collections.Counter(ours)
    missing, new = before - after, after - before
    # The line that is new says more than the one in whose place it came.
    for name, lines in (("", new), ("not: ", missing)):
        if lines:
            return f"{name}{shortened(min(lines, key=ours.index if name == '' else native.index))}"
    return ""


def read(text, reader, loosely):
    lines = READERS[reader](text.decode(errors="replace"))
    return [DIGITS.sub("N", line) for line in lines] if loosely else lines


def difference(native, ours, reader, loosely=False):
    """In a few words what differs, or "" if nothing does; loosely, no number counts."""
    parts = []
    if (native.status, native.hangs) != (ours.status, ours.hangs):
        parts.append(f"{status_in_words(ours)}, natively {status_in_words(native)}")
    if not ours.hangs:
        for before, after in ((native.out, ours.out), (native.err, ours.err)):
            if line := lines_that_differ(read(before, reader, loosely), read(after, reader, loosely)):
                parts.append(line)
        if not ours.profile:
            parts.append("no profile")
    return "; ".join(parts)
