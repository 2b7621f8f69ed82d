#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs programs that others wrote natively and under shadowprof, and compares what they do.

The table is cases.py, the inputs are made by inputs.py. Programs that are not installed are
skipped. Some cases start daemons or many processes: everything runs in a process group of its own
that is killed afterwards; where namespaces are permitted, --isolate runs the whole suite without a
network and with processes of its own.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
from cases import CASES, INPUTS  # noqa: E402
from harness import Case, Comparison  # noqa: E402

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games"


class InputFiles:
    """Makes each input once."""

    def __init__(self):
        self.made = {}

    def get(self, name):
        if name not in self.made:
            self.made[name] = INPUTS[name]()
        return self.made[name]

    def place(self, names, directory):
        for name in names:
            with open(os.path.join(directory, name), "wb") as f:
                f.write(self.get(name))


def normaliser(rules):
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in rules]

    def clean(data):
        for pattern, replacement in compiled:
            data = pattern.sub(replacement, data)
        return data

    return clean


def to_case(external, files, options):
    command = external.command
    if isinstance(command, str):
        command = ["sh", "-c", command]
    return Case(external.name, command,
                stdin=files.get(external.stdin) if external.stdin else b"",
                shadowprof_options=["-f"] if external.follow and not options.no_follow else [],
                prepare=lambda directory: files.place(external.inputs, directory),
                normalise=normaliser(external.normalise),
                compare_files=external.files,
                environment={"PATH": SYSTEM_PATH, **external.environment},
                wraps_itself=external.wraps_itself)


def reason_to_skip(external):
    if not shutil.which(external.needs, path=SYSTEM_PATH):
        return f"{external.needs} is not installed"
    if external.probe:
        probe = subprocess.run(["sh", "-c", external.probe], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False,
                               env={**os.environ, "PATH": SYSTEM_PATH})
        if probe.returncode != 0:
            return f"fails natively: {external.probe}"
    return None


def select(options):
    cases = CASES
    if options.quick:
        cases = [case for case in cases if case.quick]
    if options.only:
        cases = [case for case in cases
                 if any(part == case.name or (part.endswith("*") and case.name.startswith(part[:-1]))
                        for part in options.only)]
    return cases


def isolated_again():
    """Runs this command again in namespaces of its own (unshare(1)); returns its status."""
    arguments = [argument for argument in sys.argv if argument != "--isolate"]
    return subprocess.run(["unshare", "-n", "-p", "-m", "-u", "--mount-proc", "--fork",
                           "--kill-child", sys.executable, *arguments], check=False).returncode


def run_cases(cases, options):
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    failed = []
    files = InputFiles()
    with Comparison(options.shadowprof, options.mode, options.option, options.timeout,
                    options.keep) as comparison:
        for external in cases:
            reason = reason_to_skip(external)
            if reason:
                totals["skipped"] += 1
                print(f"skip  {external.name} ({reason})", flush=True)
                continue
            case = to_case(external, files, options)
            native, ours, _, problems = comparison.run(case)
            if native.status != external.status and not native.timed_out:
                problems.insert(0, f"natively {native.describe_status()}, expected "
                                f"{external.status}: {native.stderr[-300:].decode(errors='replace')}")
            timing = f"{native.seconds:.2f} s native, {ours.seconds:.2f} s ours"
            if native.timed_out:
                totals["skipped"] += 1
                print(f"skip  {external.name} (takes too long natively)", flush=True)
            elif problems:
                totals["failed"] += 1
                failed.append(external.name)
                print(f"FAIL  {external.name}\n      {timing}\n      "
                      + "\n      ".join(problems)
                      + f"\n      rerun: {sys.argv[0]} --shadowprof {options.shadowprof} --keep --only "
                      + external.name, flush=True)
            else:
                totals["passed"] += 1
                print(f"ok    {external.name} ({timing})", flush=True)
        if options.keep:
            print(f"kept {comparison.root}")
    if failed:
        print("failed: " + " ".join(failed))
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", default="build/shadowprof", help="the program under test")
    parser.add_argument("--only", action="append", metavar="NAME",
                        help="this case; NAME* for all that begin so (repeatable)")
    parser.add_argument("--quick", action="store_true", help="only cases of a few seconds")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="per run")
    parser.add_argument("--mode", default="full")
    parser.add_argument("--option", action="append", default=[], metavar="OPT",
                        help="a further option of shadowprof run, as --option=-v (repeatable)")
    parser.add_argument("--no-follow", action="store_true", help="leave children native")
    parser.add_argument("--isolate", action="store_true",
                        help="run in network, process, mount and host-name namespaces of its own")
    parser.add_argument("--keep", action="store_true", help="keep the temporary directory")
    options = parser.parse_args()
    if options.isolate:
        return isolated_again()
    cases = select(options)
    if options.list:
        for case in cases:
            print(f"{case.name:24} {'quick' if case.quick else 'long ':6} "
                  f"{'-f ' if case.follow else '   '} {reason_to_skip(case) or ''}")
        return 0
    if not cases:
        print("no case matches", file=sys.stderr)
        return 2
    return run_cases(cases, options)


if __name__ == "__main__":
    sys.exit(main())
