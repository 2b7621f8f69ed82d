#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Shares of processor time, by the clock and by looks, against what the program itself has measured.

usage: shares.py --shadowprof FILE --phases FILE
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

# Points by which a share may be off beside its interval: the phases end at their clock's next look.
SLACK = 0.02
TRIES = 3


def require(condition, what):
    if not condition:
        raise AssertionError(what)


def measured(shadowprof, phases, *options, scale=4):
    """The profile, and the seconds that the program says of itself."""
    done = subprocess.run([shadowprof, "run", *options, "-o", "p.json", "--", phases, str(scale)],
                          capture_output=True, text=True, timeout=120, check=False)
    require(done.returncode == 0, f"{done.returncode}: {done.stderr}")
    truth = {name: float(seconds) for name, seconds in map(str.split, done.stdout.splitlines())}
    return read_profile("p.json"), truth


def check_sum(time, truth):
    """Seconds as the program says, and as the profile does."""
    whole = sum(seconds for name, seconds in truth.items() if name not in ("helper", "kernel"))
    total = time["user_s"] + time["kernel_s"]
    require(abs(total - whole) < 0.1 * whole + 0.1, f"{total} s, of {whole}: {time}")
    return whole, total


def check_shares(profile, truth):
    time = profile["time"]
    whole, total = check_sum(time, truth)
    rows = {row["function"]: row for row in profile["hotlists"]["methods"] if "function" in row}
    for name in ("follow_list", "count_up", "divide"):
        share, row = truth[name] / whole, rows[name]
        require(abs(row["time_share"] - share) < SLACK + 1.5 * row["time_error"],
                f"{name}: {row['time_share']:.3f} +- {row['time_error']:.3f}, really {share:.3f}")
    require(profile["hotlists"]["methods"][0]["function"] == "follow_list",
            "the function that takes longest is not the first")
    helper = [t for t in profile["threads"] if t["name"] == "helper"]
    require(len(helper) == 1, f"threads: {profile['threads']}")
    seconds = 1e-9 * (helper[0]["user_ns"] + helper[0]["kernel_ns"])
    require(abs(seconds - truth["helper"]) < 0.1 * whole, f"helper: {seconds}, {truth['helper']}")
    if time["sees_kernel"]:
        share = truth["kernel"] / whole
        require(abs(time["kernel_s"] / total - share) < 0.03, f"kernel: {time}, really {share}")


def check_speeds(profile):
    """A second of waiting for memory has fewer instructions than one of work: False if the samples do not tell."""
    methods = profile["hotlists"]["methods"]
    if profile["coverage"].get("assumed_speeds"):
        require(not any("cycles_per_instruction" in row for row in methods), "cycles, of speeds that are assumed")
        return False
    rows = {row["function"]: row for row in methods if "function" in row}
    slow, fast = (rows[name]["self_share"] / rows[name]["time_share"] for name in ("follow_list", "count_up"))
    require(1.5 * slow < fast, f"waiting for memory is not seen: {slow} and {fast} of instructions to time")
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--phases", required=True)
    options = parser.parse_args()
    options.shadowprof = os.path.abspath(options.shadowprof)
    options.phases = os.path.abspath(options.phases)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for mode, source in itertools.product(("shadow", "burst"), ("clock", "looks")):
            profile, truth = measured(options.shadowprof, options.phases, "--mode", mode, "--time", source)
            if "time" not in profile:
                require(source == "clock", "no time by looks")
                print(f"skip  {mode}, {source}: the kernel permits no clock events here")
                continue
            require(profile["time"]["source"] == {"clock": "cpu-clock", "looks": "looks"}[source], profile["time"])
            try:
                if source == "looks":
                    check_sum(profile["time"], truth)
                    print("ok", mode, source, "(only the sum)")
                    continue
                check_shares(profile, truth)
            except AssertionError:
                print(json.dumps(profile["hotlists"]["methods"][:6], indent=1))
                print(mode, profile["time"], truth)
                raise
            print("ok", mode, source)
        profile, _ = measured(options.shadowprof, options.phases, "--time", "off", scale=0.2)
        require("time" not in profile, "--time off has time")
        for _ in range(TRIES):
            profile, _ = measured(options.shadowprof, options.phases, "--max-overhead", "30%", scale=8)
            if check_speeds(profile):
                print("ok speeds")
                return
        print("skip  speeds: no run's samples tell how fast the program is at what")


if __name__ == "__main__":
    main()
