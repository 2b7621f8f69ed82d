#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What probes count of a program whose numbers are known: all of it in full mode, shares of it in samples.

Each example that `shadowprof probes` prints is run, too.
"""
import json
import os
import subprocess
import sys

from known_driver import ONLY_AND_MODES, drive, read_profile

MODES = {"full": ["--mode", "full"],
         "shadow": ["--mode", "shadow", "--max-overhead", "20%"],
         "burst": ["--mode", "burst", "--max-overhead", "20%"]}
ROUNDS = {"full": 60000, "shadow": 150000000, "burst": 150000000}
# Beyond twice the error that the profile says.
TOLERANCE = 0.05
CUT = "caller not known"



def line_of(text):
    """In the program's source."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "probes.c"), encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


PROBES = {
    "divisors": "on div in scale capture divisor key caller",
    "arguments": "on entry scale capture arg1",
    "depths": "on entry depth capture arg0 => log2",
    "loads": "on load insn mov* in read_at capture value, size",
    "stores": "on store insn mov* in write_at capture value when value >= 102",
    "atomics": "on atomic in bump capture (addr >> 3) & 1",
    "targets": "on call in choose capture target",
    "entered": "on entry even key caller",
    "returned": "on ret in read_at capture rax % 2",
    "hundredth": "on entry near when every 100",
    "later": "on entry near when after 1000",
    "stacks": "on div in scale key stack 2",
    "recursions": "on entry depth key stack 16 when arg0 == 0",
    "lines": f"on load at known/probes.c:{line_of('return table[at]')} capture value",
    "wrong": "on entry near capture 1 / (arg0 & 0)",
}


def expected(facts):
    """For each probe its tuples with their counts, for so many rounds as the program says."""
    rounds, near, sevens, tens = facts["rounds"], facts["near"], facts["by 7"], facts["by 10"]
    of_fours = [(rounds + 3 - k) // 4 for k in range(4)]
    of_eights = [(rounds + 7 - k) // 8 for k in range(8)]
    depths = {0: 0, 1: 0, 2: 0, 4: 0}
    for k, times in enumerate(of_eights):
        for n in range(k + 1):
            depths[n if n < 2 else 2 if n < 4 else 4] += times
    return {
        "divisors": {("near", 8): near, ("far", 7): sevens, ("far", 10): tens},
        "arguments": {(8,): near, (7,): sevens, (10,): tens},
        "depths": {(n,): count for n, count in depths.items()},
        "loads": {(100 + k, 8): count for k, count in enumerate(of_fours)},
        "stores": {(102,): of_fours[2], (103,): of_fours[3]},
        "targets": {("even",): rounds - facts["odd"], ("odd",): facts["odd"]},
        "entered": {("choose",): rounds - facts["odd"]},
        "returned": {(0,): of_fours[0] + of_fours[2], (1,): of_fours[1] + of_fours[3]},
        "hundredth": {(): near // 100},
        "later": {(): near - 1000},
        "stacks": {("near", "main"): near, ("far", "main"): sevens + tens},
        "recursions": {("depth",) * k + ("main",): times for k, times in enumerate(of_eights)},
        "lines": {(100 + k,): count for k, count in enumerate(of_fours)},
        "wrong": {},
    }


def tuples_of(profile, name):
    """What the hotlist has: each number, or of a place the function's name; of a stack those up to main.

    One that goes on where nobody knows ends in CUT.
    """
    rows = {}
    for row in profile["hotlists"]["probes"]:
        if row["probe"] == name:
            key = tuple(n["place"].get("function", "?") if "place" in n else n["number"] for n in row.get("stack", row["numbers"]))
            key = key[:-1] + (CUT,) if "stack" in row and key[-1] == 0 else key
            key = key[:key.index("main") + 1] if "main" in key else key
            rows[key] = rows.get(key, 0) + row["count"]
    return rows


def probe_options(probes):
    return [word for name, text in probes.items() for word in ("--probe", f"{name}: {text}")]


def check_counts(d, mode, profile, facts):
    infos = {probe["name"]: probe for probe in profile["probes"]}
    d.expect(f"{mode}: all probes are there", set(infos) == set(PROBES), list(infos))
    atomics = sorted(tuples_of(profile, "atomics").values())
    if mode == "full":
        d.expect("full: atomics", atomics == sorted([facts["first"], facts["rounds"] - facts["first"]]), atomics)
        cut = [row["stack"] for row in profile["hotlists"]["probes"] if row["probe"] == "recursions" and row["stack"][-1]["number"] == 0]
        d.expect("full: whole stacks are known to be whole", not cut, cut)
        d.expect("full: a division by 0 has no value", infos["wrong"]["unknown"] == facts["near"], infos["wrong"])
    for name, truth in expected(facts).items():
        found = tuples_of(profile, name)
        info = infos[name]
        d.expect(f"{mode}: {name}: rows and others are what was counted", sum(found.values()) + info["others"] == info["counted"], info)
        if mode == "full":
            d.expect(f"full: {name}", found == truth, found)
        elif name not in ("hundredth", "later", "wrong"):
            check_shares(d, f"{mode}: {name}", profile, name, truth)


def check_shares(d, what, profile, name, truth):
    rows = [row for row in profile["hotlists"]["probes"] if row["probe"] == name]
    found = tuples_of(profile, name)
    unknown = {key: count for key, count in found.items() if key not in truth and CUT not in key}
    d.expect(f"{what}: nothing else is counted", not unknown, unknown)
    error = 2 * max((row.get("share_error", 1) for row in rows), default=1) + TOLERANCE
    for key, count in truth.items():
        share, true = found.get(key, 0) / max(1, sum(found.values())), count / sum(truth.values())
        d.expect(f"{what} {key}: {share:.3f}, of {true:.3f} +- {error:.3f}", abs(share - true) <= error)


def sizes(d, mode):
    counted = [str(ROUNDS[mode])]
    return counted if mode == "full" else d.lasting("probes", counted)


def check(d, mode):
    profile, facts = d.run("probes", sizes(d, mode), *MODES[mode], "--profile", "edge", "--top", "1000", *probe_options(PROBES))
    if mode != "full" and min(profile["coverage"]["samples"], min(p["matched"] for p in profile["probes"])) <= 2:
        print(f"skip  {mode}: the machine was too busy for samples: {profile['coverage']['samples']}")
        return
    check_counts(d, mode, profile, facts)
    if mode == "full":
        twice = d.path + ".merged"
        subprocess.run([d.shadowprof, "merge", "-o", twice, d.path, d.path], check=True)
        merged = read_profile(twice)["hotlists"]
        once = {(r["probe"], json.dumps(r["numbers"])): r["count"] for r in profile["hotlists"]["probes"]}
        both = {(r["probe"], json.dumps(r["numbers"])): r["count"] for r in merged["probes"]}
        d.expect("merge adds", both == {key: 2 * count for key, count in once.items()}, both)


def check_examples(d):
    """One at a time, as people run them: each is accepted, counts something or is about nothing here."""
    examples = json.loads(subprocess.run([d.shadowprof, "probes", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    d.expect("there are examples", len(examples) >= 5)
    for example in examples:
        profile, _ = d.run("probes", ["3000"], "--mode", "full", "--profile", "edge", "--probe", example["probe"])
        info, = profile["probes"]
        is_here = not any(word in example["probe"] for word in ("@plt", "vector", "thread"))
        d.expect(f"example: {example['probe']}", info["matched"] > 0 or not is_here, info)
        report = subprocess.run([d.shadowprof, "report", d.path], check=True, stdout=subprocess.PIPE, text=True).stdout
        d.expect(f"report of: {example['probe']}", f"Probe {info['name']}" in report, report)


def bucket_of(cycles):
    """Of the histograms that the table of latencies has: four to each power of two."""
    if cycles < 4:
        return cycles
    power = cycles.bit_length() - 1
    return min(79, 4 * (power - 1) + (cycles >> (power - 2) & 3))


def numbers_counted(profile):
    """Of a profile with one probe, which captures one number: how often it was each."""
    counted = {}
    tables = profile["tables"]
    for row, number in zip(tables["probe_numbers"]["row"], tables["probe_numbers"]["number"]):
        counted[number] = counted.get(number, 0) + tables["probes"]["count"][row]
    return counted


def check_same_latencies(d):
    """What a probe of all latencies counts is what the profile of latencies has of the same stamps."""
    profile, _ = d.run("probes", ["3000"], "--mode", "full", "--profile", "edge,latency", "--probe", "times: on any capture latency")
    probed, profiled = {}, {}
    for cycles, count in numbers_counted(profile).items():
        probed[bucket_of(cycles)] = probed.get(bucket_of(cycles), 0) + count
    buckets = profile["tables"]["latency_buckets"]
    for bucket, count in zip(buckets["bucket"], buckets["count"]):
        profiled[bucket] = profiled.get(bucket, 0) + count
    d.expect("full: a probe's latencies are those of the profile", probed == profiled and probed, (probed, profiled))


def check_latencies(d, mode):
    """Loads of half a kilobyte, again and again: caches serve them."""
    profile, facts = d.run("probes", sizes(d, mode), *MODES[mode], "--profile", "edge", "--probe", "times: on load in read_at capture latency")
    info, = profile["probes"]
    if mode == "full":
        d.expect("full: each load has a latency", (info["matched"], info["counted"], info["unknown"]) == (facts["rounds"], facts["rounds"], 0), info)
    elif info["counted"] < 100:
        print(f"skip  {mode}: latencies: the machine was too busy for samples: {info}")
        return
    counted = numbers_counted(profile)
    memory = profile["run"]["host"]["latency"]["dram"]
    near = sum(count for cycles, count in counted.items() if cycles < memory)
    d.expect(f"{mode}: {near} of {info['counted']} latencies are less than {memory}", near >= 0.8 * info["counted"], counted)


def check_threads(d, mode):
    rounds = {"full": 30000, "shadow": 200000000, "burst": 200000000}
    probes = {"own": "on entry often in thread oft*", "other": "on entry often in thread seldom", "both": "on entry * in thread *"}
    profile, _ = d.run("threads", [str(rounds[mode])], *MODES[mode], "--profile", "edge", *probe_options(probes))
    infos = {probe["name"]: probe for probe in profile["probes"]}
    d.expect(f"{mode}: no other thread", infos["other"]["matched"] == infos["other"]["unknown"], infos["other"])
    if mode == "full":
        own = infos["own"]
        d.expect("full: the thread's own", (own["counted"], own["unknown"]) == (3 * rounds["full"], 0), own)
        d.expect("full: names of threads are known", infos["other"]["matched"] == 0, infos["other"])
    elif infos["both"]["matched"] > 1000:
        d.expect(f"{mode}: the thread's own", infos["own"]["counted"] > 0, infos)


def check_all(driver, options):
    for mode in options.modes.split(","):
        check(driver, mode)
        if mode != "burst":
            check_latencies(driver, mode)
        check_threads(driver, mode)
    if "full" in options.modes:
        check_same_latencies(driver)
    if not options.only:
        check_examples(driver)


sys.exit(drive(__doc__, check_all, ONLY_AND_MODES))
