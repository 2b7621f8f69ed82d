#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What full mode costs: CPU time of program and profiler together, over native CPU time.

usage: bench/full_mode.py SHADOWPROF [--repeat N] [--only NAME,...] [--latency] [--scale X]
                          [--profiles NAME,...]

For each program, in turn and interleaved: native; the engine alone (block trace recorded and
discarded, --profile none); edges and calls collected (the default); paths; values; addresses counted
by cache line; loads timed (with --latency, as it is slow). The figure of a program is the
ratio of the smallest CPU times of N repeats; the line after them is the geometric mean. All programs
come from Debian's packages; their inputs are made here, the same each time.

Last, cold code: a program that executes much code a few times. Of each column, the microseconds of
translation for each piece of code (a fragment), and all that the run took beyond a native one,
stops and the profile's making included.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import tempfile

import programs
from measure import cpu_seconds


def cold_code(prefix, output, profiles, repeat):
    command = ["/usr/bin/python3", "-I", "-c", "import " + ", ".join(programs.PYTHON_MODULES)]
    native = min(cpu_seconds(command) for _ in range(repeat + 1))
    for name, what in profiles:
        best = (math.inf, math.inf, 0)
        for _ in range(repeat):
            cpu = cpu_seconds(prefix + ["--profile", what, "--"] + command)
            overhead = json.loads(output.read_text())["overhead"]
            fragments = overhead["translated_blocks"]
            best = min(best, (1e6 * (cpu - native) / fragments,
                              1e6 * overhead["translation_s"] / fragments, fragments))
        print(f"cold code, {name + ':':<12} {best[1]:.1f} us of translation and {best[0]:.1f} us in all "
              f"for each of {best[2]} fragments", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--profiles", default="", help="columns to measure, by their names")
    parser.add_argument("--latency", action="store_true", help="time loads, too")
    parser.add_argument("--scale", type=float, default=1, help="of the work of all but cc1plus")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="full-mode-"))
    output = folder / "profile.json"
    prefix = [options.shadowprof, "run", "--mode", "full", "-q", "-o", output]
    only = [name for name in options.only.split(",") if name]
    profiles = [("engine", "none"), ("edges+calls", "edge,call"), ("paths", "edge,path"),
                ("values", "edge,value"), ("addresses", "edge,address")]
    if options.latency:
        profiles.append(("latency", "edge,latency"))
    if options.profiles:
        profiles = [column for column in profiles if column[0] in options.profiles.split(",")]
    print(f"{'program':<10} {'native s':>9} " + " ".join(f"{name:>11}" for name, _ in profiles))
    logs = [0.0] * len(profiles)
    count = 0
    try:
        named = ",".join(name for name in only if name != "cold")
        for name, command in programs.cases(folder, options.scale, named) if named or not only else []:
            runs = [command] + [prefix + ["--profile", what, "--"] + command for _, what in profiles]
            best = [math.inf] * len(runs)
            for _ in range(options.repeat):
                for i, full in enumerate(runs):
                    best[i] = min(best[i], cpu_seconds(full))
                    if output.exists():
                        os.unlink(output)
            ratios = [b / best[0] for b in best[1:]]
            print(f"{name:<10} {best[0]:>9.2f} " + " ".join(f"{r:>11.2f}" for r in ratios), flush=True)
            logs = [a + math.log(b) for a, b in zip(logs, ratios)]
            count += 1
        if count:
            means = [math.exp(a / count) for a in logs]
            print(f"{'geo. mean':<10} {'':>9} " + " ".join(f"{m:>11.2f}" for m in means))
        if not only or "cold" in only:
            cold_code(prefix, output, profiles, options.repeat)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
