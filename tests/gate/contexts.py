#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calling contexts of a program whose nesting is known: one function, called by two others.

In shadow mode most samples begin in the middle of that function: who called it is known from the
stack of the replica alone. With --exact-inclusive the program is followed from its start.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def run(*command):
    return subprocess.run([str(x) for x in command], check=True, capture_output=True, text=True).stdout


def chains(profile):
    """{(function, ...): instructions}, outermost first."""
    table = profile["tables"]["contexts"]
    functions = {(f["module"], f["offset"]): f["name"] for f in profile["functions"]}
    names, sums = [], {}
    for i, caller in enumerate(table["caller"]):
        kind = table["kinds"][table["kind"][i]]
        place = (table["module"][i], table["offset"][i])
        own = functions.get(place, f"{place[0]}+{place[1]:#x}") if kind == "code" else f"[{kind}]"
        names.append((names[caller - 1] if caller else ()) + (own.split("(anonymous namespace)::")[-1].split("(")[0],))
        sums[names[-1]] = sums.get(names[-1], 0) + table["self"][i]
    return sums


def expect(true, message, *details):
    if not true:
        sys.exit("FAILED: " + " ".join(str(x) for x in (message, *details)))


def check_shape(profile, sums):
    expect(sum(sums.values()) == profile["coverage"]["instructions_profiled"], "contexts do not add up")
    working = {c: n for c, n in sums.items() if c[-1] == "shared" and n}
    expect(working, "no context of the working function", sums)
    for chain in working:
        if chain[0] == "[unknown]":
            continue
        expect(chain[-2] in ("outer_more", "outer_less"), "wrong caller", chain)
        expect(chain[-3] == "main", "wrong caller of the caller", chain)
    known = sum(n for c, n in working.items() if c[0] != "[unknown]")
    expect(known == sum(working.values()), "stacks that should be whole are not", working)
    return working


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--program", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        exact, sampled, merged = folder / "exact.json", folder / "sampled.json", folder / "merged.json"
        run(args.shadowprof, "run", "-q", "--mode", "full", "--exact-inclusive", "-o", exact, "--", args.program, "20")
        profile = json.loads(exact.read_text())
        sums = check_shape(profile, chains(profile))
        more = sum(n for c, n in sums.items() if c[-2] == "outer_more")
        less = sum(n for c, n in sums.items() if c[-2] == "outer_less")
        expect(more == 3 * less, "the first caller's share is not three times the other's", sums)

        for engine in ("translator", "emulator"):
            run(args.shadowprof, "run", "-q", "--engine", engine, "--max-overhead", "50%", "--load", "0.9",
                "--sample-size", "100K", "-o", sampled, "--", args.program, "15000")
            profile = json.loads(sampled.read_text())
            expect(profile["coverage"]["samples"] > 3, "too few samples", profile["coverage"])
            sums = chains(profile)
            check_shape(profile, sums)
            expect("stacks_cut" not in profile["coverage"]["events"], "a stack was cut", profile["coverage"])
            inclusive = {f["name"]: f["inclusive_instructions"] for f in profile["functions"]}
            expect(inclusive["main"] > 0.9 * profile["coverage"]["instructions_profiled"],
                   "main does not have what it calls", inclusive)

        text = run(args.shadowprof, "report", sampled)
        expect("main > " in text and "shared" in text.split("Hot contexts")[1], "the report lacks contexts", text)
        folded = run(args.shadowprof, "export", "--format", "folded", sampled)
        lines = [line.rsplit(" ", 1) for line in folded.splitlines()]
        expect(sum(int(n) for _, n in lines) == profile["coverage"]["instructions_profiled"],
               "folded stacks do not add up", folded)
        expect(any("main;" in stack and "outer_more" in stack and "shared" in stack for stack, _ in lines),
               "no folded stack with the callers", folded)

        run(args.shadowprof, "merge", "-o", merged, sampled, exact)
        both = json.loads(merged.read_text())
        check_shape(both, chains(both))
    print("contexts are those of the program's nesting")


if __name__ == "__main__":
    main()
