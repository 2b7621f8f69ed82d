#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Loads that are timed in bouts: each counts as executed, few are timed, and the rest is as if each were timed.

The program walks a cycle of loads that no miss to memory is in. What is exact without a condition (executions, edges)
has to stay so.
"""
import sys

from known_driver import drive

ROUNDS = {"full": ["20000", "100000"], "all": ["100", "400"], "shadow": ["200000", "2000000"]}
ALL = "edge,call,method,path,value,latency"
FEWEST, MOST_SHARE, MOST_BUT_COLD = 1000, 1 / 4, 3 / 4


def walk_row(profile):
    """The load of the walk: the one that was executed most often."""
    table = profile["tables"]["latencies"]
    most = max(range(len(table["executions"])), key=lambda i: table["executions"][i])
    row = {key: column[most] for key, column in table.items() if key != "kinds"}
    told = [load for load in profile["hotlists"]["load_latency"] if load["offset"] == row["offset"]]
    return row, told[0] if told else None


def walked(truth):
    return truth["steps"] * (truth["prepared"] + truth["served"])


def full(d, rounds, *options):
    profile, truth = d.run("phases", ROUNDS[rounds], "--mode", "full", "--top", "1000", *options)
    row, told = walk_row(profile)
    return profile, truth, row, told


def check_full_mode(d):
    profile, truth, row, _ = full(d, "all", "--profile", "latency", "--condition", "latency=all")
    d.expect("all: each load is timed", row["timed"] == row["executions"] == walked(truth), row)
    d.expect("all: and no bout says its error", row["window_squares"] == 0, row)
    exact = {}
    for profiles in ("latency", ALL):
        profile, truth, row, told = full(d, "full", "--profile", profiles, "--condition", "latency=1/16")
        what = f"full, {profiles}"
        d.expect(f"{what}: each execution counts", row["executions"] == walked(truth), (row, truth))
        share = row["timed"] / row["executions"]
        d.expect(f"{what}: few are timed", row["timed"] > FEWEST and share < MOST_SHARE, row)
        d.expect(f"{what}: they are not from memory", row["dram"] + row["beyond"] < 0.05 * row["timed"], row)
        d.expect(f"{what}: the error is that of bouts", row["window_squares"] > 0 and told["mean_error"] > 0, (row, told))
        d.expect(f"{what}: the condition is told", profile["run"]["options"]["condition"] == "latency=1/16",
                 profile["run"]["options"])
        exact[profiles] = profile["confidence"]["exact"]
    d.expect("full: counts stay exact", all(exact.values()), exact)
    values = [v for v in profile["hotlists"]["values"] if v["function"] == "walk"]
    d.expect("full: values are there", values, profile["hotlists"]["values"][:3])


def check_shadow_mode(d):
    sampled = ["--mode", "shadow", "--max-overhead", "50%", "--top", "1000"]
    shares = {}
    for latency in ("all", "1/64"):
        profile, _ = d.run("phases", ROUNDS["shadow"], *sampled, "--profile", ALL, "--condition", "values=1/4",
                           "--condition", "latency=" + latency)
        row, _ = walk_row(profile)
        shares[latency] = row["timed"] / row["executions"]
        d.expect(f"shadow, latency={latency}: values are there",
                 any(v["function"] == "walk" for v in profile["hotlists"]["values"]))
    # What bursts execute is not timed, nor does what a replica's cold caches take count.
    d.expect("shadow: most are timed", shares["all"] > MOST_BUT_COLD, shares)
    d.expect("shadow: one in 64 is fewer", shares["1/64"] < MOST_SHARE, shares)
    profile, _ = d.run("phases", ROUNDS["shadow"], *sampled, "--profile", "latency", "--condition", "latency=1/64")
    row, _ = walk_row(profile)
    d.expect("shadow, latency alone: few are timed", 0 < row["timed"] < MOST_SHARE * row["executions"], row)


def check_all(d, _):
    check_full_mode(d)
    check_shadow_mode(d)


if __name__ == "__main__":
    sys.exit(drive(__doc__, check_all))
