#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The manual pages are well-formed, complete and true.

usage: man_pages.py ROOT [SHADOWPROF]

mandoc and groff have nothing to complain about, every page refers to pages that exist, and
man/meson.build installs all of them. With a SHADOWPROF program, each command's page documents
exactly the options that its --help lists, and --help fits a screen and begins with two examples.
Exit status 77, and the reason, where a check's tool is missing and nothing else is wrong.
"""

import pathlib
import re
import shutil
import subprocess
import sys

LINTERS = [["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-mdoc", "-ww", "-Tutf8", "-z"]]
# Every command has them; the pages say so once, in shadowprof(1).
COMMON_OPTIONS = {"--help", "-h"}
SCREEN_LINES, SCREEN_COLUMNS = 50, 80


def lint(page):
    for linter in LINTERS:
        if shutil.which(linter[0]):
            done = subprocess.run([*linter, str(page)], check=False, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for line in done.stdout.splitlines():
                yield f"{linter[0]}: {line}"
            if done.returncode != 0 and not done.stdout:
                yield f"{linter[0]} failed on {page} with status {done.returncode}"


def check_links(page, pages):
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        for name in re.findall(r"^\.(?:It )?Xr (shadowprof\S*) 1", line):
            if f"{name}.1" not in pages:
                yield f"{page}:{number}: refers to {name}(1), which does not exist"


def documented_options(page):
    options = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith(".It Fl"):
            for word in re.findall(r"Fl (-?[\w-]+)", line):
                options.add("-" + word)
    return options


def offered_options(shadowprof, command):
    done = subprocess.run([shadowprof, command, "--help"], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    options = set()
    for line in done.stdout.splitlines():
        head = re.match(r"  (-\S+(?: \S+)*)", line)  # perhaps two that belong together
        if head:
            options |= set(re.findall(r"(?:^|[ ,])(--?[\w-]+)", head.group(1)))
    return options


def check_help(command, shadowprof):
    text = subprocess.run([shadowprof, *command, "--help"], check=False, text=True,
                          stdout=subprocess.PIPE).stdout
    name = " ".join(["shadowprof", *command, "--help"])
    lines = text.splitlines()
    if len(lines) > SCREEN_LINES:
        yield f"{name} has {len(lines)} lines, more than a screen of {SCREEN_LINES}"
    for line in lines:
        if len(line) > SCREEN_COLUMNS:
            yield f"{name} has a line of more than {SCREEN_COLUMNS} columns: {line}"
    if "\nExample" not in text:
        yield f"{name} has no example"
    beginning = text.partition("\nOptions:")[0].partition("\nCommands:")[0]
    if beginning.count(" shadowprof ") < 3 or beginning == text:
        yield f"{name} does not begin with how it is used, and two examples"


def check_options(page, shadowprof):
    command = page.stem.partition("-")[2]
    yield from check_help([command] if command else [], shadowprof)
    if not command:
        return
    documented, offered = documented_options(page), offered_options(shadowprof, command)
    for option in sorted(offered - documented - COMMON_OPTIONS):
        yield f"{page}: does not document {option} of shadowprof {command}"
    for option in sorted(documented - offered):
        yield f"{page}: documents {option}, which shadowprof {command} does not have"


def main(root, shadowprof=None):
    folder = pathlib.Path(root) / "man"
    pages = sorted(folder.glob("*.1"))
    names = {page.name for page in pages}
    build = (folder / "meson.build").read_text(encoding="utf-8")
    problems = [f"man/meson.build does not install {name}" for name in names
                if f"'{name}'" not in build]
    for page in pages:
        problems += [*lint(page), *check_links(page, names)]
        if shadowprof:
            problems += check_options(page, shadowprof)
    if problems:
        print("\n".join(problems))
        return 1
    missing = [linter[0] for linter in LINTERS if not shutil.which(linter[0])]
    if missing:
        print(f"skipped: {' and '.join(missing)} not installed")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
