#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Commands that read profiles, under valgrind's memcheck: no invalid access, nothing uninitialised that is used, no
memory that is lost.

usage: memcheck.py --shadowprof PATH --program PROGRAM [--only TEXT]

PROGRAM has a few instructions, so that the profiles are small: memcheck takes 50 times as long. Commands that trace
are not run: valgrind runs a program in its own way, which ptrace shows.
"""

import argparse
import functools
import os
import shutil
import subprocess
import sys

from gate_cases import Skipped, require, run_in_folder

FOUND = 99  # the status of memcheck's own
KINDS = "edge,call,method,path,value,latency,address,hazard,waste,stream"
COMMANDS = {
    "report": ["report", "a.json"],
    "report of json": ["report", "--json", "a.json"],
    "page": ["report", "--html", "-o", "a.html", "a.json"],
    "page of changes": ["report", "--html", "-o", "ab.html", "a.json", "b.json.zst"],
    "annotate": ["annotate", "a.json", "_start"],
    "diff": ["diff", "a.json", "b.json.zst"],
    "check": ["check", "a.json", "b.json.zst"],
    "compare": ["compare", "a.json", "b.json.zst"],
    "merge": ["merge", "-o", "m.json.gz", "a.json", "b.json.zst"],
    "baseline": ["baseline", "save", "name", "a.json"],
    "syscalls": ["syscalls"],
    "probes": ["probes"],
    "help": ["run", "--help"],
    "a file that is no profile": ["report", "cut.json"],
    **{f"export of {name}": ["export", "--format", name, "-o", f"x.{name}", "a.json"] for name in
       ("callgrind", "pprof", "otlp", "speedscope", "firefox", "chrome", "ndjson", "folded", "perf-script",
        "autofdo")},
}
REFUSED = {"a file that is no profile": 125}


class Subject:
    def __init__(self, options, folder):
        self.valgrind = shutil.which("valgrind")
        if not self.valgrind:
            raise Skipped("valgrind is not installed")
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.dir = folder
        for name in ("a.json", "b.json.zst"):
            subprocess.run([self.shadowprof, "run", "-q", "--mode", "full", "--profile", KINDS, "-o", name, "--",
                            os.path.abspath(options.program)], cwd=folder, check=True, timeout=60)
        with open(os.path.join(folder, "a.json"), "rb") as whole, \
                open(os.path.join(folder, "cut.json"), "wb") as cut:
            cut.write(whole.read()[:-100])

    def check(self, name):
        done = subprocess.run([self.valgrind, "-q", f"--error-exitcode={FOUND}", "--leak-check=full",
                               "--errors-for-leak-kinds=definite,indirect", self.shadowprof, *COMMANDS[name]],
                              cwd=self.dir, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
                              check=False)
        require(done.returncode == REFUSED.get(name, 0), f"status {done.returncode}\n{done.stderr[-3000:]}")


def case_of(name):
    case = functools.partial(Subject.check, name=name)
    case.__name__ = name
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    return run_in_folder([case_of(name) for name in COMMANDS], Subject, options, "shadowprof-memcheck-")


if __name__ == "__main__":
    sys.exit(main())
