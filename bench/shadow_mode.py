#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What shadow mode costs, how much it sees, and how right it is.

usage: bench/shadow_mode.py SHADOWPROF [--pairs N] [--only NAME,...|others] [--scale X | --seconds S]
                            [--profile LIST] [--truth LIST] [--option=OPT ...] [--no-accuracy]

For each program: N pairs of a native run and a sampled one, in turn. Overhead is how much longer the
program itself ran, wall-clock, in the median of the pairs (in brackets the least and the greatest);
"after" is the time that shadowprof takes before and after it, mostly to name addresses. Samples and
estimates are means. Only this needs a quiet machine.

Then each program runs once in full mode, by which each sampled profile is measured (`shadowprof
compare`): the means, and the least and the greatest of the edges. "total" is the instructions that the
sampled profile believes that the program executed, of those that it did.
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

TRIED_SCALE = 5  # cc1plus has the same work below
MEASURES = ("edges", "paths", "values", "call_pairs", "methods")


def truth_of(options, case):
    """What accuracy() finds of each of its sampled profiles, and the part of all instructions that each believes in."""
    perfect = case.folder / "perfect.json"
    same = [option for option in options.option if option == "--deterministic"]  # same addresses
    seconds([options.shadowprof, "run", "--mode", "full", "-q", *same, "--profile", options.truth or options.profile,
             "-o", perfect, "--", *case.command])
    found = [accuracy(options.shadowprof, perfect, path, MEASURES) for path in case.profiles]
    total = figures(perfect)["coverage"]["instructions_total"]
    os.unlink(perfect)
    for each, path in zip(found, case.profiles):
        each["total"] = figures(path)["coverage"]["instructions_total"] / total
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


class Case:
    """A program, its sampled profiles, and what its runs took."""

    def __init__(self, name, command, folder, pairs):
        self.name = name
        self.command = command
        self.folder = folder
        self.profiles = [folder / f"sampled-{i}.json" for i in range(pairs)]

    def sample(self, options):
        """Prints what that cost; the logarithm of the median."""
        natives, found, rest = [], [], []
        for path in self.profiles:
            natives.append(seconds(self.command))
            whole = seconds([options.shadowprof, "run", "--mode", "shadow", "-q", "--profile", options.profile,
                             *options.option, "-o", path, "--", *self.command])
            found.append(figures(path))
            rest.append(whole - found[-1]["run"]["duration_s"])
        ratios = [profile["run"]["duration_s"] / native - 1 for profile, native in zip(found, natives)]
        overhead = statistics.median(ratios)
        print(f"{self.name:<9} {min(natives):>7.2f} {f'{percent(overhead)} {spread(ratios)}':>20} "
              f"{statistics.median(rest):>7.2f} "
              f"{100 * mean(profile['overhead']['estimated_share'] for profile in found):>7.2f} "
              f"{mean(profile['coverage']['samples'] for profile in found):>8.0f} "
              f"{percent(mean(by_budget(profile) for profile in found)):>8}", flush=True)
        return math.log(1 + overhead)

    def judge(self, options):
        """Prints how right they are; the mean of each measure."""
        found = truth_of(options, self)
        means = {m: mean(each[m] for each in found) for m in ("coverage", "total", *MEASURES)}
        print(f"{self.name:<9} " + " ".join(f"{percent(value):>10}" for value in means.values())
              + " " + spread([each["edges"] for each in found]), flush=True)
        return means


def cases_of(options, folder):
    """Each program with work for --seconds, or for --scale."""
    for name, _ in programs.cases(folder, 0.01, options.only):
        own = folder / name
        own.mkdir()
        scale = options.scale
        if options.seconds:
            (_, command), = programs.cases(own, TRIED_SCALE, name)
            scale = TRIED_SCALE * options.seconds / seconds(command)
        (_, command), = programs.cases(own, scale, name)
        yield Case(name, command, own, options.pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=float, default=2, help="of the work of all but cc1plus")
    parser.add_argument("--seconds", type=float, default=0, help="that each is to run, about")
    parser.add_argument("--profile", default="edge,call,method")
    parser.add_argument("--truth", default="", help="what full mode collects, if not the same")
    parser.add_argument("--option", action="append", default=[], help="of the sampled runs")
    parser.add_argument("--no-accuracy", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadow-mode-") as name:
        print(f"{'program':<9} {'native':>7} {'overhead %':>20} {'after s':>7} {'est. %':>7} {'samples':>8} "
              f"{'budget %':>8}")
        cases, logs = [], []
        for case in cases_of(options, pathlib.Path(name)):
            logs.append(case.sample(options))
            cases.append(case)
        print(f"geometric mean of the overhead: {100 * (math.exp(mean(logs)) - 1):.2f} %", flush=True)
        if options.no_accuracy:
            return 0
        print("program   " + " ".join(f"{m:>10}" for m in ("cover %", "total %", *MEASURES)) + " [edges]")
        found = [case.judge(options) for case in cases]
        print("mean      " + " ".join(f"{percent(mean(each[m] for each in found)):>10}" for m in ("coverage", "total", *MEASURES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
