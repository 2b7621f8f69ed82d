#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Sampling that waits for a function: of a program with two phases only the second one is in the profile.

Both phases execute the same walk, so what was sampled before the second began would be seen by its caller.
"""
import subprocess
import sys
import time

from known_driver import drive
from profile_file import read_profile

# Rounds of both phases: seconds each.
ROUNDS = ["300000", "600000"]
MODES = {"shadow": ["--max-overhead", "20%", "--top", "1000", "--profile", "edge,call,method"],
         "burst": ["--mode", "burst", "--max-overhead", "20%", "--burst", "1ms/10ms", "--top", "1000",
                   "--profile", "edge,call,method"]}


def functions(profile):
    return {row["function"] for kind in ("functions", "methods") for row in profile["hotlists"].get(kind, [])}


def expect_only_serving(d, what, profile):
    seen = functions(profile)
    d.expect(f"{what}: there are samples", profile["coverage"]["samples"] > 0, profile["coverage"])
    d.expect(f"{what}: they are of the phase that was waited for", "walk" in seen, seen)
    d.expect(f"{what}: and of no other", "prepare" not in seen, seen)
    start = profile["run"]["start_at"]
    d.expect(f"{what}: the profile says when it began", start["function"] == "serve" and start["at_s"] > 0.01, start)


def check_runs(d, mode):
    profile, truth = d.run("phases", ROUNDS, *MODES[mode], "--start-at", "serve")
    expect_only_serving(d, mode, profile)
    d.expect(f"{mode}: the program ends as always", profile["run"]["exit"] == {"status": 0} and truth["served"] == 600000,
             profile["run"]["exit"])
    whole, _ = d.run("phases", ROUNDS, *MODES[mode])
    d.expect(f"{mode}: without the option both phases are seen", {"prepare", "serve"} <= functions(whole), functions(whole))
    d.expect(f"{mode}: and no start is told", "start_at" not in whole["run"], whole["run"])
    done = subprocess.run([d.shadowprof, "run", *MODES[mode], "--start-at", "known_phases!nowhere", "-o", d.path, "--",
                           f"{d.programs}/known_phases", "20000", "20000"],
                          check=False, capture_output=True, text=True, timeout=300)
    never = read_profile(d.path)
    d.expect(f"{mode}: what is never reached is not sampled", done.returncode == 0 and never["coverage"]["samples"] == 0,
             (done, never["coverage"]))
    d.expect(f"{mode}: and the run says so", "known_phases!nowhere was not seen" in " ".join(done.stderr.split())
             and "at_s" not in never["run"]["start_at"], done.stderr)


def check_attach(d):
    """To a program that runs; ctl says what it waits for. One that is not reached leaves it as it was."""
    with subprocess.Popen([f"{d.programs}/known_phases", "2000000", "2000000"], stdout=subprocess.DEVNULL) as program:
        time.sleep(0.2)
        with subprocess.Popen([d.shadowprof, "attach", "-q", "-d", "1", "--start-at", "serve", *MODES["shadow"], "-o", d.path,
                               str(program.pid)]) as run:
            time.sleep(1)
            status = subprocess.run([d.shadowprof, "ctl", str(program.pid), "status"], check=False, capture_output=True,
                                    text=True, timeout=60)
            refused = subprocess.run([d.shadowprof, "ctl", str(program.pid), "set", "values=all"], check=False,
                                     capture_output=True, text=True, timeout=60)
            d.expect("attach: ended in order", run.wait(120) == 0)
        if "waits-for: serve\n" in status.stdout:  # else it was there before
            d.expect("attach: nothing can be set before it begins", refused.returncode == 125 and "waits for serve" in refused.stderr,
                     refused)
        expect_only_serving(d, "attach", read_profile(d.path))
        program.kill()


def check_death(d):
    """The program does not notice that who waits is killed, also when it comes to the function."""
    with subprocess.Popen([f"{d.programs}/known_phases", "200000", "50000"], stdout=subprocess.PIPE, text=True) as program:
        with subprocess.Popen([d.shadowprof, "attach", "-q", "--start-at", "known_phases!nowhere", "--max-overhead", "20%",
                               "-o", d.path, str(program.pid)]) as run:
            time.sleep(0.4)
            children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(run.pid)], check=False, capture_output=True,
                                      text=True).stdout.split()
            for pid in [*children, str(run.pid)]:
                subprocess.run(["kill", "-KILL", pid], check=False, stderr=subprocess.DEVNULL)
        said, _ = program.communicate(timeout=120)
        d.expect("death: the program goes on to its end", program.returncode == 0 and '"served": 50000' in said,
                 (program.returncode, said))


def check_all(d, _):
    for mode in MODES:
        check_runs(d, mode)
    check_attach(d)
    check_death(d)


if __name__ == "__main__":
    sys.exit(drive(__doc__, check_all))
