#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the names of the unit tests that run under sanitizers, one a line.

usage: unit_tests.py ROOT BUILD_DIR EXTRA

A unit test is a meson test that has the name of a folder of src/. scripts/sanitizer-skip.txt names
those to leave out, "NAME: reason" a line; each is added to EXTRA as a skipped result.
"""

import json
import pathlib
import subprocess
import sys


def skip_list(path):
    reasons = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(":")
            reasons[name.strip()] = reason.strip()
    return reasons


def tests_of(build_dir):
    return json.loads(subprocess.run(["meson", "introspect", "--tests", build_dir], check=True,
                                     stdout=subprocess.PIPE).stdout)


def chosen(root, tests):
    """The names of the unit tests to run, and (name, reason) of those to leave out."""
    folders = {path.name for path in (root / "src").iterdir() if path.is_dir()}
    reasons = skip_list(root / "scripts/sanitizer-skip.txt")
    names = sorted({test["name"] for test in tests} & folders)
    return ([name for name in names if name not in reasons],
            [(name, reasons[name]) for name in names if name in reasons])


def main(root, build_dir, extra):
    run, left_out = chosen(root, tests_of(build_dir))
    with extra.open("a", encoding="utf-8") as results:
        for name, reason in left_out:
            results.write(f"{name} (sanitizers)\tskip\t{reason}\n")
    print("\n".join(run))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
