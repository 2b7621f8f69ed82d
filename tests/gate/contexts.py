#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calling contexts of a program whose nesting is known: one function, called by two others.

In shadow mode most samples begin in the middle of that function: who called it is known from the
stack of the replica alone. With --exact-inclusive the program is followed from its start.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402


def run(*command):
    return subprocess.run([str(x) for x in command], check=True, capture_output=True, text=True).stdout


def plain(name):
    """Of a function: without namespaces and arguments."""
    return name.split("(anonymous namespace)::")[-1].split("::")[-1].split("(")[0]


def chains(profile):
    """{(function, ...): instructions}, outermost first."""
    table = profile["tables"]["contexts"]
    functions = {(f["module"], f["offset"]): f["name"] for f in profile["functions"]}
    names, sums = [], {}
    for i, caller in enumerate(table["caller"]):
        kind = table["kinds"][table["kind"][i]]
        place = (table["module"][i], table["offset"][i])
        own = functions.get(place, f"{place[0]}+{place[1]:#x}") if kind == "code" else f"[{kind}]"
        names.append((names[caller - 1] if caller else ()) + (plain(own),))
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


def check_confidence(profile):
    """Where samples agree on a share, its interval is narrow, and it has the true one."""
    expect(profile["confidence"]["groups"] > 1, "no errors are known", profile["confidence"])
    rows = {tuple(plain(f["function"]) for f in c["frames"]): c
            for c in profile["hotlists"]["contexts"]}
    more, = [c for names, c in rows.items() if names[-2:] == ("outer_more", "shared")]
    expect(0 < more["share_error"], "the interval has no width", more)
    expect(len(profile["tables"]["contexts"]["error"]) == len(profile["tables"]["contexts"]["self"]),
           "errors are missing from the table")


def innermost_share(stacks, total):
    """Of outer_more > shared: `stacks` are (names from the outermost on, count)."""
    expect(sum(count for _, count in stacks) == total, "stacks do not add up")
    return sum(count for names, count in stacks
               if [plain(name) for name in names[-2:]] == ["outer_more", "shared"]) / total


def check_exports(shadowprof, sampled, folder, profile):
    """Every format that has stacks says the same of one chain of calls; pprof is read by its program."""
    total = profile["coverage"]["instructions_profiled"]
    folded = run(shadowprof, "export", "--format", "folded", sampled).splitlines()
    stacks = [(line.rpartition(" ")[0].split(";"), int(line.rpartition(" ")[2])) for line in folded]
    expected = innermost_share(stacks, total)
    expect(expected > 0.5, "the chain is not the hottest", expected)

    data = json.loads(run(shadowprof, "export", "--format", "speedscope", sampled))
    names = [f["name"] for f in data["shared"]["frames"]]
    one, = [p for p in data["profiles"] if p["name"] == "instructions"]
    stacks = [([names[i] for i in s], w) for s, w in zip(one["samples"], one["weights"])]
    expect(innermost_share(stacks, total) == expected, "speedscope differs from folded")

    # With times its stacks are weighted with these.
    timeless = folder / "timeless.json"
    by_thread = ("time", "time_course", "thread_code")
    tables = {name: table for name, table in profile["tables"].items() if name not in by_thread}
    rest = {name: part for name, part in profile.items() if name not in ("time", "threads")}
    timeless.write_text(json.dumps({**rest, "tables": tables}), encoding="utf-8")
    thread, = json.loads(run(shadowprof, "export", "--format", "firefox", timeless))["threads"]
    prefix, frame = thread["stackTable"]["prefix"], thread["stackTable"]["frame"]
    function, text = thread["funcTable"]["name"], thread["stringArray"]

    def names_of(stack):
        names = []
        while stack is not None:
            names.insert(0, text[function[thread["frameTable"]["func"][frame[stack]]]])
            stack = prefix[stack]
        return names
    stacks = [(names_of(s), w) for s, w in zip(thread["samples"]["stack"], thread["samples"]["weight"])]
    expect(innermost_share(stacks, total) == expected, "Firefox's stacks differ from folded")
    check_pprof(shadowprof, sampled, folder, expected)


def check_pprof(shadowprof, sampled, folder, expected):
    if not shutil.which("go"):
        print("skipped: go (with its pprof) is not installed, its answer is not compared")
        return
    path = folder / "x.pb.gz"
    run(shadowprof, "export", "--format", "pprof", "-o", path, sampled)
    shown = subprocess.run(["go", "tool", "pprof", "-top", "-cum", "-nodefraction=0",
                            "-sample_index=instructions", str(path)], check=True,
                           capture_output=True, text=True, env={**os.environ, "HOME": str(folder)}).stdout
    lines = [line.split() for line in shown.splitlines()
             if line.count("%") == 3 and line.split()[4].endswith("%") and line.split()[4][0].isdigit()]
    cumulative = {plain(" ".join(words[5:])): float(words[4].rstrip("%")) / 100
                  for words in lines}
    expect(cumulative["main"] > 0.9, "pprof does not see main's callees", shown)
    expect(abs(cumulative["outer_more"] - expected) < 0.01, "pprof's cumulative share differs", shown)
    expect(cumulative["shared"] > cumulative["outer_more"], "pprof's callee has less than a caller", shown)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--program", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        exact, sampled, merged = folder / "exact.json", folder / "sampled.json", folder / "merged.json"
        run(args.shadowprof, "run", "-q", "--mode", "full", "--exact-inclusive", "-o", exact, "--", args.program, "20")
        profile = read_profile(exact)
        sums = check_shape(profile, chains(profile))
        more = sum(n for c, n in sums.items() if c[-2] == "outer_more")
        less = sum(n for c, n in sums.items() if c[-2] == "outer_less")
        expect(more == 3 * less, "the first caller's share is not three times the other's", sums)

        for engine in ("translator", "emulator"):
            # On a busy machine replicas may wait for a processor for as long as a short run takes.
            for rounds in (15000, 90000):
                run(args.shadowprof, "run", "-q", "--engine", engine, "--max-overhead", "50%", "--load", "0.9",
                    "--sample-size", "100K", "--seed", "1", "-o", sampled, "--", args.program, str(rounds))
                profile = read_profile(sampled)
                if profile["coverage"]["samples"] > 3:
                    break
            expect(profile["coverage"]["samples"] > 3, "too few samples", profile["coverage"])
            sums = chains(profile)
            check_shape(profile, sums)
            expect("stacks_cut" not in profile["coverage"]["events"], "a stack was cut", profile["coverage"])
            inclusive = {f["name"]: f["inclusive_instructions"] for f in profile["functions"]}
            expect(inclusive["main"] > 0.9 * profile["coverage"]["instructions_profiled"],
                   "main does not have what it calls", inclusive)

        check_confidence(profile)

        bursts = folder / "bursts.json"
        run(args.shadowprof, "run", "-q", "--mode", "burst", "--burst", "1ms/5ms", "--max-overhead", "50%",
            "--seed", "1", "-o", bursts, "--", args.program, "15000")
        in_bursts = read_profile(bursts)
        check_shape(in_bursts, chains(in_bursts))
        check_confidence(in_bursts)

        check_exports(args.shadowprof, sampled, folder, profile)
        text = run(args.shadowprof, "report", sampled)
        expect("main > " in text and "shared" in text.split("Hot contexts")[1], "the report lacks contexts", text)
        folded = run(args.shadowprof, "export", "--format", "folded", sampled)
        lines = [line.rsplit(" ", 1) for line in folded.splitlines()]
        expect(sum(int(n) for _, n in lines) == profile["coverage"]["instructions_profiled"],
               "folded stacks do not add up", folded)
        expect(any("main;" in stack and "outer_more" in stack and "shared" in stack for stack, _ in lines),
               "no folded stack with the callers", folded)

        run(args.shadowprof, "merge", "-o", merged, sampled, exact)
        both = read_profile(merged)
        check_shape(both, chains(both))
    print("contexts are those of the program's nesting")


if __name__ == "__main__":
    main()
