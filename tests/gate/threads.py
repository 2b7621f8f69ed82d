#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The order of threads and processes is the same in each run with --deterministic (docs/deterministic.md).

usage: threads.py --shadowprof PATH --threads THREADS --children CHILDREN --signals SIGNALS [--runs N] [--only WORD]

Programs of several threads, and several processes with -f, execute the same instructions whatever else the
machine does, on one core and on all, and say the same; --schedule-seed gives other orders, each of which comes
again. Ends with "N passed, N failed"; status 1 on failure.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from gate_cases import require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/"}
# Who asks for what is not the machine's own is not among them.
PROGRAMS = [
    ("threads", ["THREADS"]),
    ("64 threads", ["THREADS", "64"]),
    ("xz -T2", ["xz", "-T2", "-1", "--block-size=64KiB", "-c", "INPUT"]),
    ("pigz -p2", ["pigz", "-p2", "-c", "INPUT"]),
    ("a pipeline -f", ["-f", "--", "sh", "-c", "gzip -c input | gzip -dc | sort -n | tail -n 3; (echo b; echo a) | sort"]),
    ("children and their signals -f", ["-f", "--", "CHILDREN"]),
    ("signals", ["SIGNALS"]),
    ("paths of threads", ["--profile", "edge,path", "--", "THREADS", "4"]),
]


class Bench:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.own_programs = {"THREADS": os.path.abspath(options.threads),
                             "CHILDREN": os.path.abspath(options.children),
                             "SIGNALS": os.path.abspath(options.signals)}
        self.runs = options.runs
        self.folder = pathlib.Path(folder)
        (self.folder / "input").write_text("".join(f"{i * i} line\n" for i in range(20000)), encoding="ascii")
        self.cores = sorted(os.sched_getaffinity(0))

    def start(self, command, *options, cores=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
              file="profile.json", loud=False):
        places = {"INPUT": "input", **self.own_programs}
        words = [places.get(word, word) for word in command]
        if "--" not in words:
            words.insert(0, "--")
        return subprocess.Popen(
            [self.shadowprof, "run", "--mode", "full", "--deterministic", "--clean-env", "--cpu-features", "baseline",
             *([] if loud else ["-q"]), *options, "-o", file, *words], cwd=self.folder, env=ENVIRONMENT, stdin=stdin,
            stdout=stdout, stderr=subprocess.PIPE,
            preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)

    def outcome(self, command, *options, cores=None, file="profile.json"):
        # Into a file: who writes more than fits into a pipe waits for us.
        with open(self.folder / "output", "w+b") as written:
            process = self.start(command, *options, cores=cores, stdout=written, file=file)
            _, errors = process.communicate(timeout=240)
            written.seek(0)
            output = written.read()
        require(process.returncode == 0, f"{command}: status {process.returncode}\n{errors.decode()}")
        profile = read_profile(self.folder / file)
        return {"instructions": profile["coverage"]["instructions_profiled"], "output": output,
                "errors": errors, "tables": profile["tables"], "syscalls": profile["syscalls"]}


def is_there(command):
    program = command[command.index("--") + 1] if "--" in command else command[0]
    return program in ("THREADS", "CHILDREN", "SIGNALS") or shutil.which(program) is not None


@contextlib.contextmanager
def load():
    """Somebody else uses all processors."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def expect_same(name, outcomes):
    first = outcomes[0]
    for outcome in outcomes[1:]:
        require(outcome["output"] == first["output"], f"{name}: says {first['output']!r} and {outcome['output']!r}")
        require(outcome["instructions"] == first["instructions"],
                f"{name}: {[o['instructions'] for o in outcomes]} instructions")
        require(outcome == first, f"{name}: a table differs, or a warning")


def counts_are_the_same_in_each_run(bench):
    for name, command in PROGRAMS:
        if not is_there(command):
            print(f"skip  {name}: it is not installed")
            continue
        outcomes = [bench.outcome(command, cores=bench.cores[:1]), bench.outcome(command)]
        with load():
            outcomes.append(bench.outcome(command))
        outcomes += [bench.outcome(command) for _ in range(bench.runs - len(outcomes))]
        expect_same(name, outcomes)


def a_seed_is_an_order(bench):
    orders = {}
    for seed in range(1, 5):
        outcomes = [bench.outcome(["THREADS"], "--schedule-seed", str(seed)) for _ in range(2)]
        expect_same(f"seed {seed}", outcomes)
        orders[outcomes[0]["output"]] = seed
    require(len(orders) == 4, f"seeds give the same orders: {orders}")


def reads_input(tracer):
    """Does a program below it, as its descendants are, sleep in read(0, ...) of the pipe that we write to?"""
    pipe = f"pipe:[{os.fstat(tracer.stdin.fileno()).st_ino}]"
    processes = [tracer.pid]
    for process in processes:
        with contextlib.suppress(OSError):  # it ends meanwhile
            proc = pathlib.Path(f"/proc/{process}")
            reads = (proc / "syscall").read_text(encoding="ascii").startswith("0 0x0 ")
            if reads and os.readlink(proc / "fd" / "0") == pipe:
                return True
            for children in (proc / "task").glob("*/children"):
                processes += children.read_text(encoding="ascii").split()
    return False


def what_comes_from_outside_is_named(bench):
    process = bench.start(["-f", "--", "sh", "-c", "cat | cat; true"], stdin=subprocess.PIPE, loud=True)
    for _ in range(300):
        if reads_input(process):
            break
        time.sleep(0.1)
    time.sleep(1)
    output, errors = process.communicate(b"it came late\n", timeout=60)
    require(process.returncode == 0 and output == b"it came late\n", f"{process.returncode} {output} {errors}")
    warnings = [line for line in errors.decode().splitlines() if "from outside" in line]
    require(len(warnings) == 1 and " read" in warnings[0], f"not one warning: {errors.decode()}")


def nothing_is_named_that_is_the_programs_own(bench):
    for command in (["THREADS"], ["-f", "--", "sh", "-c", "sleep 0.1 | cat; sleep 0.1"]):
        _, errors = bench.start(command, loud=True).communicate(timeout=120)
        require(b"from outside" not in errors, errors.decode())


def with_the_real_clock_threads_run_as_they_do(bench):
    process = bench.start(["THREADS"], "--clock", "real")
    output, errors = process.communicate(timeout=60)
    require(process.returncode == 0 and output.startswith(b"order "), f"{process.returncode} {output} {errors}")


CASES = [
    counts_are_the_same_in_each_run,
    a_seed_is_an_order,
    what_comes_from_outside_is_named,
    nothing_is_named_that_is_the_programs_own,
    with_the_real_clock_threads_run_as_they_do,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--threads", required=True)
    parser.add_argument("--children", required=True)
    parser.add_argument("--signals", required=True)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-threads-") as folder:
        return run_cases(CASES, Bench(options, folder), options.only)


if __name__ == "__main__":
    sys.exit(main())
