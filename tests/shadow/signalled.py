#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Threads that are sent signals all the time get each of them, in order, stop for few, and get on.

usage: signalled.py --shadowprof FILE --signalled FILE --stormed FILE [--only NAME]
"""

import os
import subprocess
import sys
import time

from case_list import require, run, run_with_programs
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

SECONDS = 4
EAGER = ["--max-overhead", "100%", "--load", "1", "-F", "50"]
BURSTS = ["--mode", "burst", "--max-overhead", "100%", "--burst", "1ms/20ms"]


def shadowprof(options, *words):
    done = run(options, *words)
    require(done.returncode == 0, f"{done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout


def attached(options, *how):
    """The profile, and how many signals there were until the program's end."""
    with subprocess.Popen([options.signalled, str(SECONDS)], stdout=subprocess.PIPE,
                          text=True) as process:
        time.sleep(0.2)
        shadowprof(options, "attach", *how, "-o", "p.json", str(process.pid))
        said, _ = process.communicate(timeout=60)
    require(process.returncode == 0, f"{process.returncode}: {said}")
    return read_profile("p.json"), int(said)


def most_signals_stop_nobody(options):
    """The default has few samples, so threads are traced anew seldom."""
    found, signals = attached(options)
    stops = found["overhead"]["stops"]["signal"]
    require(stops < signals / 3, f"{stops} stops for {signals} signals")
    require(found["overhead"]["by_cause"].get("signals", 0) > 0 or stops == 0, found["overhead"])


def samples_lose_none(options):
    found, _ = attached(options, *EAGER)
    require(found["coverage"]["samples"] > 0, found["coverage"])


def bursts_lose_none(options):
    attached(options, *BURSTS)
    attached(options, *BURSTS, "--engine", "translator")


def looks_lose_none(options):
    attached(options, "--time", "looks", "--max-overhead", "50%")


def launched_and_followed(options):
    for more in ([], ["-f"], EAGER):
        said = shadowprof(options, "run", "-q", *more, "-o", "p.json", "--", options.signalled,
                          str(SECONDS))
        require(int(said) > 0, said)


def who_gets_signals_faster_than_it_stops_gets_on(options):
    for what in ("handled", "ignored"):
        said = subprocess.run([options.stormed, what], check=True, stdout=subprocess.PIPE, text=True).stdout
        for mode in (["-f"], EAGER, [*EAGER, "-f"], BURSTS, ["--mode", "full"]):
            found = shadowprof(options, "run", "-q", *mode, "-o", "p.json", "--", options.stormed, what)
            require(found == said, f"{what} {mode}: {found}, natively {said}")


CASES = [most_signals_stop_nobody, samples_lose_none, bursts_lose_none, looks_lose_none,
         launched_and_followed, who_gets_signals_faster_than_it_stops_gets_on]


if __name__ == "__main__":
    sys.exit(run_with_programs(CASES, __doc__, ("shadowprof", "signalled", "stormed")))
