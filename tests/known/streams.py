#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Data that is walked in known orders, and the hot data streams that profiles find in it, in each mode.

streams.c prints for each stream: function, length, lines, order, share of the references. In full mode they
have to be found, in samples what is found has to be true, and where nothing recurs nothing may be found.
"""
import sys

from known_driver import ONLY_AND_MODES, drive

MODES = {"full": ["--mode", "full"],
         "shadow": ["--mode", "shadow", "--max-overhead", "20%"],
         "burst": ["--mode", "burst", "--max-overhead", "20%"]}
# Rounds in full mode, and so many, or more, that it runs for two seconds.
WALKS = {"list": ("200000", "30000000"),
         "lists": ("200000", "25000000"),
         "table": ("300000", "60000000"),
         "columns": ("250000", "40000000"),
         "sweep": ("30000", "5000000"),
         "random": ("200000", "8000000")}
# So many of the references that were looked at are before main(), or where a burst has parted the one list
# from the other at another node.
ELSEWHERE = 0.15
FUNCTIONS = {"walk_list", "walk_other", "walk_array", "walk_at_random"}


def found_in(profile):
    """Streams of the walks alone, and not of what begins and ends the program, by function."""
    found = {}
    for row in profile["hotlists"]["data_streams"]:
        functions = {i.get("function") for i in row["instructions"]}
        if functions <= FUNCTIONS:
            found.setdefault(functions.pop() if len(functions) == 1 else "several", []).append(row)
    return found


def check_stream(d, what, rows, fact, is_exact, bursts):
    function, length, lines, order, share = fact
    if not rows:
        d.expect(f"{what}: {function} is found", not is_exact, "no row")
        return
    row = rows[0]
    shape = row["length"], row["lines"], row["order"], len(row["references"])
    if share < 1 and not is_exact and abs(row["length"] - length) <= ELSEWHERE * length:
        length = lines = row["length"]  # parted at another node
    d.expect(f"{what}: the stream of {function}", shape == (length, lines, order, length), shape)
    found = sum(r["share"] for r in rows)
    error = ELSEWHERE + (0 if is_exact else 2 * row.get("share_error", 1))
    d.expect(f"{what}: share of {function}: {found:.4f}, of {share:.4f} +- {error:.4f}", abs(found - share) <= error)
    if order == "strided":
        d.expect(f"{what}: stride of {function}", row["stride_lines"] == 5, row)
    if share < 1:
        return
    # Each burst that begins within a round may show it another way round.
    d.expect(f"{what}: {function} has one stream", len(rows) == 1 and row["streams"] <= bursts, rows)
    # Samples count by weights, and sums of these are rounded; the first round of a burst may be a part.
    off = 0 if bursts == 1 else 1e-4 * row["heat"]
    d.expect(f"{what}: heat of {function}", abs(row["heat"] - row["occurrences"] * length) <= off, row)
    if order == "scattered":
        d.expect(f"{what}: advice for {function}", row.get("advice") == "always together: place together", row.get("advice"))


def check(d, walk, mode):
    counted, sampled = WALKS[walk]
    is_exact = mode == "full"
    sizes = [walk, counted] if is_exact else d.lasting("streams", [walk, sampled])
    profile, truth = d.run("streams", sizes, *MODES[mode], "--profile", "edge,stream", "--top", "1000")
    what = f"{walk} {mode}"
    counts = profile["coverage"]["streams"]
    if not is_exact and (profile["coverage"]["samples"] <= 2 or counts["bursts"] <= 2):
        print(f"skip  {what}: the machine was too busy for samples: {profile['coverage']['samples']}, {counts['bursts']} bursts")
        return
    found = found_in(profile)
    for fact in truth["streams"]:
        check_stream(d, what, found.get(fact[0], []), fact, is_exact,
                     1 if is_exact and counts["skipped"] == 0 else max(2, counts["bursts"]))
    others = [row for function, rows in found.items() if function not in {fact[0] for fact in truth["streams"]} for row in rows]
    most = ELSEWHERE if len(truth["streams"]) > 1 else 0
    # At the least, by their intervals.
    share = sum(row["share"] - (0 if is_exact else 2 * row.get("share_error", 1)) for row in others)
    d.expect(f"{what}: nothing else is found", share <= most, others)
    heat = sum(profile["tables"].get("streams", {}).get("heat", []))
    d.expect(f"{what}: streams are a part of the references", heat + counts["longer"] <= counts["references"], counts)


def check_all(driver, options):
    for walk in WALKS:
        for mode in options.modes.split(","):
            if not options.only or walk in options.only.split(","):
                check(driver, walk, mode)


sys.exit(drive(__doc__, check_all, ONLY_AND_MODES))
