#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How fast the interpreter executes whole programs, and what captures cost.

usage: bench/emulator.py RUN_EMULATED [--only NAME,...] [--scale X]

Million guest instructions a second of the interpreter's own time (system calls, which the process
makes itself, are not in it; lowering of cold code is): with the block trace, with all values, with
values and addresses. Traces are written and thrown away. RUN_EMULATED is tests/emu/run_emulated of
a build.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import programs

PLANS = ([], ["--values"], ["--values", "--addresses"])


def speed(emulator, plan, command):
    done = subprocess.run([emulator, "-v", "--lazy", *plan, *[str(part) for part in command]],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    found = re.search(r"(\d+) instructions, ([\d.]+) million", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{command[0]} failed: {done.stderr[-500:]}")
    return int(found[1]), float(found[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("emulator")
    parser.add_argument("--only", default="gzip,bzip2,sqlite3,python3")
    parser.add_argument("--scale", type=float, default=0.05, help="of the work")
    options = parser.parse_args()
    print(f"{'program':<9} {'G instr':>8} {'trace':>8} {'values':>8} {'+addr.':>8}   million a second")
    with tempfile.TemporaryDirectory(prefix="emulator-") as folder:
        for name, command in programs.cases(pathlib.Path(folder), options.scale, options.only):
            found = [speed(options.emulator, plan, command) for plan in PLANS]
            print(f"{name:<9} {found[0][0] / 1e9:>8.2f} "
                  + " ".join(f"{rate:>8.0f}" for _, rate in found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
