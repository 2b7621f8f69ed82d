#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often the truth is within the 95 % intervals that profiles state, by kind of profile.

usage: bench/intervals.py SHADOWPROF [--runs N] [--modes full,shadow,burst] [--only NAME,...] [--rows N]
                          [--known FOLDER] [--least SHARE] [--keep FOLDER] [--json FILE]

Known programs run N times in each mode, with another seed each time. What is compared with the truth are
the N hottest rows of each list that have at least a share of SHARE: what a full profile that looks at
everything has of the same program, and of time what the program says of itself. For each list: the rows
that were judged, the part of them whose interval holds the truth, the median half of the interval, the
median of what they are off, and how many times its standard error a row is off (1 is right; below 0.5
intervals are too wide, above 1.2 too narrow). Rows whose interval is the whole range from 0 to 1 say that
nothing is known: they are counted apart.
"""

import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "profile"))
from profile_file import read_profile  # noqa: E402  pylint: disable=wrong-import-position

# Program, how much it is to do, and how much for the perfect profile: shares are the same.
PROGRAMS = {
    "steady": ("mixed", ["120000000", "1"], ["20000000", "1"]),
    "phases": ("mixed", ["120000000", "10"], ["20000000", "10"]),
    "arguments": ("arguments", ["400000000", "80000000"], ["20000000", "4000000"]),
    "numbers": ("numbers", ["150000000"], ["10000000"]),
    "turns": ("turns", ["8"], None),
}
MODES = {
    "full": ["--mode", "full", "--profile", "edge,call,method,value", "--deterministic"],
    "shadow": ["--mode", "shadow", "--max-overhead", "5%"],
    "burst": ["--mode", "burst", "--max-overhead", "5%"],
}
TRUTH = ["--mode", "full", "--profile", "edge,call,method,path,value", "--condition", "values=all"]
STANDARD_ERRORS = 1.96
LEAST_MARGIN = 1e-4  # of what is the same in each round of a program nothing can be learnt


def place(at):
    return pathlib.PurePath(at["module"]).name, at["offset"]


def values_of(row):
    return {v["value"]: v["share"] for v in row["values"]}


def method_key(row):
    return pathlib.PurePath(row["module"]).name, row["function"]


# Of each list: its name in the file, the key of a row, its figure and what it may be off.
LISTS = {
    "edges": ("edges", lambda r: (place(r["from"]), place(r["to"]), r["kind"]), "share", "share_error"),
    "calls": ("call_pairs", lambda r: (place(r["from"]), place(r["to"])), "share", "share_error"),
    "methods": ("methods", method_key, "self_share", "self_share_error"),
    "paths": ("paths", lambda r: tuple(place(b) for b in r["blocks"]), "share", "share_error"),
    "values": ("values", lambda r: (place(r), r["part"]), "invariance", "invariance_error"),
    "arguments": ("arguments", lambda r: (place(r["from"]), place(r["to"]), r["register"]), "invariance",
                  "invariance_error"),
}


def of_program(row, program):
    """Whether a row is about the program's own code."""
    at = row.get("from") or (row["blocks"][0] if "blocks" in row else row)
    return pathlib.PurePath(at["module"]).name == program


class Tally:
    """What was found of one list in one mode."""

    def __init__(self):
        self.held, self.halves, self.off, self.unknown = [], [], [], 0

    def add(self, found, true, half):
        if half is None or half >= 0.999:
            self.unknown += 1
            return
        off = abs(found - true)
        self.held.append(off <= half + 1e-9)
        self.halves.append(half)
        self.off.append(off)

    def figures(self):
        if not self.held:
            return None
        ratios = [o * STANDARD_ERRORS / h for o, h in zip(self.off, self.halves) if h > 0]
        return {"rows": len(self.held), "unknown": self.unknown, "held": sum(self.held) / len(self.held),
                "half": statistics.median(self.halves), "off": statistics.median(self.off),
                "errors": (sum(r * r for r in ratios) / len(ratios)) ** 0.5 if ratios else 0}


def true_figures(profile, name):
    """By key: the row of the perfect profile."""
    path, key, _, _ = LISTS[name]
    return {key(row): row for row in profile["hotlists"][path]}


def judge(tallies, options, program, profile, truth):
    for name, (path, key, figure, margin) in LISTS.items():
        true = truth[name]
        rows = [r for r in profile["hotlists"][path] if of_program(r, program) and key(r) in true]
        if name not in ("values", "arguments"):
            rows = [r for r in rows if true[key(r)][figure] >= options.least]
        rows = [r for r in rows if r.get(margin) is None or r[margin] >= LEAST_MARGIN]
        rows.sort(key=lambda r: true[key(r)].get("count", r.get("self_instructions", 0)), reverse=True)
        if name == "values":  # one value in the program says nothing of intervals
            rows = [r for r in rows if 0.02 < true[key(r)]["invariance"] < 0.999]
        if name == "arguments":
            rows = [r for r in rows if true[key(r)]["invariance"] > 0.02 and true[key(r)]["count"] > 1000]
        for row in rows[:options.rows]:
            known = true[key(row)]
            share = known[figure]
            if "values" in row and row["values"]:
                share = values_of(known).get(row["values"][0]["value"], 0)
            tallies[name].add(row[figure], share, row.get(margin))


def judge_time(tallies, options, profile, said):
    """By what the program says of itself."""
    for row in profile["hotlists"]["methods"]:
        if row["function"] in said and "time_error" in row and said["all"] > 0:
            true = said[row["function"]] / said["all"]
            if true >= options.least:
                tallies["time"].add(row["time_share"], true, row["time_error"])


def run(options, command, output, *more):
    done = subprocess.run([options.shadowprof, "run", "-q", "--top", "2000", *more, "-o", output, "--", *command],
                          check=False, capture_output=True, text=True, timeout=1200)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def measure(options, folder, name):
    program, sizes, for_truth = PROGRAMS[name]
    executable = str(options.known / ("known_" + program))
    command = [executable, *sizes]
    output = folder / "profile.json"
    truth = None
    if for_truth is not None:
        perfect = (options.keep or folder) / f"{name}.json"
        if not perfect.exists():
            run(options, [executable, *for_truth], perfect, *TRUTH)
        profile = read_profile(perfect)
        truth = {kind: true_figures(profile, kind) for kind in LISTS}
    results = {}
    for mode in options.modes.split(","):
        if mode == "full" and truth is None:
            continue
        tallies, samples = collections.defaultdict(Tally), []
        for seed in range(1, options.runs + 1):
            said = run(options, command, output, *MODES[mode], "--seed", str(seed))
            profile = json.loads(output.read_text(encoding="utf-8"))
            samples.append(profile["coverage"]["samples"])
            if truth is not None:
                judge(tallies, options, "known_" + program, profile, truth)
            judge_time(tallies, options, profile, {k: v for k, v in said.items() if isinstance(v, float)})
        results[mode] = {kind: tally.figures() for kind, tally in tallies.items() if tally.figures()}
        for kind, f in results[mode].items():
            print(f"{name:<10} {mode:<7} {statistics.median(samples):>5.0f} {kind:<10} {f['rows']:>5} {f['unknown']:>5} "
                  f"{100 * f['held']:>6.1f} {f['half']:>8.4f} {f['off']:>8.4f} {f['errors']:>6.2f}", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof", type=pathlib.Path)
    parser.add_argument("--known", type=pathlib.Path, help="where tests/known is built (beside SHADOWPROF)")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--least", type=float, default=0.01)
    parser.add_argument("--keep", type=pathlib.Path, help="where perfect profiles are kept for the next time")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.known = options.known or options.shadowprof.parent / "tests" / "known"
    print(f"{'program':<10} {'mode':<7} {'smpl':>5} {'list':<10} {'rows':>5} {'unkn':>5} {'held %':>6} {'half':>8} {'off':>8} "
          f"{'errors':>6}")
    with tempfile.TemporaryDirectory(prefix="shadowprof-intervals-") as folder:
        results = {name: measure(options, pathlib.Path(folder), name) for name in options.only.split(",")}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


main()
