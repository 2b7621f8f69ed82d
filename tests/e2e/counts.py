#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Exact counts: full mode against the hardware, and against itself.

Hardware: static programs are single-stepped (stepcount.c) and profiled; both must say the same
number of instructions. They are the guests whose counts are known by hand, and random programs
(tests/fuzz), those that end without a signal: a step into a handler would count as an instruction.

Itself: two runs with --deterministic must give the same counts in every table. Everyday programs,
dynamic and interpreting ones; what makes them differ from run to run by themselves is switched off
(their hash seeds). Addresses are fixed; the kernel's random bytes (AT_RANDOM) are not.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

# Whatever the caller's environment is: its length moves the stack. Restartable sequences are refused on some hosts
# (docs/full-mode.md), so the C library does not ask for them.
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0",
               "GLIBC_TUNABLES": "glibc.pthread.rseq=0"}

SQL = ("create table t(a integer, b text); insert into t with recursive n(i) as (select 1 union all "
       "select i+1 from n where i<3000) select i, hex(i*7) from n; create index x on t(b); "
       "select count(*), sum(a), max(b) from t where b > '3';")
TWICE = [
    ("gzip", ["gzip", "-c", "INPUT"]),
    ("sqlite3", ["sqlite3", ":memory:", SQL]),
    ("python3", ["/usr/bin/python3", "-S", "-B", "-c",
                 "print(sum(hash(str(i)) % 7 for i in range(3000)))"]),
    ("perl", ["perl", "-e", "my %h; $h{$_ % 97} .= $_ for 1..5000; print length join '', "
                            "map { $h{$_} } sort keys %h"]),
]


class Counter:
    """Runs commands under shadowprof in a directory of its own."""

    def __init__(self, shadowprof, directory):
        self.shadowprof = os.path.abspath(shadowprof)
        self.directory = directory

    def profile(self, command, *, as_stepped=False):
        """As stepped: with the vdso, whose symbols static programs read when they start."""
        path = os.path.join(self.directory, "profile.json")
        run = [self.shadowprof, "run", "--mode", "full", "-o", path]
        run = ["setarch", "-R", *run] if as_stepped else [*run, "--deterministic"]
        subprocess.run([*run, "--", *command], cwd=self.directory, env=ENVIRONMENT, check=False,
                       capture_output=True, timeout=120)
        profile = read_profile(path)
        os.unlink(path)
        return profile

    def step(self, stepcount, command):
        done = subprocess.run(["setarch", "-R", stepcount, *command], cwd=self.directory,
                              env=ENVIRONMENT, check=False, capture_output=True, text=True,
                              timeout=280)
        # The program's own output, if any, comes first or last; ours is a number alone.
        return [line for line in done.stdout.splitlines() if line.isdigit()]


def against_hardware(counter, options):
    """(name, complaint or None) for every static program."""
    stepcount = os.path.abspath(options.stepcount)
    guests = sorted(glob.glob(os.path.join(os.path.abspath(options.guest_dir), "exact_*.bare")))
    commands = [(os.path.basename(guest), [guest]) for guest in guests]
    if options.generate:
        commands += random_programs(counter, options)
    for name, command in commands:
        stepped = counter.step(stepcount, command)
        profiled = counter.profile(command, as_stepped=True)["coverage"]["instructions_profiled"]
        right = str(profiled) in stepped
        yield name, None if right else f"stepped {stepped}, profiled {profiled}"


def random_programs(counter, options):
    runner = os.path.abspath(options.runner)
    commands = []
    for seed in range(1, 100):
        path = os.path.join(counter.directory, f"case{seed}")
        subprocess.run([options.generate, str(seed), "1", path], check=True)
        native = subprocess.run([runner, path], capture_output=True, text=True, check=True)
        if " signal=" not in native.stdout:
            commands.append((f"random program {seed}", [runner, path]))
        if len(commands) == options.random:
            break
    return commands


def comparable(profile):
    """What must not change from run to run: no times, and not the shape of our own work."""
    kept = {key: profile[key] for key in ("modules", "functions", "hotlists", "tables", "syscalls")}
    kept["coverage"] = profile["coverage"]
    return kept


def first_difference(a, b, path=""):
    if type(a) is not type(b):
        return f"{path}: {a!r} and {b!r}"
    if isinstance(a, dict):
        for key in sorted(set(a) | set(b)):
            if key not in a or key not in b:
                return f"{path}.{key} is only in one of them"
            if a[key] != b[key]:
                return first_difference(a[key], b[key], f"{path}.{key}")
    if isinstance(a, list):
        if len(a) != len(b):
            return f"{path}: {len(a)} and {len(b)} entries"
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                return first_difference(x, y, f"{path}[{i}]")
    return f"{path}: {a!r} and {b!r}"


def against_itself(counter):
    source = os.path.join(counter.directory, "input")
    with open(source, "wb") as f:
        for i in range(20000):
            f.write(b"%d %d\n" % (i, i * i % 1013))
    for name, command in TWICE:
        if shutil.which(command[0]) is None:
            yield name, "skipped"
            continue
        command = [source if word == "INPUT" else word for word in command]
        first = comparable(counter.profile(command))
        second = comparable(counter.profile(command))
        yield name, None if first == second else first_difference(first, second)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--stepcount", help="single-steps a program and prints the count")
    parser.add_argument("--guest-dir", help="where the guests were built")
    parser.add_argument("--generate", help="generator of random programs")
    parser.add_argument("--runner", help="what executes them")
    parser.add_argument("--random", type=int, default=3, help="how many random programs to step")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="shadowprof-counts-") as directory:
        counter = Counter(options.shadowprof, directory)
        results = list(against_itself(counter)) if not options.stepcount else []
        if options.stepcount:
            results += against_hardware(counter, options)
        for name, complaint in results:
            skipped = complaint == "skipped"
            failed += complaint is not None and not skipped
            print(f"{'skip' if skipped else 'FAIL' if complaint else 'ok  '}  {name}"
                  f"{': ' + complaint if complaint and not skipped else ''}")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
