#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What shadow mode costs, where whole runs differ by more than that.

usage: bench/overhead.py SHADOWPROF [--pairs N] [--only NAME,...] [--scale X] [--profile LIST]
                         [--turn SECONDS] [--budget PERCENT] [--option=OPT ...] [--control]

On a machine that others share, two runs of ten seconds differ by some percent, as a core is faster in
one minute than in the next; what differs little are moments that follow one another. So a sampled run
(shadowprof with all that it starts) and a native one take turns: each is in a control group of its
own, and while one runs the other is frozen. What is compared is how long each program took, wall-clock,
without the time for which it was frozen.

Turns last half to one and a half of --turn, in random order within each two. Both programs stay on the
core on which the sampled one began, as a process that is thawed may be put on another one, where its
caches are cold. Neither addresses nor hashes are randomised. With --control both are native, which shows what the
method itself is worth. Needs root and version 2 of control groups.

For shadowprof time passes while it is frozen, too. So that it spends no more than --budget of the time that its program
runs, it is given half of that as --max-overhead; what it estimates is printed as a share of the time that the program ran.
"""

import argparse
import contextlib
import ctypes
import math
import os
import pathlib
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import programs
from measure import figures, percent

ADDR_NO_RANDOMIZE = 0x0040000
LIBC = ctypes.CDLL(None)


class Group:
    """A control group whose processes run by turns, and when they could not."""

    def __init__(self, parent, name):
        self.folder = parent / f"shadowprof-{name}-{os.getpid()}"
        self.folder.mkdir()
        self.frozen = []  # (from, to)
        self.since = None

    def write(self, name, value):
        (self.folder / name).write_text(value, encoding="ascii")

    def wait_for(self, event):
        while event not in (self.folder / "cgroup.events").read_text(encoding="ascii"):
            time.sleep(0.00005)

    def freeze(self):
        self.write("cgroup.freeze", "1")
        self.wait_for("frozen 1")
        self.since = time.monotonic()

    def thaw(self):
        if self.since is not None:
            self.frozen.append((self.since, time.monotonic()))
            self.since = None
        self.write("cgroup.freeze", "0")

    def start(self, command):
        def prepare():
            self.write("cgroup.procs", "0")
            LIBC.personality(ADDR_NO_RANDOMIZE)

        return subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                preexec_fn=prepare)  # pylint: disable=subprocess-popen-preexec-fn

    def ran(self, start, end):
        return end - start - sum(max(0, min(end, to) - max(start, since)) for since, to in self.frozen)

    def remove(self):
        self.write("cgroup.kill", "1")
        self.wait_for("populated 0")
        self.folder.rmdir()


@contextlib.contextmanager
def groups(*names):
    mounts = (line.split() for line in pathlib.Path("/proc/mounts").read_text(encoding="utf-8").splitlines())
    found = [pathlib.Path(words[1]) for words in mounts if words[2] == "cgroup2"]
    if not found:
        sys.exit("control groups of version 2 are not mounted")
    made = []
    try:
        for name in names:
            made.append(Group(found[0], name))
        yield made
    finally:
        for group in made:
            group.remove()


def descendants(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                found += [int(child), *descendants(child)]
    return found


def program_of(process, command):
    """The process that runs `command` among those that `process` has started."""
    wanted = os.path.realpath(shutil.which(command[0]))
    while process.poll() is None:
        for pid in (process.pid, *descendants(process.pid)):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/exe") == wanted:
                    return pid
        time.sleep(0.001)
    sys.exit(f"{command[0]} was not started")


def last_core(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[36])


class Side:
    """One of the two runs: its processes, and when its program began and ended."""

    def __init__(self, group, command, program):
        self.group = group
        self.start = time.monotonic()
        self.process = group.start(command)
        self.pid = program_of(self.process, program)
        self.pidfd = os.pidfd_open(self.pid)
        self.end = None

    def has_ended(self, within):
        if select.select([self.pidfd], [], [], within)[0]:
            self.end = time.monotonic()
        return self.end is not None

    def finish(self):
        self.group.thaw()
        if self.end is None:
            self.has_ended(None)
        os.close(self.pidfd)
        if self.process.wait() != 0:
            sys.exit(f"{self.process.args[0]} failed")


def take_turns(sampled, native, seconds, rng):
    core = {last_core(sampled.pid)}
    for side in (sampled, native):
        os.sched_setaffinity(side.pid, core)
    running, order = native, [native, sampled]
    while True:
        length = seconds * rng.uniform(0.5, 1.5)
        for side in order:
            if side is not running:
                running.group.freeze()
                side.group.thaw()
                running = side
            if side.has_ended(length):
                return
        rng.shuffle(order)


def pair(command, run, report, turn, rng):
    """(seconds of the native run, of the sampled one, the figures of its profile or nothing)."""
    with groups("sampled", "native") as (first, second):
        sampled = Side(first, run, command)
        first.freeze()
        native = Side(second, command, command)
        take_turns(sampled, native, turn, rng)
        for side in sorted((sampled, native), key=lambda side: side.end is None):
            side.finish()  # first the one that has ended: shadowprof writes its profile alone
        profile = figures(report) if run is not command else None
        start = sampled.end - profile["run"]["duration_s"] if profile else sampled.start
        return native.group.ran(native.start, native.end), sampled.group.ran(start, sampled.end), profile


def error_of_mean(values):
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=float, default=7, help="of the work")
    parser.add_argument("--profile", default="edge,call")
    parser.add_argument("--turn", type=float, default=0.1, help="seconds")
    parser.add_argument("--budget", type=float, default=1, help="percent")
    parser.add_argument("--option", action="append", default=[], help="of the sampled runs")
    parser.add_argument("--control", action="store_true", help="two native runs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing stays frozen
    rng = random.Random()
    print(f"{'program':<9} {'native':>7} {'overhead %':>10} {'+-':>5} {'median':>7} {'est. %':>7}")
    means, errors = [], []
    with tempfile.TemporaryDirectory(prefix="overhead-") as name:
        folder = pathlib.Path(name)
        report = folder / "sampled.json"
        for name, command in programs.cases(folder, options.scale, options.only):
            run = command if options.control else [
                options.shadowprof, "run", "-q", "--max-overhead", f"{options.budget / 2}%",
                "--profile", options.profile, *options.option, "-o", report, "--", *command]
            pairs = [pair(command, run, report, options.turn, rng) for _ in range(options.pairs)]
            logs = [100 * math.log(sampled / native) for native, sampled, _ in pairs]
            means.append(statistics.mean(logs))
            errors.append(error_of_mean(logs))
            estimated = [profile["overhead"]["estimated_share"] * profile["run"]["duration_s"] / sampled
                         for _, sampled, profile in pairs if profile]
            print(f"{name:<9} {statistics.median(native for native, _, _ in pairs):>7.2f} {means[-1]:>10.2f} "
                  f"{errors[-1]:>5.2f} {statistics.median(logs):>7.2f} "
                  f"{percent(statistics.mean(estimated) if estimated else None):>7}", flush=True)
    if means:
        error = math.sqrt(sum(error ** 2 for error in errors)) / len(errors)
        print(f"geometric mean: {statistics.mean(means):.2f} +- {error:.2f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
