#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rows of several profiles, added up by who knows nothing of profiles, are the rows of their sum.

usage: table_exports.py --shadowprof PATH --program PROGRAM --other PROGRAM --crew PROGRAM [--only TEXT]

Two programs in full mode, the first of them twice, and one that is sampled share the C library, of
which each executes another part. Their rows (export --format ndjson) are grouped here as a database
groups them, and compared with those of what `shadowprof merge` makes of the same files, and with
its tables.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

from gate_cases import require, run_in_folder

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

COLUMNS = ["kind", "build_id", "module", "offset", "function", "function_offset", "inlined", "file",
           "line", "thread", "thread_id", "process", "instructions", "user_ns", "kernel_ns", "host",
           "service", "command", "started"]


def call(*command):
    done = subprocess.run(list(map(str, command)), check=False, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=240)
    require(done.returncode == 0, f"{command}: status {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


class Subject:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        folder = pathlib.Path(folder)
        runs = [["--mode", "full", options.program], ["--mode", "full", options.program],
                ["--mode", "full", options.other], [options.crew]]
        self.files = [folder / f"run{number}.json" for number in range(len(runs))]
        for path, (*mode, program) in zip(self.files, runs):
            call(self.shadowprof, "run", "-q", "-o", path, *mode, "--", os.path.abspath(program))
        self.sum = folder / "sum.json"
        call(self.shadowprof, "merge", "-o", self.sum, *self.files)
        self.rows = [row for number, path in enumerate(self.files)
                     for row in self.export(path, "--host", f"host{number}")]
        self.merged = self.export(self.sum)

    def export(self, path, *options):
        lines = call(self.shadowprof, "export", "--format", "ndjson", *options, path).decode()
        return [json.loads(line) for line in lines.splitlines()]


def grouped(rows, kind, keys, value):
    """SELECT keys, sum(value) FROM rows WHERE kind = kind GROUP BY keys"""
    sums = collections.Counter()
    for row in rows:
        if row["kind"] == kind:
            sums[tuple(row[key] for key in keys)] += row[value] or 0
    return sums


def require_equal(mine, theirs, what):
    odd = {key for key in mine.keys() | theirs.keys() if mine[key] != theirs[key]}
    require(not odd, f"{what}: {[(key, mine[key], theirs[key]) for key in sorted(odd, key=str)[:5]]}")
    require(sum(mine.values()) > 0, f"{what}: nothing")


def all_rows_have_the_same_columns(x):
    for row in x.rows + x.merged:
        require(list(row) == COLUMNS, row)
    require({row["host"] for row in x.rows} == {f"host{n}" for n in range(len(x.files))}, "hosts")
    require({row["host"] for row in x.merged} == {None}, "a sum has a host")
    require([row["kind"] for row in x.merged].count("run") == 1 and x.merged[0]["kind"] == "run",
            x.merged[0])


def instructions_by_place_are_those_of_merge(x):
    keys = ["build_id", "module", "offset"]
    require_equal(grouped(x.rows, "code", keys, "instructions"),
                  grouped(x.merged, "code", keys, "instructions"), "code")
    total = sum(grouped(x.merged, "code", ["kind"], "instructions").values())
    profile = read_profile(x.sum)
    require(total == profile["coverage"]["attributed"] == x.merged[0]["instructions"], total)
    require(total == sum(row["instructions"] for row in x.rows if row["kind"] == "run"), total)


def time_by_place_and_thread_is_that_of_merge(x):
    keys = ["build_id", "module", "offset", "thread"]
    for value in ("user_ns", "kernel_ns"):
        mine = grouped(x.rows, "time", keys, value)
        theirs = grouped(x.merged, "time", keys, value)
        if value == "user_ns" or sum(mine.values()):
            require_equal(mine, theirs, value)
    require({key[3] for key in grouped(x.merged, "time", keys, "user_ns")} == {"crew", "worker 1"},
            "other threads")


def functions_have_their_own_instructions(x):
    profile = read_profile(x.sum)
    paths = [module["path"] for module in profile["modules"]]
    known = collections.Counter()
    for function in profile["functions"]:
        known[paths[function["module"]], function["offset"]] += function["self_instructions"]
    mine = grouped(x.rows, "code", ["module", "function_offset"], "instructions")
    for key in [key for key in mine if key[1] is None]:
        del mine[key]
    require_equal(mine, known, "functions")


def lines_and_inlined_calls_are_named(x):
    lines = grouped(x.rows, "code", ["file", "line"], "instructions")
    require(any(str(file).endswith("crew.cc") and line for file, line in lines), "no lines of crew.cc")
    inlined = grouped(x.rows, "time", ["function", "inlined"], "user_ns")
    require(any("grind" in str(function) and str(name).endswith("mix") for function, name in inlined),
            inlined)


CASES = [all_rows_have_the_same_columns, instructions_by_place_are_those_of_merge,
         time_by_place_and_thread_is_that_of_merge, functions_have_their_own_instructions,
         lines_and_inlined_calls_are_named]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--shadowprof", "--program", "--other", "--crew"):
        parser.add_argument(name, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    return run_in_folder(CASES, Subject, options, "shadowprof-tables-")


if __name__ == "__main__":
    sys.exit(main())
