#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What attaching costs programs with much resident memory, and what it finds in them.

usage: bench/resident.py SHADOWPROF RESIDENT [--gigabytes LIST] [--threads LIST] [--ways LIST]
                         [--seconds N] [--option=OPT ...]

RESIDENT is bench/resident.c. For each size, number of threads and way (write, read), one program is
attached to for so many seconds once its memory is filled, with default settings. Shown are samples, how
they came about, the pauses of the program and what it all is said to have cost; and the longest time for
which one of its threads stood still, by the program's own clock, which counts other programs' turns, too.
"""

import argparse
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from measure import must, percent

TITLE = f"{'GB':>5} {'threads':>7} {'way':>6} {'samples':>8} {'forks':>6} {'bursts':>7} {'cost %':>7} " \
        f"{'p50 ms':>7} {'p99 ms':>7} {'max ms':>7} {'stood ms':>9}"
SECONDS_TO_ATTACH = 5


def attached(options, folder, gigabytes, threads, way):
    command = [options.resident, str(int(1024 * gigabytes)), str(options.seconds + SECONDS_TO_ATTACH), str(threads), way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        if program.stdout.readline() != "ready\n":
            sys.exit(f"{' '.join(command)} failed")
        output = folder / "profile.json"
        must([options.shadowprof, "attach", "-d", str(options.seconds), "-q", *options.option, "-o", output, program.pid])
        stood = re.search(r"longest stop ([0-9.]+) ms", program.stdout.read())
    if program.returncode != 0 or not stood:
        sys.exit(f"{' '.join(command)} ended {program.returncode}")
    return json.loads(output.read_text(encoding="utf-8")), float(stood[1])


def row(gigabytes, threads, way, profile, stood):
    overhead = profile["overhead"]
    pauses = overhead["pause_s"]
    milliseconds = " ".join(f"{1e3 * pauses[which]:>7.2f}" for which in ("p50", "p99", "max"))
    return f"{gigabytes:>5g} {threads:>7} {way:>6} {profile['coverage']['samples']:>8} {overhead['forks']:>6} " \
           f"{overhead['sampling']['bursts']:>7} {percent(overhead['estimated_share']):>7} {milliseconds} {stood:>9.2f}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n", maxsplit=1)[0])
    parser.add_argument("shadowprof")
    parser.add_argument("resident")
    parser.add_argument("--gigabytes", default="1,4,16")
    parser.add_argument("--threads", default="1,4")
    parser.add_argument("--ways", default="write,read")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--option", action="append", default=[])
    options = parser.parse_args()
    lists = [list(map(float, options.gigabytes.split(","))), list(map(int, options.threads.split(","))), options.ways.split(",")]
    print(TITLE, flush=True)
    with tempfile.TemporaryDirectory(prefix="shadowprof-resident-") as folder:
        for case in itertools.product(*lists):
            print(row(*case, *attached(options, pathlib.Path(folder), *case)), flush=True)


main()
