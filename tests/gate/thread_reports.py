#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a profile says of each thread: which functions it executed, and how much.

usage: thread_reports.py --shadowprof PATH --relay PROGRAM [--only TEXT]

RELAY (relay.c) has three threads that execute known shares of everything: exact ones in full mode, whatever counts
them, and about the same where samples tell.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

from gate_cases import require, run_in_folder

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

UNITS = {"alpha": 6, "beta": 3, "gamma": 1}
ROUNDS = 20
BRIEF = 400  # more threads than have a row each
MOST_THREADS = 256


class Subject:
    def __init__(self, options, folder):
        self.shadowprof, self.relay = os.path.abspath(options.shadowprof), os.path.abspath(options.relay)
        self.folder = pathlib.Path(folder)
        self.full = self.profiled("full.json", "--mode", "full")

    def call(self, *words, status=0):
        done = subprocess.run([self.shadowprof, *map(str, words)], check=False, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=240, env={**os.environ, "COLUMNS": "100"})
        require(done.returncode == status, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout if status == 0 else done.stderr

    def profiled(self, name, *options, program=(ROUNDS,)):
        path = self.folder / name
        self.call("run", "-q", "-o", path, *options, "--", self.relay, *program)
        return path

    def json(self, path, *options):
        return json.loads(self.call("report", "--json", *options, path))


def code_by_thread(path):
    """Instructions by names of thread and function, of the relay's own functions."""
    profile = read_profile(path)
    table, counts = profile["tables"]["thread_code"], collections.Counter()
    names = {(f["module"], f["offset"]): f["name"] for f in profile["functions"]}
    for module, offset, thread, count in zip(*(table[c] for c in ("module", "offset", "thread", "instructions"))):
        counts[profile["threads"][thread]["name"], names.get((module, offset), "")] += count
    return profile, counts


def check_relay(counts, times=1):
    for name, units in UNITS.items():
        for other in UNITS:
            require((counts[name, f"work_{other}"] > 0) == (name == other), f"{name} in work_{other}: {counts}")
        require(counts[name, "shared"] * UNITS["alpha"] == counts["alpha", "shared"] * units, counts)
        # Two instructions for each of xor and shift, and a loop's: at least as many as the source has.
        require(counts[name, "shared"] >= times * units * ROUNDS * 50 * 2000 * 4, counts)


def full_mode_counts_each_threads_functions(x):
    profile, counts = code_by_thread(x.full)
    check_relay(counts)
    require(sum(counts.values()) == profile["coverage"]["attributed"], "not all instructions are a thread's")
    require(sum(t["instructions"] for t in profile["threads"]) == profile["coverage"]["attributed"], profile["threads"])
    require(sum(t["samples"] for t in profile["threads"]) == profile["coverage"]["samples"] == 4, profile["threads"])
    require({t["name"] for t in profile["threads"]} == {"relay", *UNITS}, profile["threads"])
    require({t["process"] for t in profile["threads"]} == {profile["run"]["pid"]}, profile["threads"])
    require(len({t["tid"] for t in profile["threads"]}) == 4, profile["threads"])


def a_trace_says_the_same_as_counters(x):
    _, counted = code_by_thread(x.full)
    profile, traced = code_by_thread(x.profiled("traced.json", "--mode", "full", "--exact-inclusive"))
    check_relay(traced)
    require(sum(traced.values()) == profile["coverage"]["attributed"], "not all instructions are a thread's")
    for name in UNITS:
        for function in (f"work_{name}", "shared"):
            require(traced[name, function] == counted[name, function], f"{name} {function}: {traced} {counted}")
    require({t["name"] for t in profile["threads"]} == {"relay", *UNITS}, profile["threads"])


def bursts_know_their_threads(x):
    profile, counts = code_by_thread(x.profiled("burst.json", "--mode", "burst", program=(200,)))
    if not counts:
        print("skip  bursts: there was none")
        return
    require(sum(counts.values()) == profile["coverage"]["attributed"], "not all instructions are a thread's")
    for name in UNITS:
        for other in UNITS:
            require(name == other or counts[name, f"work_{other}"] == 0, f"{name} in work_{other}: {counts}")


def the_list_has_each_thread(x):
    text = x.call("report", "--threads", x.full).splitlines()
    rows = [line for line in text if line.split() and line.split()[0].endswith("%")]
    require(len(rows) == 4 and "Threads (by instructions)" in text, text)
    require([row.split()[5] for row in rows[:3]] == list(UNITS), rows)
    rows = {t["name"]: t for t in x.json(x.full, "--threads")["threads"]}
    shares = {name: rows[name]["instruction_share"] for name in UNITS}
    for name, units in UNITS.items():
        require(abs(shares[name] - units / 10) < 0.02 and rows[name]["instruction_error"] == 0, rows)
    require("Threads (by instructions)" in x.call("report", x.full), "no threads in the report")


def a_threads_report_has_its_functions_only(x):
    text = x.call("report", "--thread", "gamma", x.full)
    require("work_gamma" in text and "shared" in text and "work_alpha" not in text, text)
    require("known of all threads together only: " in text and "edges" in text.split("together only: ")[1], text)
    report = x.json(x.full, "--thread", "gamma", "--limit", "1000")
    _, counts = code_by_thread(x.full)
    methods = {m.get("function", ""): m for m in report["methods"]}
    for function in ("work_gamma", "shared"):
        require(methods[function]["self_instructions"] == counts["gamma", function], methods)
    require(abs(sum(m["self_share"] for m in report["methods"]) - 1) < 1e-6, "shares are not the thread's own")
    require("invocations" not in methods["shared"] and "edges" in report["not_by_thread"], report)
    tid = report["threads"][0]["tid"]
    require(x.json(x.full, "--thread", tid, "--limit", "1000") == report, "the id says something else than the name")
    one = x.json(x.full, "--thread", "beta", "--filter", "work_", "--limit", "1")["methods"]
    require([m["function"] for m in one] == ["work_beta"], one)


def unknown_threads_are_one_sentence(x):
    for wanted in ("delta", "1", "gamma "):
        said = x.call("report", "--thread", wanted, x.full, status=125)
        require(said.count("\n") == 1 and "alpha, beta, gamma, relay" in said, said)
    for options in (["--threads", "--thread", "beta"], ["--threads", "--html"], ["--thread", "beta", "--html"],
                    ["--threads", "--filter", "x"], ["--thread", "beta", "--sort", "calls"]):
        said = x.call("report", *options, x.full, status=125)
        require(said.count("\n") == 1, f"{options}: {said}")


def merged_profiles_have_threads_by_name(x):
    sum_of = x.folder / "sum.json"
    x.call("merge", "-o", sum_of, x.full, x.profiled("again.json", "--mode", "full"))
    profile, counts = code_by_thread(sum_of)
    check_relay(counts, times=2)
    require(sum(counts.values()) == profile["coverage"]["attributed"], "not all instructions are a thread's")
    require([t["name"] for t in profile["threads"]] == ["alpha", "beta", "gamma", "relay"], profile["threads"])
    require({t["tid"] for t in profile["threads"]} == {0}, profile["threads"])
    require("work_beta" in x.call("report", "--thread", "beta", sum_of), "no work_beta")
    x.call("diff", x.full, sum_of)
    x.call("check", "--limit", "instructions<=+0", x.full, x.full)


def many_threads_are_joined_by_name(x):
    profile, counts = code_by_thread(x.profiled("many.json", "--mode", "full", program=(1, BRIEF)))
    require(len(profile["threads"]) <= MOST_THREADS, len(profile["threads"]))
    require(sum(counts.values()) == profile["coverage"]["attributed"], "not all instructions are a thread's")
    once = counts["gamma", "shared"] // 50
    require(counts["brief", "shared"] == BRIEF * once, f"{counts['brief', 'shared']} instead of {BRIEF} times {once}")
    require(any(t["name"] == "brief" and t["tid"] == 0 for t in profile["threads"]), "none was joined")
    require("shared" in x.call("report", "--thread", "brief", x.folder / "many.json"), "no shared")


def samples_tell_threads_apart(x):
    path = x.profiled("shadow.json", "--mode", "shadow", program=(1500,))
    profile, counts = code_by_thread(path)
    require(sum(counts.values()) == profile["coverage"]["attributed"], "not all instructions are a thread's")
    for name in UNITS:
        for other in UNITS:
            require(name == other or counts[name, f"work_{other}"] == 0, f"{name} in work_{other}: {counts}")
    rows = {t["name"]: t for t in x.json(path, "--threads")["threads"]}
    for name, units in UNITS.items():
        # Few samples on a busy machine say little: their interval does.
        off = abs(rows[name]["instruction_share"] - units / 10)
        require(off < 0.1 + rows[name].get("instruction_error", 1), f"{name}: {rows}")
        if "time_share" in rows[name]:
            require(abs(rows[name]["time_share"] - units / 10) < 0.05 + 1.5 * rows[name]["time_error"], rows)
    require(all(t["name"] and t["samples"] for t in profile["threads"] if t["instructions"]), profile["threads"])
    first = x.json(path, "--thread", "alpha", "--sort", "instructions")["methods"][:2]
    require({m["function"] for m in first} == {"work_alpha", "shared"}, first)


CASES = [full_mode_counts_each_threads_functions, a_trace_says_the_same_as_counters, the_list_has_each_thread,
         a_threads_report_has_its_functions_only, unknown_threads_are_one_sentence,
         merged_profiles_have_threads_by_name, many_threads_are_joined_by_name, bursts_know_their_threads,
         samples_tell_threads_apart]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--relay", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    return run_in_folder(CASES, Subject, options, "shadowprof-threads-")


if __name__ == "__main__":
    sys.exit(main())
