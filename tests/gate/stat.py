#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""shadowprof stat counts exactly, says what varies, and leaves the program's output and status alone.

usage: stat.py --shadowprof PATH --known PROGRAM --words PROGRAM

KNOWN is stat_known.S, whose counts are known by hand. Ends with "N passed, N failed"; status 1 on failure.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from gate_cases import require, run_cases

KNOWN = {"instructions": 13008, "branches": 4000, "branches-taken": 3499, "calls": 1000,
         "loads": 3501, "stores": 3501}


class Stat:
    def __init__(self, options, folder):
        self.shadowprof, self.known, self.words = map(
            os.path.abspath, (options.shadowprof, options.known, options.words))
        self.dir = pathlib.Path(folder)

    def run(self, *arguments, status=0):
        done = subprocess.run([self.shadowprof, "stat", *map(str, arguments)], cwd=self.dir, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        require(done.returncode == status,
                f"{arguments}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
        return done

    def counts(self, *arguments):
        self.run("--json", "-o", "counts.json", *arguments)
        return json.loads((self.dir / "counts.json").read_text())


def every_count_of_a_known_program_is_right(stat):
    counts = stat.counts("--", stat.known)
    for name, expected in KNOWN.items():
        require(counts["counts"][name] == {"min": expected, "max": expected},
                f"{name}: {counts['counts'][name]}, not {expected}")
    require(counts["exact"] and counts["runs"] == 1 and counts["varies"] == [], counts)
    functions = {f["function"]: f["instructions"]["min"] for f in counts["functions"]}
    require(functions == {"_start": KNOWN["instructions"] - 1000, "leaf": 1000}, functions)
    require({os.path.basename(f["module"]) for f in counts["functions"]} == {"stat_known"}, counts["functions"])


def counts_are_on_standard_error_in_columns(stat):
    done = stat.run("--", stat.known)
    require(done.stdout == "", done.stdout)
    for name, expected in KNOWN.items():
        require(re.search(rf"^ +{expected:,}   {name}( |$)", done.stderr, re.MULTILINE), done.stderr)
    require("# 87.5 % of branches" in done.stderr, done.stderr)
    require(re.search(r"12,008   _start .*# 92\.3 % of instructions", done.stderr), done.stderr)


def functions_are_named_as_reports_name_them(stat):
    said = stat.run("--top", "9", "--", stat.words).stderr
    require(re.search(r"   \S*hash \(words\.cc:\d+\) +# ", said), said)
    if shutil.which("strip"):
        stripped = stat.dir / "stripped"
        subprocess.run(["strip", "-o", stripped, stat.known], check=True)
        said = stat.run("--", stripped).stderr
        require(re.search(r"   stripped\+0x[0-9a-f]+ +# ", said), said)


def output_and_status_are_the_programs(stat):
    native = subprocess.run([stat.words], check=True, capture_output=True, text=True)
    require(stat.run("--", stat.words).stdout == native.stdout, "the output is another one")
    stat.run("--", "/bin/sh", "-c", "exit 7", status=7)
    stat.run("--repeat", "3", "--", "/bin/sh", "-c", "exit 7", status=7)
    stat.run("--", "/bin/sh", "-c", "kill -9 $$", status=-9)
    stat.run("--", "/nowhere", status=127)
    said = stat.run("--repeat", "0", "--", stat.known, status=125).stderr
    require(said.count("\n") == 1, said)
    said = stat.run("--repaet", "2", "--", stat.known, status=125).stderr
    require("did you mean --repeat? (see shadowprof stat --help)" in said, said)


def repetition_shows_whether_anything_varies(stat):
    counts = stat.counts("--repeat", "4", "--deterministic", "--clean-env", "--", stat.words)
    require(counts["runs"] == 4 and counts["varies"] == [], counts)
    text = stat.run("--repeat", "4", "--deterministic", "--clean-env", "--", stat.words).stderr
    require("Nothing varied in 4 runs." in text, text)
    # Each run finds one line more, and executes more for it.
    grows = "echo x >> lines; while read line; do :; done < lines"
    counts = stat.counts("--repeat", "3", "--", "/bin/sh", "-c", grows)
    require({"instructions", "branches", "functions"} <= set(counts["varies"]), counts)
    require(counts["counts"]["instructions"]["min"] < counts["counts"]["instructions"]["max"], counts)
    text = stat.run("--repeat", "2", "--", "/bin/sh", "-c", grows).stderr
    require("Not the same in 2 runs: instructions, branches" in text and "up to " in text, text)


def children_count_where_they_are_followed(stat):
    shell = ("--deterministic", "--clean-env", "--", "/bin/sh", "-c", f"{stat.known}; :")
    alone, followed = (stat.counts(*options, *shell)["counts"] for options in ((), ("-f",)))
    require(followed["instructions"]["min"] >= alone["instructions"]["min"] + KNOWN["instructions"],
            f"{alone} {followed}")


CASES = [every_count_of_a_known_program_is_right,
         counts_are_on_standard_error_in_columns,
         functions_are_named_as_reports_name_them, output_and_status_are_the_programs,
         repetition_shows_whether_anything_varies,
         children_count_where_they_are_followed]


def main():
    parser = argparse.ArgumentParser()
    for name in ("shadowprof", "known", "words"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-stat-") as folder:
        return run_cases(CASES, Stat(options, folder))


if __name__ == "__main__":
    sys.exit(main())
