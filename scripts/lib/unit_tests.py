#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the names of the unit tests that run under sanitizers, one a line.

usage: unit_tests.py [--targets] ROOT BUILD_DIR EXTRA

With --targets what ninja is to build for them, instead, and EXTRA stays as it is.

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


def introspected(what, build_dir):
    return json.loads(subprocess.run(["meson", "introspect", f"--{what}", build_dir], check=True,
                                     stdout=subprocess.PIPE).stdout)


def chosen(root, tests):
    """The unit tests to run, by name, and (name, reason) of those to leave out."""
    folders = {path.name for path in (root / "src").iterdir() if path.is_dir()}
    reasons = skip_list(root / "scripts/sanitizer-skip.txt")
    unit_tests = {test["name"]: test for test in tests if test["name"] in folders}
    return ({name: test for name, test in unit_tests.items() if name not in reasons},
            [(name, reasons[name]) for name in sorted(unit_tests) if name in reasons])


def print_targets(build_dir, tests):
    wanted = {target for test in tests.values() for target in test["depends"]}
    for target in introspected("targets", build_dir):
        if target["id"] in wanted:
            for file in target["filename"]:
                print(pathlib.Path(file).relative_to(pathlib.Path(build_dir).resolve()))


def main(root, build_dir, extra, only_targets):
    run, left_out = chosen(root, introspected("tests", build_dir))
    if only_targets:
        print_targets(build_dir, run)
        return
    with extra.open("a", encoding="utf-8") as results:
        for name, reason in left_out:
            results.write(f"{name} (sanitizers)\tskip\t{reason}\n")
    for name in sorted(run):
        print(name)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--targets"]
    main(pathlib.Path(arguments[0]), arguments[1], pathlib.Path(arguments[2]),
         "--targets" in sys.argv)
