#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Guest programs natively and in the interpreter: output and exit status must be equal.

usage: guests.py RUN_EMULATED GUEST_DIR
"""

import os
import subprocess
import sys
import tempfile

# What run_emulated cannot do, by the beginning of the name.
LEFT_OUT = {
    "thr_": "threads would run natively beside the interpreted one",
    "proc_": "children run natively",
    "sig_": "a replica is given no signals; run_emulated's way to deliver them restarts no calls",
    "jit_threads": "threads",
    "jit_fork": "children",
    "jit_alias": "two views of one shared page are two pages in a private view",
    "load_chase": "nothing but time",
    "flow_traps": "traps and the trap flag are how run_emulated steps",
    "flow_trapflag": "the same",
    "flow_x87": "the interpreter does not keep where the x87 unit's last instruction was",
    "flow_jumps": "run_emulated's single steps hang where it blocks all signals",
    "flow_alignment": "the interpreter does not check alignment",
    "flow_nowhere": "a jump to an address that is not canonical faults at its target here",
    "flow_tables": "its stack grows, which run_emulated cannot make it do",
    "sys_memory": "the same",
    "sys_bases": "run_emulated cannot set bases that are beyond the program's half",
    "sys_dispatch": "run_emulated gives it no SIGSYS",
    "sys_vdso": "threads, children, and the vdso is where run_emulated makes calls",
}


def run(command):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=120, check=False,
                                  cwd=directory)
        except subprocess.TimeoutExpired as hung:
            return "no end in 120 s", hung.stdout
    # A shell's way to say that a signal killed it.
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return status, done.stdout


def main():
    emulator, folder = (os.path.abspath(argument) for argument in sys.argv[1:])
    failed, done = [], 0
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not os.path.isfile(path) or not os.access(path, os.X_OK) or ".so" in name:
            continue
        if any(name.startswith(prefix) for prefix in LEFT_OUT):
            continue
        native, ours = run([path]), run([emulator, path])
        done += 1
        if native != ours:
            failed.append(name)
            print(f"DIFFERS: {name}: native {native}, interpreted {ours}")
    print(f"{done} programs, {len(failed)} differ")
    return 1 if failed or done == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
