#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Pointer chases through sets of known size are served from the cache that holds them.

usage: latencies.py --shadowprof SHADOWPROF --chase PROGRAM

Classes come from a calibration on this host, which is in the profile. L1 and L2 count as one where
they are less than four of the clock's steps apart: what else runs on a core then hides it. Exit status
77 where the clock cannot tell the caches from memory at all. Others use the machine's caches too, so each size has some tries.
"""

import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

TRIES = 5


def profile_of(shadowprof, command, path):
    subprocess.run([shadowprof, "run", "--mode", "full", "-q", "--profile", "latency", "-o", path, "--", *command],
                   check=True, timeout=120, stdout=subprocess.DEVNULL)
    return read_profile(path)


def chase_row(profile):
    """The load that is executed most: there is one in the loop, and it is 100,000 times."""
    table = profile["tables"]["latencies"]
    most = max(range(len(table["executions"])),
               key=lambda i: table["executions"][i] if table["executions"][i] < 200_000 else 0)
    return {key: column[most] for key, column in table.items() if key != "kinds"}


def wrong_pairs(profile, wanted):
    """What is wrong with the pages and values of loads that went where most of the chase's did."""
    classes = ["l1", "l2", "l3", "dram", "beyond"]
    tables = profile["tables"]
    pairs = {"pages": tables["latency_pages"], "values": tables["latency_values"]}
    for name, table in pairs.items():
        for number, level in enumerate(classes):
            counted = sum(n for c, n in zip(table["class"], table["count"]) if c == number)
            timed = sum(tables["latencies"][level])
            if counted > timed or (level == "l1" and counted) or (level == wanted and not counted):
                return f"{counted} {name} of {timed} loads from {level}"
    return ""


def last_cache_bytes():
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size", encoding="ascii") as file:
            return int(file.read().strip().rstrip("K")) << 10
    except (OSError, ValueError):
        return 0


def excuse(wanted, size, found, row, clock):
    """Why the chase's loads may well come from elsewhere on this host, or ""."""
    if wanted == "l3" and last_cache_bytes() < 2 * size:
        return "the last cache is too small"
    if wanted in ("l2", "l3") and found != "caches" and row["cycles"] > 2 * clock[wanted] * row["timed"]:
        return f"others drive it out of {wanted}"
    if wanted == "dram" and found == "l3" and 2 * last_cache_bytes() > size:
        return "much of it stays in the last cache"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--chase", required=True)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="shadowprof-latencies-") as directory:
        path = os.path.join(directory, "profile.json")
        for size, wanted in ((16 << 10, "l1"), (512 << 10, "l2"), (8 << 20, "l3"),
                             (256 << 20, "dram")):
            for _ in range(TRIES):
                profile = profile_of(options.shadowprof, [options.chase, str(size)], path)
                clock = profile["run"]["host"]["latency"]
                if clock["dram"] < clock["l3"] + 4 * clock["resolution"]:
                    print(f"skipped: this host's clock does not tell L3 from memory: {clock}")
                    return 77
                row = chase_row(profile)
                caches = row["l1"] + row["l2"]
                found = max({"caches": caches, "l3": row["l3"], "dram": row["dram"]}.items(),
                            key=lambda item: item[1])[0]
                right = found == (wanted if wanted in ("l3", "dram") else "caches")
                if clock["l2"] - clock["l1"] >= 4 * clock["resolution"] and found == "caches":
                    right = right and row[wanted] * 2 > caches
                if right:
                    break
            if not right and (why := excuse(wanted, size, found, row, clock)):
                print(f"skip  {size >> 10} KB: {why}")
                continue
            if right and wanted in ("l3", "dram") and found == wanted and wrong_pairs(profile, wanted):
                print(f"FAIL  {size} bytes: {wrong_pairs(profile, wanted)}")
                failed += 1
            failed += not right
            print(f"{'ok  ' if right else 'FAIL'}  {size} bytes are in {wanted}: {row}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
