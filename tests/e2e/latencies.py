#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Pointer chases through sets of known size take what they take natively, and come from the cache that holds them.

usage: latencies.py --shadowprof SHADOWPROF --chase PROGRAM

Each size is chased natively, by the clock around pieces of the chase, and then in full and in shadow mode. The mean
of the loads must be that of the native chase (of its middle piece): within a twentieth (for memory three tenths), one step of the
clock, or the error that the profile states. Their classes must be those of the cache that holds the set, as the calibration in the profile has
them. What a busy host does is seen by the native chase, too: where it takes different times before and after a
run, and during one in shadow mode, the size is tried again, and left out in the end. A native chase that is as slow as a recorded one says what
others who share the caches drive out of them between two loads of a line: the mean may be up to that one's.
"""

import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

TRIES = 4
CLASSES = ("l1", "l2", "l3", "dram", "beyond")
# Loads in full mode, where one in sixteen is timed, and in shadow mode: there it must run for some seconds.
LOADS = {"full": {"l1": 3_200_000, "l2": 3_200_000, "l3": 3_200_000, "dram": 1_600_000},
         "shadow": {"l1": 1_500_000_000, "l2": 500_000_000, "l3": 120_000_000, "dram": 20_000_000}}
LEAST_TIMED = 300
# As a share: a fork's child sets each page's accessed bit anew, which may take a virtual machine as long as a fault.
MOST_LEFT_OUT_SHARE = 0.1
# As a share, and more cannot be told from what is wrong: strangers use the first cache of a processor, too.
MOST_LOST = 0.1
# As a share. Strangers' use of the memory changes from second to second.
OFF = {"l1": 0.05, "l2": 0.05, "l3": 0.05, "dram": 0.3}


def sizes():
    """Sets that one cache holds. Strangers drive out of a shared cache what is longest in it, so that set is small."""
    second = int(subprocess.run(["getconf", "LEVEL2_CACHE_SIZE"], capture_output=True, text=True, check=False).stdout or 0)
    if second <= 0:
        second = 1 << 20
    return (16 << 10, "l1"), (second // 2, "l2"), (2 * second, "l3"), (256 << 20, "dram")


def native_cycles(chase, size):
    return chased(chase, size, 20_000_000 if size < 1 << 20 else 2_000_000, "time")[0]


def slow_cycles(chase, size, far=0):
    """And which part of the loads took longer than `far`."""
    return chased(chase, size, 1_000_000, "slow", str(round(far)))


def chased(chase, size, loads, *how):
    done = subprocess.run([chase, str(size), str(loads), *how], check=True, timeout=120, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


def profile_of(shadowprof, mode, command, path):
    """And what the program has printed."""
    done = subprocess.run([shadowprof, "run", "--mode", mode, "-q", "--profile", "latency", "-o", path, "--", *command],
                          check=True, timeout=300, capture_output=True, text=True)
    return read_profile(path), done.stdout


def chase_row(profile, loads):
    """The load that was timed most: there is one in the loop. Full mode makes a second chase to warm up."""
    table = profile["tables"].get("latencies")
    if not table or not table["timed"]:
        return None
    most = max(range(len(table["timed"])), key=lambda i: table["timed"][i] if table["executions"][i] <= 2 * loads else 0)
    return {key: column[most] for key, column in table.items() if key != "kinds"}


def mean_of(row):
    served = row["timed"] - row["beyond"]
    return row["cycles"] / served if served else 0.0


def wrong_pairs(profile, wanted):
    """What is wrong with the pages and values of loads that went where most of the chase's did."""
    tables = profile["tables"]
    for name in ("pages", "values"):
        table = tables["latency_" + name]
        if set(table["of_load"]) - {1}:
            return f"{name} of no load"
        for number, level in enumerate(CLASSES):
            counted = sum(n for c, n in zip(table["class"], table["count"]) if c == number)
            timed = sum(tables["latencies"][level])
            if counted > timed or (level in ("l1", "beyond") and counted) or (level == wanted and not counted):
                return f"{counted} {name} of {timed} loads from {level}"
    return ""


def wrong_order(profile):
    """A load that hits the first cache saves nothing, so it loses nothing."""
    for load in profile["hotlists"]["load_latency"]:
        elsewhere = (1 - load["classes"]["l1"]) * profile["run"]["host"]["latency"]["dram"]
        error = max(2, load["mean_error"])
        if load["classes"]["l1"] > 0.99 and load["lost_cycles"] > (error + elsewhere) * load["executions"]:
            return f"a load that hits the first cache loses {load['lost_cycles']:.0f} cycles in {load['executions']} executions"
    return ""


def judge(profile, row, native, wanted, lost):
    """What is wrong with the chase's row, or "". `lost`: the part that natively is not in the first cache any more."""
    clock = profile["run"]["host"]["latency"]
    mean = mean_of(row)
    least, most = native
    error = max(OFF[wanted] * most, clock["resolution"], 3 * stated_error(profile, row))
    if mean < least - error or mean > most + error:
        return f"mean {mean:.1f}, natively {least:.1f} to {most:.1f} cycles (may be off by {error:.1f})"
    caches = row["l1"] + row["l2"]
    found = {"l1": caches, "l2": caches, "l3": row["l3"], "dram": row["dram"]}[wanted]
    if wanted in ("l1", "l2") and found < 0.98 * row["timed"] and mean < clock["l2"] + 2:
        return f"{found} of {row['timed']} come from the first two caches"
    if wanted == "l1" and row["l1"] < (0.98 - min(lost, MOST_LOST)) * row["timed"] and mean < clock["l1"] + 1:
        return f"{row['l1']} of {row['timed']} come from the first cache"
    # What others drive out of the last cache comes from memory, and natively, too.
    if wanted == "dram" and found < 0.9 * row["timed"] and least > clock["dram"]:
        return f"{found} of {row['timed']} come from memory"
    return ""


def stated_error(profile, row):
    """Of the row's mean, as the hot list has it."""
    for load in profile["hotlists"]["load_latency"]:
        if load["offset"] == row["offset"]:
            return max(load["mean_error"], load["cold_error"])
    return 0.0


def try_size(options, mode, size, wanted, path):
    """("ok" | "FAIL" | "skip", what was seen)."""
    loads = LOADS[mode][wanted]
    before = native_cycles(options.chase, size)
    slow_before, _ = slow_cycles(options.chase, size)
    # In shadow mode the program goes on natively, and times itself: while the replica is on another core.
    timed = ["time"] if mode == "shadow" else []
    profile, printed = profile_of(options.shadowprof, mode, [options.chase, str(size), str(loads), *timed], path)
    clock = profile["run"]["host"].get("latency")
    slow, lost = slow_cycles(options.chase, size, (clock["l1"] + clock["l2"]) / 2 if clock else 0)
    slow = max(slow, slow_before)
    natively = [before, native_cycles(options.chase, size)]
    if timed:
        natively.append(float(printed))
    row = chase_row(profile, loads)
    if not row or row["timed"] < LEAST_TIMED:
        return "skip", "too few loads were timed: the host is too busy"
    if clock["dram"] < clock["l3"] + 2 * clock["resolution"]:
        return "skip", f"this host's clock does not tell the last cache from memory: {clock}"
    if max(natively) - min(natively) > max(0.1 * max(natively), clock["resolution"] / 2):
        return "skip", f"natively {', '.join(f'{cycles:.1f}' for cycles in natively)} cycles: the host is too busy"
    # The trace that is written meanwhile, and neighbours, go through the caches, too. One round of the chase takes
    # longer under us than natively.
    farther = {"l1": row["l3"] + row["dram"], "l2": row["l3"] + row["dram"], "l3": row["dram"]}.get(wanted, 0)
    if farther > (0.01 if wanted == "l1" else 0.1) * row["timed"]:
        return "skip", f"{farther} of {row['timed']} loads were driven out of {wanted}"
    native = min(natively), max(*natively, slow)
    wrong = judge(profile, row, native, wanted, lost) or wrong_order(profile)
    if not wrong and wanted in ("l3", "dram") and row[wanted] > 0.5 * row["timed"]:
        wrong = wrong_pairs(profile, wanted)
    if not wrong and mode == "shadow" and row["first_touches"] > MOST_LEFT_OUT_SHARE * row["timed"]:
        wrong = f"{row['first_touches']} loads were left out, {row['timed']} timed"
    shares = " ".join(f"{level} {row[level]}" for level in CLASSES)
    seen = f"natively {native[0]:.1f} to {native[1]:.1f} (slowly {slow:.1f}, {100 * lost:.1f} % not from the first cache), mean {mean_of(row):.1f} of {row['timed']} ({shares})"
    return ("FAIL", f"{wrong}; {seen}") if wrong else ("ok", seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--chase", required=True)
    parser.add_argument("--mode", choices=sorted(LOADS), action="append")
    options = parser.parse_args()
    failed = seen = 0
    with tempfile.TemporaryDirectory(prefix="shadowprof-latencies-") as directory:
        path = os.path.join(directory, "profile.json")
        for mode in options.mode or sorted(LOADS):
            for size, wanted in sizes():
                for _ in range(TRIES):
                    result, what = try_size(options, mode, size, wanted, path)
                    if result == "ok":
                        break
                failed += result == "FAIL"
                seen += result != "skip"
                print(f"{result:4}  {mode}, {size >> 10} KB: {what}", flush=True)
    if failed:
        return 1
    if not seen:
        print("skipped: the host is too busy, or its clock too coarse, for all sizes")
    return 0 if seen else 77


if __name__ == "__main__":
    sys.exit(main())
