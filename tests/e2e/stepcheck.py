#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the hand-counted instruction totals of tests/guest/*.expect.json against the hardware.

The expectations are what engines are held to, so they themselves are counted by single steps
(stepcount.c) first. Needs ptrace, but neither an engine nor shadowprof.
"""

import argparse
import glob
import json
import os
import subprocess
import sys

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "guest")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stepcount", required=True)
    parser.add_argument("--guest-dir", required=True)
    options = parser.parse_args()
    failed = 0
    paths = sorted(glob.glob(os.path.join(SOURCES, "*.expect.json")))
    for path in paths:
        name = os.path.basename(path).split(".")[0]
        with open(path, encoding="utf-8") as f:
            expected = json.load(f)["instructions"]
        guest = os.path.join(options.guest_dir, name + ".bare")
        result = subprocess.run([options.stepcount, guest], capture_output=True, text=True,
                                check=False)
        right = result.returncode == 0 and result.stdout.strip() == str(expected)
        failed += not right
        print(f"{'ok  ' if right else 'FAIL'}  {name}: by hand {expected}, stepped "
              f"{result.stdout.strip()} {result.stderr.strip()}")
    print(f"{len(paths) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
