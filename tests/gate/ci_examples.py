#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The examples of examples/ci count what they measure alone, equally in each run, and `check` finds their regressions.

usage: ci_examples.py --shadowprof PATH --examples FOLDER --base PROGRAM --slower PROGRAM --marks LIBRARY

Ends with "N passed, N failed"; status 1 on failure.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from gate_cases import require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402  pylint: disable=wrong-import-position

PYTHON = "/usr/bin/python3"
LIMIT = "instructions<=+0.5%"


class Examples:
    def __init__(self, options, folder):
        for name, value in vars(options).items():
            setattr(self, name, os.path.abspath(value))
        self.dir = pathlib.Path(folder)

    def run(self, *arguments, cwd=None, status=0):
        done = subprocess.run([self.shadowprof, *map(str, arguments)], cwd=cwd or self.dir, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        require(done.returncode == status,
                f"{arguments}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
        return done

    def profile(self, name, within, *command, cwd=None):
        self.run("run", "-q", "--mode", "full", "--deterministic", "--clean-env", "--env", "PYTHONDONTWRITEBYTECODE=1",
                 "--within", within, "-o", self.dir / name, "--", *command, cwd=cwd)
        return read_profile(self.dir / name)

    def is_caught(self, within, before, after, least, most):
        """`before` and `after` make profiles of the name that they are given."""
        base, again, now = before("base.json"), before("again.json"), after("new.json")
        counts = [p["coverage"]["instructions_profiled"] for p in (base, again, now)]
        require(counts[0] == counts[1], f"not the same twice: {counts}")
        change = counts[2] / counts[0] - 1
        require(least <= change <= most, f"a regression of {100 * change:.2f} %: {counts}")
        region = now["run"]["region"]
        require(region["within"] == within and region["program_instructions"] > counts[2], region)
        self.run("check", "--limit", LIMIT, "base.json", "again.json")
        found = self.run("check", "--limit", LIMIT, "base.json", "new.json", status=3).stdout
        require("1 regression" in found, found)
        return base


def a_loop_of_cplusplus(examples):
    base = examples.is_caught("count_words",
                              lambda name: examples.profile(name, "count_words", examples.base),
                              lambda name: examples.profile(name, "count_words", examples.slower), 0.005, 0.02)
    require(base["run"]["region"]["entries"] == 50, base["run"]["region"])
    require([f["name"].split("(")[0] for f in base["functions"]] == ["count_words"], base["functions"])


def a_test_of_python(examples):
    has_pytest = subprocess.run([PYTHON, "-c", "import pytest"], check=False, capture_output=True).returncode == 0
    command = [PYTHON, *(["-m", "pytest", "-q", "-p", "no:cacheprovider"] if has_pytest else ["test_words.py"])]
    folder = examples.dir / "pytest"
    folder.mkdir()
    for name in ("conftest.py", "marks.py", "test_words.py"):
        shutil.copy(pathlib.Path(examples.examples) / name, folder)
    shutil.copy(examples.marks, folder / "libmarks.so")

    def with_words(words):
        def profile(name):
            shutil.copy(pathlib.Path(examples.examples) / words, folder / "words.py")
            return examples.profile(name, "marks", *command, cwd=folder)
        return profile

    base = examples.is_caught("marks", with_words("words.py"), with_words("words_slower.py"), 0.005, 0.02)
    require(base["run"]["region"]["entries"] == 1, base["run"]["region"])


CASES = [a_loop_of_cplusplus, a_test_of_python]


def main():
    parser = argparse.ArgumentParser()
    for name in ("shadowprof", "examples", "base", "slower", "marks"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-ci-") as folder:
        return run_cases(CASES, Examples(options, folder))


if __name__ == "__main__":
    sys.exit(main())
