#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The examples of examples/ci count what they measure alone, equally in each run, and `check` finds their regressions.

usage: ci_examples.py --shadowprof PATH --examples FOLDER --base PROGRAM --slower PROGRAM --marks LIBRARY [--only NAME]
       [--cargo-target FOLDER]

With --only the cases whose names hold NAME. What cargo makes stays in its folder for the next time.
Ends with "N passed, N failed, N skipped"; status 1 on failure, 77 if nothing could run here.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from gate_cases import Skipped, require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402  pylint: disable=wrong-import-position

PYTHON = "/usr/bin/python3"
LIMIT = "instructions<=+0.5%"
# Debian's crates, by which nothing is fetched.
CRATES = pathlib.Path("/usr/share/cargo/registry")


class Examples:
    def __init__(self, options, folder):
        for name, value in vars(options).items():
            if name != "only":
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


def a_benchmark_of_google(examples):
    def build(name, *options):
        program = examples.dir / name
        done = subprocess.run(["g++", "-O2", "-g", "-DGOOGLE_BENCHMARK", *options, "count_words.cc", "-o", program,
                               "-lbenchmark", "-lpthread"], cwd=examples.examples, check=False, capture_output=True)
        require(done.returncode == 0, done.stderr.decode())
        return program

    found = subprocess.run(["g++", "-x", "c++", "-fsyntax-only", "-include", "benchmark/benchmark.h", os.devnull],
                           check=False, capture_output=True)
    if found.returncode != 0:
        raise Skipped("libbenchmark-dev is not installed")
    before, after = build("google"), build("google_slower", "-DREGRESSION")
    base = examples.is_caught("count_words", lambda name: examples.profile(name, "count_words", before),
                              lambda name: examples.profile(name, "count_words", after), 0.005, 0.02)
    require(base["run"]["region"]["entries"] == 50, base["run"]["region"])


def a_benchmark_of_criterion(examples):
    if not (CRATES.is_dir() and list(CRATES.glob("criterion-0.3*")) and os.access("/usr/bin/cargo", os.X_OK)):
        raise Skipped("cargo and librust-criterion-dev are not installed")
    folder = examples.dir / "criterion"
    shutil.copytree(pathlib.Path(examples.examples) / "criterion", folder)
    (folder / ".cargo").mkdir()
    (folder / ".cargo" / "config.toml").write_text(
        f'[source.crates-io]\nreplace-with = "debian"\n[source.debian]\ndirectory = "{CRATES}"\n', encoding="utf-8")

    def build(name, *options):
        done = subprocess.run(["/usr/bin/cargo", "bench", "--offline", "--no-run", "--message-format", "json", *options],
                              cwd=folder, check=False, capture_output=True, text=True,
                              env={**os.environ, "PATH": "/usr/bin:/bin", "CARGO_TARGET_DIR": examples.cargo_target})
        require(done.returncode == 0, done.stderr)
        made = [m for m in map(json.loads, done.stdout.splitlines()) if m.get("target", {}).get("kind") == ["bench"]]
        return shutil.copy(made[0]["executable"], folder / name)

    before, after = build("before"), build("after", "--features", "regression")
    function = "count_words::count_words"
    # The linker's name of the function is another one with the feature, and it is known all the same.
    base = examples.is_caught(function,
                              lambda name: examples.profile(name, function, before, "--bench", "--test"),
                              lambda name: examples.profile(name, function, after, "--bench", "--test"), 0.005, 0.02)
    require(base["run"]["region"]["entries"] == 1, base["run"]["region"])
    said = examples.run("check", "base.json", "new.json", "--limit", "function:*:instructions<=+0.5%", status=3).stdout
    require("1 regression" in said and f"instructions of {function}: " in said and "(+1." in said, said)


def python_has(module):
    return subprocess.run([PYTHON, "-c", f"import {module}"], check=False, capture_output=True).returncode == 0


def a_test_of_python(examples):
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if python_has("pytest") else ["test_words.py"]
    in_python(examples, "test_words.py", 1, *command)


def a_test_of_pytest_benchmark(examples):
    if not python_has("pytest_benchmark"):
        raise Skipped("python3-pytest-benchmark is not installed")
    in_python(examples, "test_benchmark.py", 5, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def in_python(examples, test, entries, *arguments):
    command = [PYTHON, *arguments]
    folder = examples.dir / pathlib.Path(test).stem
    (folder / ".benchmarks").mkdir(parents=True)  # pytest-benchmark makes it in its first run
    for name in ("conftest.py", "marks.py", test):
        shutil.copy(pathlib.Path(examples.examples) / name, folder)
    shutil.copy(examples.marks, folder / "libmarks.so")

    def with_words(words):
        def profile(name):
            shutil.copy(pathlib.Path(examples.examples) / words, folder / "words.py")
            return examples.profile(name, "marks", *command, cwd=folder)
        return profile

    base = examples.is_caught("marks", with_words("words.py"), with_words("words_slower.py"), 0.005, 0.02)
    require(base["run"]["region"]["entries"] == entries, base["run"]["region"])


CASES = [a_loop_of_cplusplus, a_test_of_python, a_benchmark_of_google, a_test_of_pytest_benchmark,
         a_benchmark_of_criterion]


def main():
    parser = argparse.ArgumentParser()
    for name in ("shadowprof", "examples", "base", "slower", "marks"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--cargo-target", default="cargo")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-ci-") as folder:
        return run_cases(CASES, Examples(options, folder), options.only)


if __name__ == "__main__":
    sys.exit(main())
