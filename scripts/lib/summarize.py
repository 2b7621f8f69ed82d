#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds up test results and prints what failed, what was skipped and why, and the totals.

usage: summarize.py EXTRA [LABEL=TESTLOG.json[,AGAIN.json]]...
       summarize.py --again TESTLOG.json

EXTRA holds tab-separated lines: name, ok|fail|skip, reason. A TESTLOG is what `meson test` leaves in
meson-logs/testlog.json: one JSON object a line. A test log that is missing is a failure: tests that
were to run did not. A line in which a test that passed says what it skipped is a skipped result of its
own. AGAIN is the log of a second attempt, which decides for the tests that it has; that they needed one is
printed. --again prints the names of the tests that may have one: they judge samples, which are drawn by
chance, and failed. What a failed test printed last comes first, and what it said of its failure stands in its line
in the end, as logs may be out of reach of who reads this. The last line printed is "N passed, N failed,
N skipped"; the exit status is 1 if anything failed.
"""

import json
import pathlib
import re
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
LINES_OF_A_FAILURE = 30
COLUMNS_OF_A_LINE = 250
SAYS_WHAT = re.compile(r"^(?:FAIL|FAILED|FINDING|wrong|failed:?)\b")
BY_CHANCE = "sampled"  # the suite
# "skip  CASE: REASON", "skipped: REASON", and the same as a message of doctest.
LEFT_OUT = re.compile(r"(?:^|MESSAGE: )skip(?:ped)?(?::| ) *(.*)")


def skip_reason(test):
    """The last line that speaks of skipping, else the last line: tests say why before exit 77."""
    lines = [line.strip() for key in ("stdout", "stderr")
             for line in (test.get(key) or "").splitlines() if line.strip()]
    speaking = [line for line in lines if "skip" in line.lower()]
    if speaking:
        return speaking[-1]
    return lines[-1] if lines else "no reason given: print one line before exit status 77"


def left_out(test):
    lines = (test.get("stdout") or "").splitlines()
    return [match[1] for match in map(LEFT_OUT.search, lines) if match]


def print_end(name, test):
    """The last lines of what a failed test printed, without those that say that all is well."""
    for key in ("stdout", "stderr"):
        lines = [line for line in (test.get(key) or "").splitlines()
                 if line.strip() and not line.startswith("ok ")]
        for line in lines[-LINES_OF_A_FAILURE:]:
            print(f"{name}: {line[:300]}")


def gist(test):
    """What failed, in a line: each of the test's own lines that say so, or what it printed last."""
    last = [""]
    for key in ("stderr", "stdout"):
        lines = [line.strip() for line in (test.get(key) or "").splitlines() if line.strip()]
        saying = [line for line in lines if SAYS_WHAT.match(line)]
        if saying:
            return "; ".join(line[:COLUMNS_OF_A_LINE] for line in saying[:5])
        last = lines[-1:] or last
    return last[0][:COLUMNS_OF_A_LINE]


def name_of(test):
    return test["name"].rpartition(" / ")[2].rpartition(":")[2]


def has_failed(test):
    return test["result"] not in PASSED | SKIPPED


def tests_of(path):
    with path.open(encoding="utf-8") as log:
        return [json.loads(line) for line in log]


def to_try_again(path):
    """Of these tests the suites are before the name: "project:suite+suite / name"."""
    for test in tests_of(path) if path.exists() else []:
        suites = test["name"].rpartition(" / ")[0].rpartition(":")[2].split("+")
        if has_failed(test) and BY_CHANCE in suites:
            yield name_of(test)


def read_log(label, path, again):
    """Yields (name, "ok" | "fail" | "skip", reason) for each test of a meson log."""
    suffix = f" ({label})" if label else ""
    if not path.exists():
        yield f"tests{suffix}", "fail", f"{path} is missing: meson test did not run"
        return
    second = {test["name"]: test for test in (tests_of(again) if again else [])}
    for test in tests_of(path):
        name = name_of(test) + suffix
        if has_failed(test):
            print_end(name, test)
            if test["name"] in second:
                test = second[test["name"]]
                print(f"UNSTEADY {name}: failed, then {test['result'].lower()} at its second attempt")
        if has_failed(test):
            yield name, "fail", f"{test['result'].lower()}, see {path.with_suffix('.txt')}: {gist(test)}"
        elif test["result"] in SKIPPED:
            yield name, "skip", skip_reason(test)
        else:
            yield name, "ok", ""
            for reason in left_out(test):
                yield f"part of {name}", "skip", reason


def read_extra(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        name, outcome, reason = line.split("\t", 2)
        yield name, outcome, reason


def main(arguments):
    results = list(read_extra(pathlib.Path(arguments[0])))
    for argument in arguments[1:]:
        label, _, paths = argument.partition("=")
        path, _, again = paths.partition(",")
        results.extend(read_log(label, pathlib.Path(path), pathlib.Path(again) if again else None))
    count = {"ok": 0, "fail": 0, "skip": 0}
    for _, outcome, _ in results:
        count[outcome] += 1
    for wanted, word in (("skip", "SKIPPED"), ("fail", "FAILED")):
        for name, outcome, reason in results:
            if outcome == wanted:
                print(f"{word} {name}: {reason}")
    print(f"{count['ok']} passed, {count['fail']} failed, {count['skip']} skipped")
    return 1 if count["fail"] else 0


if __name__ == "__main__":
    if sys.argv[1] == "--again":
        print("\n".join(to_try_again(pathlib.Path(sys.argv[2]))))
    else:
        sys.exit(main(sys.argv[1:]))
