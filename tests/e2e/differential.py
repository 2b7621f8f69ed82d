#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs every guest program natively and under `shadowprof run --mode full`; results must be equal.

A guest is any ELF executable in --guest-dir. NAME.args beside the guests' sources has one line of
arguments per case (a guest without it runs once, without arguments). NAME.expect.json has counts
that are known by hand: instructions, edges and calls, which the profile must show exactly. A guest
that exits with 77 natively cannot run on this host and is skipped. In full mode a guest may leave the
engine only if it is made for that.
"""

import argparse
import json
import os
import shlex
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cache_bursts  # noqa: E402
from debug_registers import debug_registers_trap  # noqa: E402
from elf_symbols import read_symbols, resolve  # noqa: E402
from harness import Case, Comparison  # noqa: E402

SKIPPED = 77
# What the engine cannot run to the end is in them on purpose, always or with some options.
MAY_LEAVE = ("flow_compat", "proc_leave", "proc_tracer", "sys_attach", "sys_bases", "sys_dispatch")
# Some hypervisors do not execute 32-bit code; then the same has to happen under us.
MAY_FAIL_NATIVELY = ("flow_compat",)
# One of the two uses them itself; without them the other one's rseq is refused under us.
NEED_DEBUG_REGISTERS = ("proc_tracer", "thr_rseq")
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "guest")


def is_guest(path):
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def find_cases(guest_dir, only):
    cases = []
    for name in sorted(os.listdir(guest_dir)):
        path = os.path.join(os.path.abspath(guest_dir), name)
        if not is_guest(path):
            continue
        arguments_path = os.path.join(SOURCES, name.split(".")[0] + ".args")
        lines = [""]
        if os.path.exists(arguments_path):
            with open(arguments_path, encoding="utf-8") as f:
                lines = [line.strip() for line in f if line.strip() and not line.startswith("#")]
        for line in lines:
            case = Case(name + (":" + line if line else ""), [path, *shlex.split(line)])
            if not only or any(part in case.name for part in only):
                cases.append(case)
    return cases


def load_expectation(case):
    guest = os.path.basename(case.command[0]).split(".")[0]
    path = os.path.join(SOURCES, guest + ".expect.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def count_pairs(profile, table, guest):
    """{(from offset, to offset): count} of the rows of tables.edges or .calls inside the guest."""
    own = {i for i, module in enumerate(profile["modules"])
           if os.path.basename(module["path"]) == guest}
    columns = profile["tables"][table]
    counts = {}
    for source_module, source, target_module, target, count in zip(
            columns["from_module"], columns["from_offset"], columns["to_module"],
            columns["to_offset"], columns["count"]):
        if source_module in own and target_module in own:
            counts[source, target] = counts.get((source, target), 0) + count
    return counts


def check_expectation(profile, expectation, path):
    """Every hand-counted number against the profile."""
    complaints = []
    measured = profile["coverage"]["instructions_profiled"]
    if measured != expectation["instructions"]:
        complaints.append(f"{measured} instructions, by hand {expectation['instructions']}")
    symbols = read_symbols(path)
    for table in ("edges", "calls"):
        if table not in expectation:
            continue
        counts = count_pairs(profile, table, os.path.basename(path))
        for source, target, count in expectation[table]:
            found = counts.get((resolve(symbols, source), resolve(symbols, target)), 0)
            if found != count:
                complaints.append(f"{table} {source} -> {target}: {found}, by hand {count}")
    return complaints


def judge(comparison, case):
    """("passed" | "failed" | "skipped", what to say)"""
    guest = case.name.split(".")[0]
    if guest in NEED_DEBUG_REGISTERS and not debug_registers_trap():
        return "skipped", "this host's debug registers do not trap"
    expectation = load_expectation(case)
    native, ours, profile, problems = comparison.run(case)
    if native.status == SKIPPED:
        return "skipped", native.stdout.decode(errors="replace").strip() or "not on this host"
    if native.status != 0 and ":" not in case.name:
        fails = (f"the guest itself fails natively: {native.describe_status()}: "
                 + native.stderr.decode(errors="replace").strip()[-200:])
        if not problems and guest in MAY_FAIL_NATIVELY:
            return "skipped", fails
        problems.insert(0, fails)
    if profile and not problems and guest not in MAY_LEAVE:
        problems = [leaving["why"] for leaving in profile["coverage"].get("ended_early", [])]
    if expectation and profile and not problems:
        try:
            problems = check_expectation(profile, expectation, case.command[0])
        except (KeyError, TypeError, ValueError) as e:
            problems = [f"the profile is not as documented: {type(e).__name__} {e}"]
    timing = f"{native.seconds:.2f} s native, {ours.seconds:.2f} s ours"
    if problems:
        return "failed", "\n".join("      " + line for line in [timing, *problems])
    return "passed", timing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True, help="the program under test")
    parser.add_argument("--guest-dir", required=True, help="where the guests were built")
    parser.add_argument("--only", action="append", metavar="NAME",
                        help="cases whose name contains NAME (repeatable)")
    parser.add_argument("--leave-out", action="append", default=[], metavar="NAME",
                        help="not the cases whose name contains NAME (repeatable)")
    parser.add_argument("--group", metavar="NAME", help="cases whose name begins with NAME_")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="per run")
    parser.add_argument("--mode", default="full")
    parser.add_argument("--option", action="append", default=[], metavar="OPT",
                        help="a further option of shadowprof run, as --option=-f (repeatable)")
    parser.add_argument("--again", action="store_true",
                        help="compare a second run, which knows what the first has kept")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--keep", action="store_true", help="keep the temporary directory")
    options = parser.parse_args()
    if options.mode == "burst" and "--engine=translator" in options.option:
        options.option += cache_bursts.of_this_host()

    cases = find_cases(options.guest_dir, options.only)
    cases = [case for case in cases if not any(part in case.name for part in options.leave_out)]
    if options.group:
        cases = [case for case in cases if case.name.startswith(options.group + "_")]
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    if not cases:
        print("no guest matches", file=sys.stderr)
        return 0 if options.group else 2
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    failed = []
    with Comparison(options.shadowprof, options.mode, options.option, options.timeout,
                 options.keep, options.again) as comparison:
        for case in cases:
            verdict, text = judge(comparison, case)
            totals[verdict] += 1
            if verdict == "failed":
                failed.append(case.name)
                print(f"FAIL  {case.name}\n{text}\n      rerun: {comparison.rerun_command(case)}",
                      flush=True)
            else:
                print(f"{'ok  ' if verdict == 'passed' else 'skip'}  {case.name} ({text})",
                      flush=True)
        if options.keep:
            print(f"kept {comparison.root}")
    if failed:
        print("failed: " + " ".join(failed))
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
