#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What shadow mode costs, how much it sees, and how right it is.

usage: bench/shadow_mode.py SHADOWPROF [--pairs N] [--only NAME,...] [--scale X] [--profile LIST]
                            [--option=OPT ...] [--no-accuracy]

For each program: N pairs of a native run and a sampled one, in turn. Overhead is how much longer the
program itself ran, wall-clock, in the median of the pairs (in brackets the least and the greatest);
"after" is the time that shadowprof takes before and after it, mostly to name addresses. Then one run
in full mode, by which the last sampled profile is measured (`shadowprof compare`).
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile

import programs
from measure import accuracy, percent, seconds

MEASURES = ("edges", "paths", "values", "call_pairs", "methods")


def compare(options, folder, command, sampled):
    perfect = folder / "perfect.json"
    same = [option for option in options.option if option == "--deterministic"]  # same addresses
    seconds([options.shadowprof, "run", "--mode", "full", "-q", *same, "--profile", options.profile,
             "-o", perfect, "--", *command])
    found = accuracy(options.shadowprof, perfect, sampled, MEASURES)
    os.unlink(perfect)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=float, default=2, help="of the work of all but cc1plus")
    parser.add_argument("--profile", default="edge,call,method")
    parser.add_argument("--option", action="append", default=[], help="of the sampled runs")
    parser.add_argument("--no-accuracy", action="store_true")
    options = parser.parse_args()
    print(f"{'program':<9} {'native':>7} {'overhead %':>20} {'after s':>7} {'est. %':>7} {'samples':>8} "
          f"{'budget %':>8} {'cover %':>8} " + " ".join(f"{name:>10}" for name in MEASURES))
    logs = []
    with tempfile.TemporaryDirectory(prefix="shadow-mode-") as name:
        folder = pathlib.Path(name)
        sampled = folder / "sampled.json"
        for name, command in programs.cases(folder, options.scale, options.only):
            run = [options.shadowprof, "run", "--mode", "shadow", "-q", "--profile", options.profile,
                   *options.option, "-o", sampled, "--", *command]
            natives, ratios, rest = [], [], []
            for _ in range(options.pairs):
                natives.append(seconds(command))
                whole = seconds(run)
                profile = json.loads(sampled.read_text(encoding="utf-8"))
                ratios.append(profile["run"]["duration_s"] / natives[-1])
                rest.append(whole - profile["run"]["duration_s"])
            ended = profile["coverage"]["ended"]
            by_budget = ended.get("budget", 0) / max(1, sum(ended.values()))
            overhead = statistics.median(ratios) - 1
            logs.append(math.log(1 + overhead))
            found = {} if options.no_accuracy else compare(options, folder, command, sampled)
            spread = f"{100 * overhead:.2f} [{100 * (min(ratios) - 1):.1f}, {100 * (max(ratios) - 1):.1f}]"
            print(f"{name:<9} {min(natives):>7.2f} {spread:>20} {statistics.median(rest):>7.2f} "
                  f"{100 * profile['overhead']['estimated_share']:>7.2f} "
                  f"{profile['coverage']['samples']:>8} {percent(by_budget):>8} "
                  f"{percent(found.get('coverage')):>8} "
                  + " ".join(f"{percent(found.get(m)):>10}" for m in MEASURES), flush=True)
    if logs:
        mean = math.exp(sum(logs) / len(logs)) - 1
        print(f"geometric mean of the overhead: {100 * mean:.2f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
