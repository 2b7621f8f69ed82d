#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lets calls of shadowprof's fail, one at a time, and looks what becomes of it and of the program.

usage: faults.py --shadowprof PATH --library PATH --witness PATH [--exhaustive] [--case NAME]...
                 [--name TEXT] [--plan PLAN] [--jobs N] [--stops N] [--allocations] [--most N]

Each case is run once without a fault, which says what is called from where. Then it is run again
for each fault. A finding is printed with the options that repeat it. The quick form takes some
sites of each call; --exhaustive takes all, with each error that the call can have. Ends with "N
faults, N findings"; status 1 where there are findings.
"""

import argparse
import concurrent.futures
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile

from fault_cases import CASES, DIES, Trial, become_reaper
from fault_plans import (TABLE_BYTES, exhaustive_plans, parse_plan, quick_plans, read_table,
                         remote_range, where)

# In the quick form: those that take most paths.
QUICK_CASES = ("run-shadow", "run-full", "run-burst", "attach-shadow", "report", "merge", "export")


class Setup:
    def __init__(self, arguments, folder):
        self.shadowprof = os.path.abspath(arguments.shadowprof)
        self.library = os.path.abspath(arguments.library)
        self.witness = os.path.abspath(arguments.witness)
        self.allocations = arguments.allocations
        self.remote = remote_range(self.shadowprof)
        self.folder = folder
        self.profiles = ("a.json", "b.json")

    def make_profiles(self):
        for name in self.profiles:
            subprocess.run([self.shadowprof, "run", "-q", "--mode", "full", "-o", name, "--",
                            self.witness, "50"], cwd=self.folder, check=True,
                           stdout=subprocess.DEVNULL)
        for name in ("old.json", "old.json.zst"):
            subprocess.run([self.shadowprof, "merge", "-o", name, "a.json"], cwd=self.folder, check=True,
                           stderr=subprocess.DEVNULL)


setup = None  # of this process and its workers
trials_folder = None


def begin_worker(folder):
    global trials_folder
    become_reaper()
    os.nice(10)
    trials_folder = tempfile.mkdtemp(dir=folder)


def attempt(case, plan):
    trial = Trial(setup, trials_folder, plan)
    CASES[case](trial)
    failed, sites, problems = trial.finish()
    return failed, sites, problems, getattr(trial, "stderr", b""), getattr(trial, "status", None)


def attempt_plan(job):
    case, plan = job
    return (case, plan) + attempt(case, plan)


def sites_of(case):
    """What the case calls when nothing fails; that it does nothing wrong then is checked, too."""
    _, sites, problems, stderr, status = attempt(case, None)
    if problems or status != 0:
        raise SystemExit(f"{case} without a fault: {'; '.join(problems)}\n{stderr.decode()}")
    return sites


def jobs_of(arguments):
    if arguments.plan:
        return [(case, parse_plan(arguments.plan)) for case in arguments.case], {}
    jobs, known = [], {}
    for case in arguments.case or (CASES if arguments.exhaustive else QUICK_CASES):
        sites = sites_of(case)
        known.update({site.key: site for site in sites})
        sites = [s for s in sites if arguments.name is None or arguments.name in s.name]
        dies = DIES.get(case, ())
        plans = exhaustive_plans(sites, arguments.stops, dies) if arguments.exhaustive \
            else quick_plans(sites, dies)
        jobs += [(case, plan) for plan in plans]
    if arguments.exhaustive:
        random.Random(1).shuffle(jobs)  # findings of each kind come early
    return jobs[:arguments.most or len(jobs)], known


def describe(case, plan, problems, stderr, status, known):
    print(f"FINDING {case}: {plan.describe()}: {'; '.join(problems)} (status {status})")
    if plan.key in known:
        print(f"  at     {where(setup.shadowprof, known[plan.key])}")
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
    for option, usual in (("--jobs", 2), ("--stops", 100), ("--most", 0)):
        parser.add_argument(option, type=int, default=usual)
    for option in ("--exhaustive", "--allocations"):
        parser.add_argument(option, action="store_true")
    arguments = parser.parse_args()

    global setup
    folder = tempfile.mkdtemp(prefix="faults-")
    try:
        setup = Setup(arguments, folder)
        setup.make_profiles()
        begin_worker(folder)
        jobs, known = jobs_of(arguments)
        return run_all(jobs, known, arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_all(jobs, known, arguments, folder):
    happened, missed, findings = 0, 0, 0
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, context, begin_worker,
                                                (folder,)) as pool:
        for case, plan, failed, sites, problems, stderr, status in pool.map(attempt_plan, jobs):
            happened += failed > 0
            missed += failed == 0
            if problems or arguments.plan:
                findings += bool(problems)
                known.update({s.key: s for s in sites})
                describe(case, plan, problems, stderr, status, known)
    print(f"{happened} faults, {missed} did not come about, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
