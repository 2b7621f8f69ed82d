#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often `check` calls a program slower that has not changed.

usage: bench/rerun.py SHADOWPROF [--runs N] [--only NAME,...] [--scale X] [--mode MODE]
                      [--option=OPT ...] [--limit RULE ...] [--folder DIR]

Each program is profiled N + 1 times and the limits (`check`'s own unless --limit gives others) are
applied to each run after the first: against the first, as a gate does with a kept baseline, and
against the run before it, so that one unlucky baseline is not counted N times. Printed are each alarm
as it comes, and at the end how many checks failed, and of how many samples and seconds of CPU time
the profiles were. --folder keeps the profiles; runs that are there already are not made again.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import programs

REGRESSION = 3


def profile(options, command, path):
    if not path.exists():
        done = subprocess.run([options.shadowprof, "run", "--mode", options.mode, "-q",
                               *options.option, "-o", path, "--", *command],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-500:]}")
    told = subprocess.run(["zstdcat", path], check=True, capture_output=True)
    content = json.loads(told.stdout)
    return content["coverage"]["samples"], content["overhead"]["program_cpu_s"]


def alarm(options, base, new):
    """What the check found, or None."""
    limits = [word for rule in options.limit for word in ("--limit", rule)]
    done = subprocess.run([options.shadowprof, "check", *limits, base, new], capture_output=True,
                          text=True, check=False)
    if done.returncode not in (0, REGRESSION):
        sys.exit(f"check {base} {new}: {done.stderr}")
    return done.stdout if done.returncode == REGRESSION else None


def measure(options, name, command, folder):
    figures = []
    alarms = {"the first": 0, "the one before": 0}
    first = before = None
    for number in range(options.runs + 1):
        path = folder / f"{name}.{number}.json.zst"
        figures.append(profile(options, command, path))
        if number == 0:
            first = before = path
            continue
        pairs = {"the first": first}
        if number > 1:
            pairs["the one before"] = before
        for what, base in pairs.items():
            found = alarm(options, base, path)
            if found is not None:
                alarms[what] += 1
                print(f"{name}: run {number} against {what}:\n{found}", flush=True)
        before = path
        print(f"{name}: {number} of {options.runs}", file=sys.stderr, flush=True)
    samples, cpu_s = zip(*figures)
    print(f"{name}: {options.runs} runs of {min(cpu_s):.1f} to {max(cpu_s):.1f} s of CPU time, "
          f"{min(samples)} to {max(samples)} samples (median {statistics.median(samples):g}): "
          f"{alarms['the first']} alarms in {options.runs} checks against the first, "
          f"{alarms['the one before']} in {options.runs - 1} against the run before", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", default="sqlite3,perl")
    parser.add_argument("--scale", type=float, default=2.5, help="of the work of all but cc1plus")
    parser.add_argument("--mode", default="shadow")
    parser.add_argument("--option", action="append", default=[], help="of the runs")
    parser.add_argument("--limit", action="append", default=[], help="instead of the default ones")
    parser.add_argument("--folder", help="keep the profiles here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rerun-") as name:
        folder = pathlib.Path(options.folder or name)
        folder.mkdir(exist_ok=True)
        for program, command in programs.cases(pathlib.Path(name), options.scale, options.only):
            measure(options, program, command, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
