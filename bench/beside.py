#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a program loses beside a copy of itself on another core, as beside a replica that works all the time.

usage: bench/beside.py [--rounds N] [--only NAME,...] [--scale X] [--turn SECONDS]

Two native runs take turns on one core, as in overhead.py; while one of them has its turn, a third one runs
on another core. Both programs are frozen in between, and so is the third one in the turns of the other.
plan/prices.h has what was found. Needs root and version 2 of control groups.
"""

import argparse
import math
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile

import programs
from overhead import Side, error_of_mean, groups


def take_turns(beside, alone, neighbour, seconds, rng):
    """Until one of them has ended."""
    while True:
        for side in rng.sample([beside, alone], 2):
            running = [side, neighbour] if side is beside else [side]
            for one in running:
                one.group.thaw()
            over = side.has_ended(seconds * rng.uniform(0.5, 1.5))
            if over or neighbour.has_ended(0):
                return
            for one in running:
                one.group.freeze()


def measure(command, cores, seconds, rng):
    """(seconds alone, seconds of which some were beside the other)"""
    with groups("beside", "alone", "neighbour") as made:
        sides = []
        for core, group in zip((cores[0], cores[0], cores[1]), made):
            sides.append(Side(group, command, command))
            os.sched_setaffinity(sides[-1].pid, {core})
            group.freeze()
        beside, alone, neighbour = sides
        take_turns(beside, alone, neighbour, seconds, rng)
        neighbour.group.write("cgroup.kill", "1")
        neighbour.process.wait()
        for side in sorted((beside, alone), key=lambda side: side.end is None):
            side.finish()
        return tuple(side.group.ran(side.start, side.end) for side in (alone, beside))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=float, default=3, help="of the work")
    parser.add_argument("--turn", type=float, default=0.1, help="seconds")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing stays frozen
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("this needs two cores")
    rng = random.Random()
    print(f"{'program':<9} {'alone s':>7} {'loss %':>7} {'+-':>5}")
    with tempfile.TemporaryDirectory(prefix="beside-") as name:
        for program, command in programs.cases(pathlib.Path(name), options.scale, options.only):
            times = [measure(command, cores, options.turn, rng) for _ in range(options.rounds)]
            losses = [100 * math.log(beside / alone) for alone, beside in times]
            print(f"{program:<9} {statistics.median(alone for alone, _ in times):>7.2f} "
                  f"{statistics.mean(losses):>7.2f} {error_of_mean(losses):>5.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
