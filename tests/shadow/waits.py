#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Nothing waits for ever for a thread that is stopped, and whoever wants us to end sees us end (ending.py).

usage: waits.py --shadowprof FILE --faulter FILE --spinner FILE --vforker FILE [--only NAME]
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from case_list import require, run_with_programs
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cache_bursts  # noqa: E402

EAGER = ("--max-overhead", "100%")
SHADOW = ("--mode", "shadow", *EAGER, "-F", "200", "--sample-size", "1M")
MODES = {
    "shadow": SHADOW,
    "emulator": (*SHADOW, "--engine", "emulator"),
    "burst": ("--mode", "burst", "--engine", "translator", *EAGER, "--burst", "1ms/20ms",
              *cache_bursts.of_this_host()),
    "interpreted": ("--mode", "burst", "--engine", "emulator", *EAGER, "--burst", "1ms/20ms"),
}
SOON = 20  # seconds; far less where the machine is not busy


def profile(file="p.json"):
    return json.loads(pathlib.Path(file).read_text(encoding="utf-8"))


def children_of(process):
    """Zombies, too."""
    found = []
    for thread in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        found += thread.read_text(encoding="utf-8").split()
    return found


def attached(options, mode, word):
    """Of a program that handles its own page faults: its profile, and what was said."""
    with subprocess.Popen([options.faulter, word], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as program:
        try:
            first = program.stdout.readline()
            if first.startswith("cannot"):
                print("skip  userfaultfd: " + first.strip(), flush=True)
                return None, ""
            done = subprocess.run([options.shadowprof, "attach", "-d", "1", *MODES[mode], "-o", "p.json",
                                   str(program.pid)], check=False, timeout=SOON, text=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            left = children_of(program.pid)
            text = first + program.communicate(timeout=SOON)[0]
        finally:
            program.kill()
    require(text == "ready\ndone\n" and program.returncode == 0,
            f"{mode} {word}: {text!r} {program.returncode} {done.stderr}")
    require(done.returncode == 0, f"{mode} {word}: {done.returncode} {done.stderr}")
    require(not left, f"{mode} {word}: processes are left: {left}")
    return profile(), done.stderr


def faults_are_not_waited_for(options):
    """A page that another thread must provide; it is stopped, too."""
    for mode in MODES:
        for _ in range(2):
            attached(options, mode, "plain")


def forks_are_not_waited_for(options):
    """A fork of which another thread must be told; it is stopped, too. So there is none."""
    for mode in MODES:
        for _ in range(2):
            found, said = attached(options, mode, "forks")
            if not found or mode not in ("shadow", "emulator"):
                continue
            require(found["overhead"].get("forks", 0) == 0, found["overhead"])
            require("UFFD_FEATURE_EVENT_FORK" in said, said)
            require(found["coverage"]["samples"] > 0, f"{found['coverage']}: {said}")


def hidden_descriptors_are_borne(options):
    """That somebody is told of forks is seen only when one waits."""
    for _ in range(2):
        found, said = attached(options, "shadow", "hidden")
        if found:
            require("UFFD_FEATURE_EVENT_FORK" in said, said)


def wait_for_end(process, what):
    try:
        process.wait(timeout=SOON)
    except subprocess.TimeoutExpired:
        process.kill()
        require(False, what + " does not end")


def sigterm_ends_attach(options):
    """The program goes on, whatever state it was in, and the profile is there."""
    states = {"runs": [options.spinner], "sleeps": ["/usr/bin/sleep", "600"], "is stopped": [options.spinner],
              "waits for a child": ["/usr/bin/python3", "-c",
                                    "import os; os.posix_spawn('/usr/bin/sleep', ['sleep', '600'], {});"
                                    "os.wait()"],
              "waits uninterruptibly": [options.vforker]}
    for mode in MODES:
        for state, command in states.items():
            what = f"attach {mode}, program {state}"
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as program:
                try:
                    time.sleep(0.3)
                    if state == "is stopped":
                        program.send_signal(signal.SIGSTOP)
                    with subprocess.Popen([options.shadowprof, "attach", *MODES[mode], "-o", "p.json",
                                           str(program.pid)], stderr=subprocess.PIPE, text=True) as ours:
                        time.sleep(1.5)
                        require(ours.poll() is None, f"{what}: {ours.returncode}")
                        ours.send_signal(signal.SIGTERM)
                        wait_for_end(ours, what)
                    require(program.poll() is None, f"{what}: it has ended with {program.returncode}")
                    status = pathlib.Path(f"/proc/{program.pid}/status").read_text(encoding="utf-8")
                    require("TracerPid:\t0" in status, what + ": it is still traced")
                    require(profile()["run"]["mode"] in ("shadow", "burst"), what)
                    os.unlink("p.json")
                finally:
                    os.killpg(program.pid, signal.SIGKILL)  # and its child, which has our stderr


CASES = [faults_are_not_waited_for, forks_are_not_waited_for, hidden_descriptors_are_borne,
         sigterm_ends_attach]


if __name__ == "__main__":
    sys.exit(run_with_programs(CASES, __doc__, ("shadowprof", "faulter", "spinner", "vforker")))
