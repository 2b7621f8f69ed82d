#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What shadow mode costs, how much it sees, and how right it is.

usage: bench/shadow_mode.py SHADOWPROF [--pairs N] [--only NAME,...] [--scale X] [--profile LIST]
                            [--option=OPT ...] [--no-accuracy]

For each program: N pairs of a native run and a sampled one, in turn. Overhead is how much longer the
program itself ran, wall-clock, in the median of the pairs (in brackets the least and the greatest);
"after" is the time that shadowprof takes before and after it, mostly to name addresses. Then one run
in full mode, by which each sampled profile is measured (`shadowprof compare`): the means, and the
least and the greatest of the edges. Samples, estimates and coverage are means, too.
"""

import argparse
import math
import os
import pathlib
import statistics
import sys
import tempfile

import programs
from measure import accuracy, figures, percent, seconds

MEASURES = ("edges", "paths", "values", "call_pairs", "methods")


def compare(options, folder, command, sampled):
    """What accuracy() finds of each of the profiles."""
    perfect = folder / "perfect.json"
    same = [option for option in options.option if option == "--deterministic"]  # same addresses
    seconds([options.shadowprof, "run", "--mode", "full", "-q", *same, "--profile", options.profile,
             "-o", perfect, "--", *command])
    found = [accuracy(options.shadowprof, perfect, profile, MEASURES) for profile in sampled]
    os.unlink(perfect)
    return found


def known(values):
    return [value for value in values if value is not None]


def mean(values):
    values = known(values)
    return statistics.mean(values) if values else None


def spread(values):
    values = known(values)
    return f"[{percent(min(values))}, {percent(max(values))}]" if values else ""


def by_budget(profile):
    ended = profile["coverage"]["ended"]
    return ended.get("budget", 0) / max(1, sum(ended.values()))


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
          f"{'budget %':>8} {'cover %':>8} " + " ".join(f"{name:>10}" for name in MEASURES) + " [edges]")
    logs = []
    with tempfile.TemporaryDirectory(prefix="shadow-mode-") as name:
        folder = pathlib.Path(name)
        sampled = [folder / f"sampled-{i}.json" for i in range(options.pairs)]
        for name, command in programs.cases(folder, options.scale, options.only):
            natives, profiles, rest = [], [], []
            for path in sampled:
                natives.append(seconds(command))
                whole = seconds([options.shadowprof, "run", "--mode", "shadow", "-q", "--profile", options.profile,
                                 *options.option, "-o", path, "--", *command])
                profiles.append(figures(path))
                rest.append(whole - profiles[-1]["run"]["duration_s"])
            ratios = [profile["run"]["duration_s"] / native - 1 for profile, native in zip(profiles, natives)]
            overhead = statistics.median(ratios)
            logs.append(math.log(1 + overhead))
            found = [] if options.no_accuracy else compare(options, folder, command, sampled)
            print(f"{name:<9} {min(natives):>7.2f} {f'{percent(overhead)} {spread(ratios)}':>20} "
                  f"{statistics.median(rest):>7.2f} "
                  f"{100 * mean(profile['overhead']['estimated_share'] for profile in profiles):>7.2f} "
                  f"{mean(profile['coverage']['samples'] for profile in profiles):>8.0f} "
                  f"{percent(mean(by_budget(profile) for profile in profiles)):>8} "
                  f"{percent(mean(each['coverage'] for each in found)):>8} "
                  + " ".join(f"{percent(mean(each[m] for each in found)):>10}" for m in MEASURES)
                  + " " + spread([each["edges"] for each in found]), flush=True)
    if logs:
        print(f"geometric mean of the overhead: {100 * (math.exp(mean(logs)) - 1):.2f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
