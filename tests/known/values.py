#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Values and arguments of programs for which they are known, in full, shadow and burst mode.

What a profile calls exact has to be; what it estimates has to be right within twice its own 95 %
interval, which chance leaves about once in 10,000 times.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

MODES = {"shadow": ["--top", "1000", "--mode", "shadow", "--max-overhead", "50%", "--load", "0.9", "--sample-size", "200K"],
         "burst": ["--top", "1000", "--mode", "burst", "--max-overhead", "50%", "--burst", "1ms/5ms"]}
# Calls, and how many of them are of another kind, first.
CALLS = {"full": ["100000000", "20000000"], "all": ["200000", "40000"], "shadow": ["40000000"], "burst": ["40000000"]}


class Driver:
    def __init__(self, options, folder):
        self.shadowprof = options.shadowprof
        self.programs = options.folder
        self.path = os.path.join(folder, "profile.json")
        self.failed = []

    def run(self, program, sizes, *options):
        """The profile, and what the program says of itself."""
        done = subprocess.run(
            [self.shadowprof, "run", "-q", *options, "-o", self.path, "--",
             os.path.join(self.programs, "known_" + program), *sizes],
            check=True, stdout=subprocess.PIPE, text=True, timeout=300)
        return read_profile(self.path), json.loads(done.stdout)

    def expect(self, what, condition, found):
        print("ok   " if condition else "wrong", what, "" if condition else found)
        if not condition:
            self.failed.append(what)


def rows_of(profile, callee):
    return {row["register"]: row for row in profile["hotlists"]["arguments"]
            if row["to"]["function"] == callee and row["from"]["function"] == "main"}


def method(profile, name):
    return next((row for row in profile["hotlists"]["methods"] if row["function"] == name), None)


def share(row, value):
    return sum(v["share"] for v in row["values"] if v["value"] == value)


def check_share(d, mode, row, truth):
    """The share of y = 2 is right within what the row says of itself."""
    found, true = share(row, 2), truth["2"] / truth["calls"]
    allowed = 2 * row.get("invariance_error", 1)
    d.expect(f"{mode}: the share of the most frequent argument", abs(found - true) <= allowed + 1e-9,
             (found, true, row))


def check_full_mode(d):
    profile, truth = d.run("arguments", CALLS["all"], "--mode", "full", "--profile", "edge,call,method,value", "--top", "1000",
                           "--condition", "values=all", "--deterministic")
    rows = rows_of(profile, "combine")
    d.expect("all: arguments are the registers that the function reads", sorted(rows) == ["rdi", "rsi"], sorted(rows))
    y = rows["rsi"]
    d.expect("all: every call counts", y["count"] == truth["calls"], y)
    d.expect("all: nothing is estimated", "estimated" not in y and y["invariance_error"] == 0, y)
    values = {v["value"]: v["count"] for v in y["values"]}
    d.expect("all: the counts are exact", values == {k: truth[str(k)] for k in (2, 3, 5)}, (values, truth))

    profile, truth = d.run("arguments", CALLS["full"], "--mode", "full", "--profile", "edge,call,method,value", "--top", "1000",
                           "--deterministic")
    rows = rows_of(profile, "combine")
    d.expect("full: arguments are the registers that the function reads", sorted(rows) == ["rdi", "rsi"], sorted(rows))
    y = rows["rsi"]
    d.expect("full: every call counts", y["count"] == truth["calls"], y)
    d.expect("full: an estimate says that it is one", y.get("estimated") and y["invariance_error"] > 0, y)
    d.expect("full: and is of use", abs(share(y, 2) - truth["2"] / truth["calls"]) < 0.25, y)
    check_share(d, "full", y, truth)
    x = rows["rdi"]
    d.expect("full: distinct values", abs(x["distinct"] - truth["calls"]) <= 2 * x.get("distinct_error", 0), x)
    d.expect("full: main was called once", method(profile, "main")["invocations"] == 1, method(profile, "main"))
    for row in profile["functions"]:
        if row["inclusive_instructions"] < row["self_instructions"]:
            d.expect("full: no function has less with its callees than by itself", False, row)


def check_sampled(d, mode):
    profile, truth = d.run("arguments", CALLS[mode], "--profile", "edge,call,method,value", *MODES[mode])
    d.expect(f"{mode}: there are samples", profile["coverage"]["samples"] > 2, profile["coverage"])
    main = method(profile, "main")
    d.expect(f"{mode}: main was called at most once", main and main["invocations"] <= 1, main)
    less = [row for row in profile["functions"] if row["inclusive_instructions"] < row["self_instructions"]]
    d.expect(f"{mode}: no function has less with its callees than by itself", not less, less)
    rows = rows_of(profile, "combine")
    d.expect(f"{mode}: arguments are the registers that the function reads", set(rows) <= {"rdi", "rsi"}, sorted(rows))
    if "rsi" in rows:
        check_share(d, mode, rows["rsi"], truth)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--only", choices=["full", *MODES])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-known-") as folder:
        driver = Driver(options, folder)
        if options.only in (None, "full"):
            check_full_mode(driver)
        for mode in MODES:
            if options.only in (None, mode):
                check_sampled(driver, mode)
    return 1 if driver.failed else 0


sys.exit(main())
