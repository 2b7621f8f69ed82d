#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Commands in README.md and docs/ that work as they are printed.

usage: documented_commands.py SOURCE_FOLDER [--shadowprof PATH --build FOLDER]

A block of commands (indented by four blanks, or fenced) has a marker right above it, or above the
first of several that follow one another: "<!-- run -->": this test runs its commands, in the order of
the document, in one folder where build/ is the build; "<!-- example -->": it is for the reader to
adapt. A marker holds until the next heading or marker. Without --shadowprof only the markers are looked
at; with it the options of every shadowprof command in a block must exist, too.

In a block with lines that begin with "$ ", those are the commands and the others what they print;
"time" before a command is dropped.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COMMAND = re.compile(r"^(\$ |\(?cd |shadowprof |scripts/|\./scripts|meson |ninja |clang|gcc |g\+\+|apt-get |"
                     r"bench/|curl |jq |perf |perf2bolt|llvm-|mkdir |tar |PATH=|build/|\./)")
MARKER = re.compile(r"<!-- (run|example) -->")
TIMEOUT_S = 240


class Block:
    def __init__(self, name, line, marker):
        self.where, self.marker, self.lines = f"{name}:{line}", marker, []

    def commands(self):
        """Whole commands: continued lines are put together."""
        has_prompt = any(line.startswith("$ ") for line in self.lines)
        commands, open_line = [], False
        for line in self.lines:
            text = re.sub(r"\s+#.*", "", line)
            if open_line:
                commands[-1] = commands[-1][:-1] + " " + text.strip()
            elif has_prompt and line.startswith("$ "):
                commands.append(re.sub(r"^time ", "", text[2:]))
            elif not has_prompt and COMMAND.match(line):
                commands.append(text)
            else:
                continue
            open_line = commands[-1].endswith("\\")
        return [c for c in commands if c]


def blocks_of(path, name):
    blocks, marker, fence, open_block = [], None, False, None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = MARKER.search(line)
        if line.startswith("```"):
            fence = not fence
            open_block = Block(name, number, marker) if fence else None
            if fence and line[3:].strip() in ("", "sh", "console"):
                blocks.append(open_block)
        elif fence:
            open_block.lines.append(line)
        elif found:
            marker, open_block = found.group(1), None
        elif line.startswith("#"):
            marker, open_block = None, None
        elif line.startswith("    "):
            if open_block is None:
                open_block = Block(name, number, marker)
                blocks.append(open_block)
            open_block.lines.append(line[4:])
        elif line:
            open_block = None
    return [b for b in blocks if b.commands()]


def options_exist(shadowprof, block, known):
    problems = []
    for command in block.commands():
        for part in re.split(r"[|;&]+", command):
            words = part.split()
            if len(words) < 2 or words[0] != "shadowprof" or not re.fullmatch("[a-z]+", words[1]):
                continue
            if words[1] not in known:
                listed = subprocess.run([shadowprof, words[1], "--help"], capture_output=True,
                                        text=True, check=False, timeout=60)
                known[words[1]] = listed.stdout if listed.returncode == 0 else None
            if known[words[1]] is None:
                continue  # a program: shadowprof PROGRAM
            for word in words[2:]:
                if word == "--":
                    break
                name = word.split("=")[0]
                if name.startswith("--") and not re.search(re.escape(name) + r"\b", known[words[1]]):
                    problems.append(f"{block.where}: {words[1]} has no option {name}")
    return problems


def run_block(block, folder, environment):
    for command in block.commands():
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, check=False,
                              capture_output=True, timeout=TIMEOUT_S)
        # 3: a check that found what the text says it finds.
        allowed = (0, 3) if "shadowprof check" in command else (0,)
        if done.returncode not in allowed:
            return [f"{block.where}: {command!r} ended with {done.returncode}: "
                    f"{done.stderr.decode(errors='replace')[:500]}"]
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--shadowprof", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--build", type=pathlib.Path)
    options = parser.parse_args()
    source = options.source.resolve()
    problems, ran, known = [], 0, {}
    for path in [source / "README.md", *sorted((source / "docs").glob("*.md"))]:
        blocks = blocks_of(path, str(path.relative_to(source)))
        problems += [f"{b.where}: say <!-- run --> or <!-- example --> above these commands"
                     for b in blocks if b.marker is None]
        if options.shadowprof is None:
            continue
        with tempfile.TemporaryDirectory(prefix="shadowprof-docs-") as name:
            folder = pathlib.Path(name)
            (folder / "build").symlink_to(options.build.resolve())
            (folder / "bin").mkdir()
            shutil.copy(options.shadowprof.resolve(), folder / "bin" / "shadowprof")
            environment = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": name,
                           "LANG": os.environ.get("LANG", "C.UTF-8")}
            for block in blocks:
                problems += options_exist(options.shadowprof, block, known)
                if block.marker == "run":
                    problems += run_block(block, folder, environment)
                    ran += len(block.commands())
    print("\n".join(problems) if problems else f"{ran} documented commands work as printed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
