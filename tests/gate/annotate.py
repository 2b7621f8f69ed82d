#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""annotate counts what a program is known to execute, and says clearly what it cannot show.

usage: annotate.py --shadowprof PATH --program PROGRAM --source FILE

PROGRAM is words_base: its loops' lengths are in its source. Ends with "N passed, N failed"; status 1
on failure.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from gate_cases import require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

TEXT, PARSE_ROUNDS, HASH_ROUNDS, MIX_ROUNDS = 20_000, 4, 6, 40_000


class Annotations:
    def __init__(self, options, folder):
        self.shadowprof, self.source = options.shadowprof, pathlib.Path(options.source)
        self.folder = pathlib.Path(folder)
        self.program = self.folder / "words"
        shutil.copy(options.program, self.program)
        self.file = self.profile(self.program)

    def profile(self, program):
        out = self.folder / f"{program.name}.json"
        done = self.call("run", "--mode", "full", "-q", "-o", out, "--", program)
        require(done.returncode == 0, done.stderr)
        return out

    def call(self, *arguments):
        return subprocess.run([self.shadowprof, *map(str, arguments)], check=False, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120)

    def shown(self, function, file=None):
        done = self.call("annotate", "--json", file or self.file, function)
        require(done.returncode == 0 and not done.stderr, done.stderr)
        return json.loads(done.stdout)

    def refused(self, *arguments):
        done = self.call("annotate", *arguments)
        require(done.returncode == 125 and not done.stdout, f"status {done.returncode}")
        require(done.stderr.startswith("shadowprof: ") and done.stderr.count("\n") == 1, done.stderr)
        return done.stderr


def line_with(a, text):
    for number, line in enumerate(a.source.read_text(encoding="utf-8").splitlines(), 1):
        if text in line:
            return number
    raise AssertionError(f"no line with {text}")


def counts_are_the_programs(a):
    for function, text, times in (("hash", "sum = sum * 31", TEXT * HASH_ROUNDS),
                                  ("parse", "if (c == ' ')", TEXT * PARSE_ROUNDS),
                                  ("mix", "sum = (sum ^", MIX_ROUNDS)):
        shown = a.shown(function)
        wanted = line_with(a, text)
        runs = [row["executions"] for row in shown["lines"] if row["line"] == wanted]
        require(runs == [times], f"{function}: {runs} executions of line {wanted}, not {times}")


def instructions_add_up_to_the_function(a):
    profile = read_profile(a.file)
    own = {row["function"]: row["self_instructions"] for row in profile["hotlists"]["methods"]}
    for name, instructions in own.items():
        if "parse" in name or "hash(" in name:
            shown = a.shown(name)
            require(sum(i["count"] for i in shown["instructions"]) == instructions, name)
            require(shown["instructions_executed"] == instructions, name)


def branches_have_their_bias(a):
    shown = a.shown("mix")
    branches = [i for i in shown["instructions"] if "taken_share" in i]
    # The loop's branch: taken for each round but the last.
    require(any(abs(i["taken_share"] - (1 - 1 / MIX_ROUNDS)) < 1e-9 for i in branches),
            f"{branches}")


def handles_and_places_name_functions(a):
    shown = a.shown("mix")
    for name in (shown["instructions"][3]["handle"],
                 f"words+{shown['instructions'][3]['offset']:#x}"):
        require(a.shown(name)["function"] == shown["function"], name)


def text_fits_its_columns(a):
    for view in ("both", "source", "code"):
        done = a.call("annotate", "--view", view, a.file, "hash")
        require(done.returncode == 0, done.stderr)
        require(all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout)
    require("120 k" in done.stdout, done.stdout)


def unknown_and_ambiguous_names(a):
    require("executed" in a.refused(a.file, "no_such_function"), "no sentence")
    require("+0x" in a.refused(a.file, "has"), "no names that contain it")


def without_debug_information(a):
    stripped = a.folder / "stripped"
    done = subprocess.run(["objcopy", "--strip-debug", str(a.program), str(stripped)], check=False,
                          capture_output=True, text=True)
    require(done.returncode == 0, done.stderr)
    shown = a.shown("hash", a.profile(stripped))
    require(shown["lines"] == [] and shown["notes"], "lines without debug information")
    require(max(i["count"] for i in shown["instructions"]) >= TEXT * HASH_ROUNDS, "no counts")


def another_program_is_refused(a):
    other = a.folder / "other"
    shutil.copy("/bin/true", other)
    program = a.folder / "replaced"
    shutil.copy(a.program, program)
    file = a.profile(program)
    other.replace(program)
    require("build-id" in a.refused(file, "hash"), "does not say why")


CASES = [counts_are_the_programs, instructions_add_up_to_the_function, branches_have_their_bias,
         handles_and_places_name_functions, text_fits_its_columns, unknown_and_ambiguous_names,
         without_debug_information, another_program_is_refused]


def main():
    parser = argparse.ArgumentParser()
    for option in ("--shadowprof", "--program", "--source"):
        parser.add_argument(option, required=True)
    with tempfile.TemporaryDirectory() as folder:
        return run_cases(CASES, Annotations(parser.parse_args(), folder))


if __name__ == "__main__":
    sys.exit(main())
