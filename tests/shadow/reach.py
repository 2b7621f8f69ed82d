#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Attaching to programs whose file their name does not lead to, or whose numbers are others than ours.

usage: reach.py --shadowprof PATH --spinner PROGRAM

A program in a pid and mount namespace of its own, from a file system that exists only there, and one
whose file was deleted: samples are taken, and functions have their names. One in a pid namespace of
its own finds its own children as it left them, and no others. Status 77 (skipped) where namespaces
cannot be made.
"""

import argparse
import contextlib
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


# Has children that have ended, whose numbers begin as is said, and has the given name when they have;
# when there is such a file it says how many have ended as they should, and how many others there are.
PARENT = """
import os, sys, time
first, told, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
try:
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(first))
except OSError:
    pass  # no other child has the number of a replica by chance
children = []
for status in range(240):
    children.append(os.fork())
    if children[-1] == 0:
        os._exit(status)
with open("/proc/self/comm", "w") as file:
    file.write(name)
until = time.monotonic() + 60
while not os.path.exists(told) and time.monotonic() < until:
    sum(range(100000))
right = others = 0
for status, child in enumerate(children):
    try:
        right += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == status
    except ChildProcessError:
        pass
try:
    while os.waitpid(-1, os.WNOHANG | 0x40000000)[0] != 0:  # __WALL
        others += 1
except ChildProcessError:
    pass
print(right, others, flush=True)
"""


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


def misses_a_name(names):
    return "" if "spin_and_mix" in names else str(names)


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
    return misses_a_name(names)


def with_children(options, directory):
    told = os.path.join(directory, "told")
    name = "parent-of-many"
    # Not the namespace's first process, which would inherit children of others.
    command = ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c", '"$@"; true', "sh",
               "/usr/bin/python3", "-c", PARENT, str(os.getpid() + 100), told, name]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True) as program:
        try:
            pid = wait_for_program(name)
            names_of(options.shadowprof, pid, directory)
            with open(told, "w", encoding="utf-8"):
                pass
            said = program.communicate(timeout=60)[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
    return "" if said == "240 0\n" else f"right and other children: {said}"


def deleted(options, directory):
    path = os.path.join(directory, "deleted")
    shutil.copy(options.spinner, path)
    with subprocess.Popen([path]) as program:
        wait_for_program("deleted")
        os.unlink(path)
        try:
            return misses_a_name(names_of(options.shadowprof, program.pid, directory))
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
    for case in (in_a_namespace, with_children, deleted):
        with tempfile.TemporaryDirectory(prefix="shadowprof-reach-") as directory:
            problem = case(options, directory)
        failed += problem != ""
        print(f"{'FAIL' if problem else 'ok  '}  {case.__name__}{': ' if problem else ''}{problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
