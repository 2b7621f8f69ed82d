#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Programs under seccomp filters are profiled, or refused, and never noticed by their filter.

usage: filters.py --shadowprof FILE --filtered FILE [--only NAME]
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

from case_list import require, run_cases
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cache_bursts  # noqa: E402

ACTIONS = ("none", "allow", "errno", "trap", "kill_thread", "kill_process", "notify", "log", "strict")
EAGER = ("--max-overhead", "100%")
MODES = {
    "shadow": ("--mode", "shadow", *EAGER, "-F", "200", "--sample-size", "1M"),
    "burst": ("--mode", "burst", "--engine", "translator", *EAGER, "--burst", "1ms/20ms",
              *cache_bursts.of_this_host()),
    "interpreted": ("--mode", "burst", "--engine", "emulator", *EAGER, "--burst", "1ms/20ms"),
    "full": ("--mode", "full",),
}
SECONDS = "1.5"


def expected(action):
    middle = [] if action == "strict" else ["not trapped", "not notified"]
    return ["ready", *middle, "done"]


def as_user(command):
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all",
            "--bounding-set=-all", *command]


def why_no_user(options):
    """Why the part without the right to suspend filters cannot run here; or nothing."""
    if os.geteuid() != 0:
        return None  # we are that user
    if not shutil.which("setpriv"):
        return "no setpriv"
    os.chmod(".", 0o777)
    tried = subprocess.run(as_user([options.shadowprof, "--version"]), check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return None if tried.returncode == 0 else "another user cannot execute shadowprof here"


def check_program(what, action, text, status):
    require(text.split("\n")[:-1] == expected(action) and status == 0,
            f"{what}: the program has said {text!r} and ended with {status}")


def samples_of(file):
    return json.loads(pathlib.Path(file).read_text(encoding="utf-8"))["coverage"]["samples"]


def launched(options, who, mode, action, *words):
    """Runs it from its start; it installs its filter under us."""
    file = f"run-{mode}-{action}.json"
    pathlib.Path(file).unlink(missing_ok=True)
    done = subprocess.run(who([options.shadowprof, "run", *MODES[mode], "-o", file, "--",
                               options.filtered, action, SECONDS, *words]),
                          check=False, timeout=120, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    what = f"run {mode} {action} {words}: {done.stderr}"
    check_program(what, action, done.stdout, done.returncode)
    return file, done.stderr


def attached(options, who, mode, action, *words):
    """A profile of half a second of one that has its filter; then it goes on to its end."""
    file = f"attach-{mode}-{action}.json"
    pathlib.Path(file).unlink(missing_ok=True)
    pathlib.Path("over").write_bytes(b"\0")
    with subprocess.Popen(who([options.filtered, action, "60", "until=over", *words]), text=True,
                          stdout=subprocess.PIPE) as program:
        first = program.stdout.readline()
        done = subprocess.run(who([options.shadowprof, "attach", "-d", "0.5", *MODES[mode], "-o",
                                   file, str(program.pid)]),
                              check=False, timeout=120, text=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        with open("over", "r+b") as over:  # in place: the program has it mapped
            over.write(b"\1")
        rest = program.stdout.read()
    what = f"attach {mode} {action} {words}: {done.stderr}"
    check_program(what, action, first + rest, program.returncode)
    require(done.returncode == 0, f"{what} {done.returncode}")
    return file, done.stderr


def each(options, who, modes, kinds, *words):
    for mode in modes:
        for kind in kinds:
            if kind is attached and mode == "full":
                continue
            for action in ACTIONS:
                if action == "strict" and words:
                    continue
                yield mode, kind(options, who, mode, action, *words)


def privileged(options, modes, kinds, *words):
    if os.geteuid() != 0:
        print("skip  filters are suspended: not root", flush=True)
        return
    for mode, (file, said) in each(options, list, modes, kinds, *words):
        require(samples_of(file) > 0 or mode == "full" or words, f"no samples in {file}: {said}")


def unprivileged(options, modes, kinds, *words):
    why = why_no_user(options)
    if why:
        print("skip  filters cannot be suspended: " + why, flush=True)
        return
    who = as_user if os.geteuid() == 0 else list
    for mode, (file, said) in each(options, who, modes, kinds, *words):
        if mode in ("shadow", "interpreted") and not words:  # which need no call in the program
            require(samples_of(file) > 0, f"no samples in {file}: {said}")


def root_attaches_to_shadow(options):
    privileged(options, ["shadow"], [attached])


def root_runs_shadow(options):
    privileged(options, ["shadow"], [launched])


def root_takes_bursts(options):
    privileged(options, ["burst", "interpreted"], [attached])


def root_runs_full(options):
    privileged(options, ["full"], [launched])


def user_attaches_to_shadow(options):
    unprivileged(options, ["shadow"], [attached])


def user_runs_shadow(options):
    unprivileged(options, ["shadow"], [launched])


def user_takes_bursts(options):
    unprivileged(options, ["burst", "interpreted"], [attached])


def user_runs_full(options):
    unprivileged(options, ["full"], [launched])


def sleeps_are_not_restarted_by_the_kernel(options):
    """restart_syscall(2) is a call that a filter sees, too; the kernel makes it after interruptions."""
    for kind in (attached, launched):
        privileged(options, ["shadow", "burst", "interpreted"], [kind], "sleeps", "sleeper", "no-restart")
    unprivileged(options, ["shadow", "burst", "interpreted"], [attached], "sleeps", "sleeper",
                 "no-restart")


def allow_all_by_filter():
    """For a child before its exec: puts a filter upon it that allows every call."""
    no_new_privs, set_seccomp, mode_filter = 38, 22, 2
    code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))  # RET ALLOW
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    libc.prctl(no_new_privs, 1, 0, 0, 0)
    libc.prctl(set_seccomp, mode_filter, ctypes.c_void_p(ctypes.addressof(program)), 0, 0)


def inherited_filters_are_no_obstacle(options):
    """As in a container: all are below one filter, and shadowprof cannot suspend it."""
    for action, forks in (("none", True), ("kill_process", False), ("trap", False)):
        done = subprocess.run([options.shadowprof, "run", *MODES["shadow"], "-o", "p.json", "--",
                               options.filtered, action, SECONDS], check=False, timeout=120, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=allow_all_by_filter)
        check_program(f"below a filter: {action} {done.stderr}", action, done.stdout, done.returncode)
        found = json.loads(pathlib.Path("p.json").read_text(encoding="utf-8"))
        require(found["coverage"]["samples"] > 0, f"{action}: {found['coverage']} {done.stderr}")
        require((found["overhead"].get("forks", 0) > 0) or not forks, f"{action}: {found['overhead']}")


CASES = [value for name, value in sorted(globals().items())
         if name.startswith(("root_", "user_", "sleeps_", "inherited_"))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True, type=os.path.abspath)
    parser.add_argument("--filtered", required=True, type=os.path.abspath)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    natively = subprocess.run([options.filtered, "kill_process", "0.1", "sleeps"], check=False,
                              text=True, stdout=subprocess.PIPE)
    if natively.returncode != 0:
        print(f"skip  filters: the program itself needs other calls here ({natively.returncode})")
        return 77
    return run_cases(CASES, options)


if __name__ == "__main__":
    sys.exit(main())
