#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What merging many sampled runs costs, and how near the sum comes to a run in full mode.

usage: bench/merged.py SHADOWPROF [--runs N] [--only NAME,...] [--scale X] [--profile LIST]
                       [--option=OPT ...] [--folder DIR]

Each program is run once in full mode and N times in shadow mode, each time with another seed. For the
first 1, 3, 10, 30, ... of the runs: `shadowprof merge`, its processor time and peak memory, the size of
the sum, and how right that is (`shadowprof compare`). --folder keeps the profiles; runs that are there
already are not made again.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import programs
from measure import accuracy, must, percent

MEASURES = ("methods", "call_pairs", "edges", "paths")


def profile(options, path, mode, command, *more):
    if not path.exists():
        part = path.with_name("part." + path.name)
        must([options.shadowprof, "run", "--mode", mode, "-q", "--profile", options.profile, *more,
              "-o", part, "--", *command])
        part.rename(path)
    return path


def costs(command):
    """(seconds of processor time, peak memory in MB) of a command."""
    started = subprocess.Popen([str(part) for part in command], stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(started.pid, 0)
    if status != 0:
        sys.exit(f"{command[:5]} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def numbers(most):
    """1, 3, 10, 30, ... and the last."""
    steps = [n for k in range(9) for n in (10 ** k, 3 * 10 ** k) if n < most]
    return [*steps, most]


def measure(options, name, command, folder):
    full = profile(options, folder / f"{name}.full.json.zst", "full", command)
    runs = [profile(options, folder / f"{name}.{seed}.json.zst", "shadow", command, "--seed", seed,
                    *options.option) for seed in range(1, options.runs + 1)]
    merged = folder / f"{name}.sum.json.zst"
    for number in numbers(len(runs)):
        merged.unlink(missing_ok=True)
        cpu_s, peak_mb = costs([options.shadowprof, "merge", "-o", merged, *runs[:number]])
        right = accuracy(options.shadowprof, full, merged, MEASURES)
        samples = json.loads(must(["zstdcat", merged], keep_output=True))["coverage"]["samples"]
        cells = [name, number, samples, f"{cpu_s:.2f}", f"{peak_mb:.0f}",
                 f"{merged.stat().st_size / 1000:.0f}",
                 *(percent(right[measure]) for measure in MEASURES)]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof", type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--only", default="sqlite3,python3")
    parser.add_argument("--scale", type=float, default=0.2, help="of the programs' work")
    parser.add_argument("--profile", default="edge,call,path,method")
    parser.add_argument("--option", action="append", default=[], help="of the sampled runs")
    parser.add_argument("--folder", help="keep the profiles here")
    options = parser.parse_args()
    columns = ["", "runs", "samples", "CPU s", "peak MB", "kB"]
    print(f"| {' | '.join([*columns, *MEASURES])} |\n|---|{'--:|' * (5 + len(MEASURES))}")
    with tempfile.TemporaryDirectory(prefix="merged-") as name:
        folder = pathlib.Path(options.folder or name)
        folder.mkdir(exist_ok=True)
        for program, command in programs.cases(folder, options.scale, options.only):
            measure(options, program, command, folder)


main()
