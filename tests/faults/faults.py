#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lets calls of shadowprof's fail, one at a time, and looks what becomes of it and of the program.

usage: faults.py --shadowprof PATH --library PATH --witness PATH [--exhaustive] [--case NAME]...
                 [--name TEXT] [--plan PLAN] [--jobs N] [--stops N] [--allocations] [--behind]
                 [--most N] [--seconds N] [--seed N]

Each case is run without a fault, which says what is called from where. Then it is run again for
each fault. A finding is printed with the options that repeat it. The quick form takes some sites of
each call, with one error each, drawn from --seed; --exhaustive takes all, with each error that the call can have: first the first call of
each site, then later ones. --most and --seconds bound that, in an order drawn from --seed. --behind
lets a second call fail, too: each that was made because of the first fault. Ends with the numbers of
faults and findings; status 1 where there are findings.
"""

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from fault_cases import CASES, Trial, become_reaper, deadly_ends
from fault_plans import (exhaustive_plans, parse_plan, plans_behind, quick_plans, remote_range,
                         where)

# In the quick form: those that take most paths.
QUICK_CASES = ("run-shadow", "run-full", "run-burst", "attach-shadow", "report", "merge", "export")
LEARNING_RUNS = 3  # of --exhaustive, without a fault; what is called differs from run to run


class Setup:
    def __init__(self, arguments, folder):
        self.shadowprof = os.path.abspath(arguments.shadowprof)
        self.library = os.path.abspath(arguments.library)
        self.witness = os.path.abspath(arguments.witness)
        self.allocations = arguments.allocations
        self.remote = remote_range(self.shadowprof)
        self.folder = folder
        self.profiles = ("a.json", "b.json", "c.json.zst")

    def make_profiles(self):
        for name in self.profiles[:2]:
            subprocess.run([self.shadowprof, "run", "-q", "--mode", "full", "-o", name, "--",
                            self.witness, "50"], cwd=self.folder, check=True,
                           stdout=subprocess.DEVNULL)
        for name in (*self.profiles[2:], "old.json", "old.json.zst"):
            subprocess.run([self.shadowprof, "merge", "-o", name, "a.json"], cwd=self.folder, check=True,
                           stderr=subprocess.DEVNULL)


setup = None  # of this process and its workers
trials_folder = None


def begin_worker(folder):
    global trials_folder
    become_reaper()
    os.nice(int(os.environ.get("FAULTS_NICE", "10")))
    trials_folder = tempfile.mkdtemp(dir=folder)


def attempt(case, plan):
    trial = Trial(setup, trials_folder, plan)
    CASES[case](trial)
    failed, sites, problems = trial.finish()
    return failed, sites, problems, getattr(trial, "stderr", b""), getattr(trial, "status", None)


def attempt_plan(job):
    case, plan = job
    return (case, plan) + attempt(case, plan)


def sites_of(case, runs):
    """What the case calls when nothing fails; that it does nothing wrong then is checked, too."""
    found = {}
    for _ in range(runs):
        _, sites, problems, stderr, status = attempt(case, None)
        if problems or status != 0:
            raise SystemExit(f"{case} without a fault: {'; '.join(problems)}\n{stderr.decode()}")
        found.update({site.key: site for site in sites if site.key not in found})
    return list(found.values())


class Jobs:
    """What is still to be done: (case, plan), and what is known of the cases."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.sites = {}  # of each case: by key
        self.jobs = []
        self.chance = random.Random(arguments.seed)
        if arguments.plan:
            self.jobs = [(case, parse_plan(arguments.plan)) for case in arguments.case]
            return
        parts = ([], [])
        for case in arguments.case or (CASES if arguments.exhaustive else QUICK_CASES):
            for part, plans in zip(parts, self.plans_of(case)):
                part += [(case, plan) for plan in plans]
        for part in parts:
            self.chance.shuffle(part)  # findings of each kind come early
        self.jobs = parts[0] + parts[1]
        self.jobs = self.jobs[:arguments.most or len(self.jobs)]

    def plans_of(self, case):
        sites = sites_of(case, LEARNING_RUNS if self.arguments.exhaustive else 1)
        self.sites[case] = {site.key: site for site in sites}
        wanted = [s for s in sites if self.is_wanted(s)]
        if self.arguments.exhaustive:
            return exhaustive_plans(wanted, self.arguments.stops, deadly_ends(case))
        return quick_plans(wanted, deadly_ends(case), self.chance), []

    def is_wanted(self, site):
        return self.arguments.name is None or self.arguments.name in site.name

    def behind(self, case, plan, sites):
        """Jobs that follow from what was called when `plan` came about."""
        known = self.sites.get(case, {})
        new = plans_behind(plan, sites, known, deadly_ends(case))
        known.update({site.key: site for site in sites})
        return [(case, each) for each in new]


def describe(case, plan, problems, stderr, status, known):
    print(f"FINDING {case}: {plan.describe()}: {'; '.join(problems)} (status {status})")
    for fault in plan.all():
        if fault.key in known:
            print(f"  at     {where(setup.shadowprof, known[fault.key])}")
    print(f"  repeat --case {case} --plan '{plan.text()}'")
    for line in stderr.decode(errors="replace").splitlines()[:6]:
        print(f"  | {line}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for option in ("--shadowprof", "--library", "--witness"):
        parser.add_argument(option, required=True)
    parser.add_argument("--case", action="append", choices=list(CASES))
    for option in ("--name", "--plan"):
        parser.add_argument(option)
    for option, usual in (("--jobs", 2), ("--stops", 100), ("--most", 0), ("--seconds", 0),
                          ("--seed", 1)):
        parser.add_argument(option, type=int, default=usual)
    for option in ("--exhaustive", "--allocations", "--behind"):
        parser.add_argument(option, action="store_true")
    arguments = parser.parse_args()

    global setup
    folder = tempfile.mkdtemp(prefix="faults-")
    try:
        setup = Setup(arguments, folder)
        setup.make_profiles()
        begin_worker(folder)
        return run_all(Jobs(arguments), arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Tally:
    def __init__(self):
        self.happened = collections.Counter()
        self.missed = 0
        self.findings = 0

    def add(self, case, failed, problems):
        if failed > 0:
            self.happened[case] += 1
        else:
            self.missed += 1
        self.findings += bool(problems)

    def print(self):
        for case, count in self.happened.items():
            print(f"  {case:<22} {count:>6} faults")
        print(f"{sum(self.happened.values())} faults, {self.missed} did not come about, "
              f"{self.findings} findings")


def run_all(jobs, arguments, folder):
    tally = Tally()
    end = time.monotonic() + (arguments.seconds or float("inf"))
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, context, begin_worker,
                                                (folder,)) as pool:
        todo = collections.deque(jobs.jobs)
        running = set()
        while todo or running:
            while todo and len(running) < 2 * arguments.jobs and time.monotonic() < end:
                running.add(pool.submit(attempt_plan, todo.popleft()))
            if not running:
                break
            done, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED)
            for each in done:
                case, plan, failed, sites, problems, stderr, status = each.result()
                tally.add(case, failed, problems)
                if problems or arguments.plan:
                    describe(case, plan, problems, stderr, status, {s.key: s for s in sites})
                if arguments.behind:
                    todo.extendleft(jobs.behind(case, plan, sites))
    if todo:
        print(f"{len(todo)} more were not tried")
    tally.print()
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
