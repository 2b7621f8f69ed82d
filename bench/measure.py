# SPDX-License-Identifier: MIT
"""What the benchmarks share: commands that must succeed, their times, and accuracy."""

import json
import resource
import subprocess
import sys
import time


def must(command, keep_output=False):
    """Runs a command; what it printed, if that is wanted. Ends the benchmark if it fails."""
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE if keep_output else subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


def timed(command):
    """(wall-clock, processor time) of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    must(command)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds(command):
    return timed(command)[0]


def cpu_seconds(command):
    return timed(command)[1]


def accuracy(shadowprof, perfect, sampled, measures):
    """Of each measure (None: neither profile has it), and "coverage"."""
    compared = json.loads(must([shadowprof, "compare", "--json", perfect, sampled], keep_output=True))
    found = {"coverage": compared["coverage"]}
    for name in measures:
        part = compared[name]
        found[name] = part and part.get("accuracy", part.get("overlap"))
    return found


def figures(path):
    """What a profile says of the run as a whole: its rows may be many."""
    profile = json.loads(path.read_text(encoding="utf-8"))
    return {part: profile[part] for part in ("run", "overhead", "coverage")}


def percent(value):
    return "-" if value is None else f"{100 * value:.1f}"
