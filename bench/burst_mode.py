#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What burst mode costs, how much it sees, and how right it is, by length and period of bursts.

usage: bench/burst_mode.py SHADOWPROF [--pairs N] [--only NAME,...] [--scale X] [--settings LIST]
                           [--engine emulator|translator] [--no-accuracy] [--prefill]

For each program and setting: N pairs of a native run and one in bursts, in turn. Wall is how much
longer the program ran, CPU how much more processor time it used, in the median of the pairs. The
budget is 100 %, so that the setting decides. Then one run in full mode, by which the last profile is
measured (`shadowprof compare`).

--prefill: instead of that, the instructions profiled up to each tenth of the first two seconds of
bursts of 2ms/50ms of the translator, with code translated ahead and without.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import programs
from measure import accuracy, percent, seconds, timed

SETTINGS = "2ms/4s,1ms/1s,2ms/1s,4ms/1s,2ms/250ms"
BURST = re.compile(r"burst \d+ at ([0-9.]+) s: (\d+) instructions")


def burst_run(options, burst, output, command, *more):
    return [options.shadowprof, "run", "--mode", "burst", "--engine", options.engine,
            "--max-overhead", "100%", "--burst", burst, *more, "-o", output, "--", *command]


def measure(options, folder, name, command):
    perfect = folder / "perfect.json"
    sampled = folder / "sampled.json"
    if not options.no_accuracy:
        seconds([options.shadowprof, "run", "--mode", "full", "-q", "-o", perfect, "--", *command])
    for burst in options.settings.split(","):
        walls, cpus, natives = [], [], []
        for _ in range(options.pairs):
            wall, cpu = timed(command)
            seconds(burst_run(options, burst, sampled, command, "-q"))
            profile = json.loads(sampled.read_text(encoding="utf-8"))
            natives.append(wall)
            walls.append(profile["run"]["duration_s"] / wall - 1)
            cpus.append(profile["overhead"]["program_cpu_s"] / cpu - 1)
        edges = None
        if not options.no_accuracy:
            edges = accuracy(options.shadowprof, perfect, sampled, ["edges"])["edges"]
        pause = profile["overhead"]["pause_s"]
        print(f"{name:<9} {burst:<9} {min(natives):>7.2f} {percent(statistics.median(walls)):>7} "
              f"{percent(statistics.median(cpus)):>7} "
              f"{percent(profile['overhead']['estimated_share']):>7} "
              f"{profile['coverage']['samples']:>7} {percent(profile['coverage']['share']):>7} "
              f"{percent(edges):>7} "
              + " ".join(f"{1e3 * pause[key]:>7.2f}" for key in ("p50", "p99", "max")), flush=True)
    if perfect.exists():
        os.unlink(perfect)


def cumulative(options, folder, name, command):
    for prefill in ("off", "on"):
        told = subprocess.run(burst_run(options, "2ms/50ms", folder / "p.json", command, "-v",
                                        "--prefill", prefill),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, check=True).stderr
        bursts = [(float(at), int(count)) for at, count in BURST.findall(told)]
        row = [sum(count for at, count in bursts if at <= tenth / 5) / 1e6 for tenth in range(1, 11)]
        print(f"{name:<9} {prefill:<4} " + " ".join(f"{millions:>7.2f}" for millions in row),
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=float, default=2, help="of the work of all but cc1plus")
    parser.add_argument("--settings", default=SETTINGS)
    parser.add_argument("--engine", default="emulator", choices=("emulator", "translator", "step"))
    parser.add_argument("--no-accuracy", action="store_true")
    parser.add_argument("--prefill", action="store_true")
    options = parser.parse_args()
    if options.prefill:
        options.engine = "translator"
        print("millions of instructions profiled after so many seconds\n" + " " * 14
              + " ".join(f"{tenth / 5:>7.1f}" for tenth in range(1, 11)))
    else:
        print(f"{'program':<9} {'burst':<9} {'native':>7} {'wall %':>7} {'CPU %':>7} {'est. %':>7} "
              f"{'bursts':>7} {'cover %':>7} {'edges %':>7} {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7}")
    with tempfile.TemporaryDirectory(prefix="burst-mode-") as directory:
        folder = pathlib.Path(directory)
        for name, command in programs.cases(folder, options.scale, options.only):
            (cumulative if options.prefill else measure)(options, folder, name, command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
