#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Thousands of attaches to one program with threads, and as many violent ends of them.

usage: endurance.py --shadowprof FILE --observer FILE [--cycles N] [--kills N] [--tracer-kills N]
                    [--seed N]

Not part of the test suite: it takes an hour. The observer (observer.cc) watches itself meanwhile.
  cycles        attached to for a few samples, and left
  kills         SIGKILL of what the user started, at a random moment
  tracer kills  SIGKILL of the tracer behind it, each time with another program: in the window of a
                pause this harms the program, so here it is only counted how often

After each one the program is traced by nobody, its masks and threads are what they were, and no
process of ours is left.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

OFTEN = ["--max-overhead", "100%", "--load", "1", "--freq", "1000", "--sample-size", "100K"]
KEPT = ("Threads", "SigBlk", "SigIgn", "SigCgt", "Uid", "Gid", "NoNewPrivs", "Seccomp")
PATIENCE = 20


def fields(pid, names):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.split(":")[0] in names]


def children(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task")
    return {child for task in tasks.iterdir() for child in (task / "children").read_text().split()}


def left_of(leader):
    """What is left of an attach: those that getsid(2) says it leads."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text(encoding="utf-8")
        except OSError:
            continue
        if entry.isdigit() and stat.rsplit(")", 1)[1].split()[3] == str(leader):
            found.append(int(entry))
    return found


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Program:
    """The observer, and how it was before anybody attached."""

    def __init__(self, observer):
        self.process = subprocess.Popen([observer, "0"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        self.pid = self.process.pid
        self.before = fields(self.pid, KEPT)

    def problem(self, leader):
        """None, or what is not as it was."""
        if self.process.poll() is not None:
            return f"the program has ended with {self.process.returncode}"
        if not until(lambda: not left_of(leader)):
            return f"processes are left: {left_of(leader)}"
        if not until(lambda: fields(self.pid, ("TracerPid",)) == ["TracerPid:\t0"]):
            return "it is still traced"
        if not until(lambda: fields(self.pid, KEPT) == self.before):
            return f"{self.before} became {fields(self.pid, KEPT)}"
        if not until(lambda: not children(self.pid) & self.children_a_moment_ago()):
            return f"children are left: {children(self.pid)}"
        return None

    def children_a_moment_ago(self):
        found = children(self.pid)  # it has children of its own, for a moment each
        time.sleep(0.002)
        return found

    def end(self):
        out, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode == 0 and out == b"clean\n", out.decode()


def attach(options, pid, duration):
    return subprocess.Popen([options.shadowprof, "attach", "-q", *OFTEN, "-d", str(duration), "-o",
                             "p.json", str(pid)], start_new_session=True,
                            stderr=subprocess.PIPE)


def cycles(options, generator):
    program = Program(options.observer)
    for i in range(options.cycles):
        sampler = attach(options, program.pid, generator.uniform(0.005, 0.05))
        _, err = sampler.communicate(timeout=120)
        problem = program.problem(sampler.pid)
        if sampler.returncode != 0 or problem:
            return f"cycle {i}: status {sampler.returncode}, {err.decode().strip()}, {problem}"
        if (i + 1) % 1000 == 0:
            print(f"{i + 1} cycles", flush=True)
    unharmed, out = program.end()
    return None if unharmed else "the program saw: " + out


def kills(options, generator):
    program = Program(options.observer)
    for i in range(options.kills):
        sampler = attach(options, program.pid, 10)
        time.sleep(generator.uniform(0.02, 0.4))
        sampler.kill()
        sampler.communicate()
        problem = program.problem(sampler.pid)
        if problem:
            return f"kill {i}: {problem}"
        if (i + 1) % 100 == 0:
            print(f"{i + 1} kills", flush=True)
    unharmed, out = program.end()
    return None if unharmed else "the program saw: " + out


def tracer_kills(options, generator):
    harmed = 0
    for _ in range(options.tracer_kills):
        program = Program(options.observer)
        sampler = attach(options, program.pid, 10)
        # The tracer is the process that traces, not its parent.
        if not until(lambda: fields(program.pid, ("TracerPid",)) != ["TracerPid:\t0"]):
            return "it was not attached to"
        tracer = int(fields(program.pid, ("TracerPid",))[0].split()[1])
        time.sleep(generator.uniform(0.05, 0.3))
        os.kill(tracer, signal.SIGKILL)
        sampler.communicate()
        time.sleep(0.05)
        try:
            unharmed, out = program.end()
        except subprocess.TimeoutExpired:
            program.process.kill()
            unharmed, out = False, "it does not end"
        if not unharmed:
            print(f"harmed: status {program.process.returncode}, {out.strip()}", flush=True)
            harmed += 1
    print(f"tracer killed {options.tracer_kills} times: {harmed} programs harmed", flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--observer", required=True)
    parser.add_argument("--cycles", type=int, default=10000)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--tracer-kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.shadowprof = os.path.abspath(options.shadowprof)
    options.observer = os.path.abspath(options.observer)
    generator = random.Random(options.seed)
    failed = 0
    for part in (cycles, kills, tracer_kills):
        if getattr(options, part.__name__) == 0:
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            os.chdir(directory)
            problem = part(options, generator)
            os.chdir("/")
        print(f"FAIL  {part.__name__}: {problem}" if problem else f"ok    {part.__name__}",
              flush=True)
        failed += problem is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
