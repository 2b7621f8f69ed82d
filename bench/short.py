#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What profiling a program costs that does next to nothing: shadowprof run -q of each mode.

usage: short.py SHADOWPROF... [--runs N] [--mode MODE] [--fresh] [-- PROGRAM...]

Several shadowprofs are run in turn, so that what else happens on the machine meets all of them. Times are
of shadowprof, the program and all that they start. Without PROGRAM: true, sh and python3.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

PROGRAMS = [["true"], ["sh", "-c", ":"], ["/usr/bin/python3", "-c", "pass"]]


def run(command, environment):
    """(wall, processor) milliseconds of a command without output."""
    null = os.open(os.devnull, os.O_RDWR)
    start = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, environment,
                          file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)])
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    os.close(null)
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with {status}")
    return 1e3 * wall, 1e3 * (usage.ru_utime + usage.ru_stime)


def measure(shadowprofs, mode, program, options, directory):
    times = {name: [] for name in [None, *shadowprofs]}
    for number in range(options.runs + 1):
        for name, runs in times.items():
            environment = dict(os.environ)
            if options.fresh:
                environment["XDG_CACHE_HOME"] = tempfile.mkdtemp(dir=directory)
            profile = os.path.join(directory, "profile.json")
            ours = [name, "run", "-q", "--mode", mode, "-o", profile, "--", *program]
            command = program if name is None else ours
            took = run(command, environment)
            if number > 0:  # the first one is for what is kept
                runs.append(took)
    for name, runs in times.items():
        wall, processor = zip(*runs)
        figures = [f(t) for t in (wall, processor) for f in (min, statistics.median)]
        print(f"| {mode} | `{' '.join(program)}` | {name or 'natively'} | "
              + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)


def main():
    command, dashes, program = sys.argv[1:], "--" in sys.argv, []
    if dashes:
        cut = command.index("--")
        command, program = command[:cut], command[cut + 1:]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof", nargs="+")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--mode", action="append", choices=["shadow", "burst", "full"])
    parser.add_argument("--fresh", action="store_true", help="with nothing kept from earlier runs")
    options = parser.parse_args(command)
    print("| mode | program | | wall ms, least | median | processor ms, least | median |")
    print("|---|---|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="shadowprof-short-") as directory:
        for one in [program] if program else PROGRAMS:
            for mode in options.mode or ["shadow", "burst", "full"]:
                measure(options.shadowprof, mode, one, options, directory)


if __name__ == "__main__":
    main()
