#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Attaching to programs whose file their name does not lead to.

usage: reach.py --shadowprof PATH --spinner PROGRAM

A program in a pid and mount namespace of its own, from a file system that exists only there, and one
whose file was deleted: samples are taken, and functions have their names. Status 77 (skipped) where
namespaces cannot be made.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

SKIPPED = 77
# A file system of its own over the directory, with the program on it.
INSIDE = 'mount -t tmpfs none "$1" && cp "$2" "$1/inside" && exec "$1/inside"'


def wait_for_program(name):
    """Its process id out here."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/comm", encoding="utf-8") as f:
                    if entry.isdigit() and f.read() == name + "\n":
                        return int(entry)
            except OSError:
                continue
        time.sleep(0.05)
    raise TimeoutError(f"{name} did not start")


def names_of(shadowprof, pid, directory):
    profile = os.path.join(directory, "profile.json")
    subprocess.run([shadowprof, "attach", str(pid), "-q", "-d", "2", "--max-overhead", "20%", "-o",
                    profile], check=True, timeout=120)
    return [function["name"] for function in read_profile(profile)["functions"]]


def in_a_namespace(options, directory):
    mounted = os.path.join(directory, "mounted")
    os.mkdir(mounted)
    program = subprocess.Popen(["unshare", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c",
                                INSIDE, "sh", mounted, options.spinner], start_new_session=True)
    try:
        pid = wait_for_program("inside")
        names = names_of(options.shadowprof, pid, directory)
        os.kill(pid, signal.SIGKILL)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    return names


def deleted(options, directory):
    path = os.path.join(directory, "deleted")
    shutil.copy(options.spinner, path)
    with subprocess.Popen([path]) as program:
        wait_for_program("deleted")
        os.unlink(path)
        try:
            return names_of(options.shadowprof, program.pid, directory)
        finally:
            program.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--spinner", required=True)
    options = parser.parse_args()
    options.shadowprof = os.path.abspath(options.shadowprof)
    options.spinner = os.path.abspath(options.spinner)
    probe = subprocess.run(["unshare", "--pid", "--mount", "--fork", "--mount-proc", "true"],
                           check=False, capture_output=True, text=True)
    if probe.returncode != 0:
        print(f"skipped: no namespaces here: {probe.stderr.strip()}")
        return SKIPPED
    failed = 0
    for case in (in_a_namespace, deleted):
        with tempfile.TemporaryDirectory(prefix="shadowprof-reach-") as directory:
            names = case(options, directory)
        good = "spin_and_mix" in names
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'}  {case.__name__}{'' if good else f': {names}'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
