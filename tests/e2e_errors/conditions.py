#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What shadowprof does where the surroundings withhold something: it works, or it refuses in one sentence that names
what helps, and `shadowprof doctor` foretells which.

usage: conditions.py --shadowprof PATH [--only TEXT]

Each row of CONDITIONS is one way to be restricted. Within it: doctor's findings that are not ok are those of the row,
beside those of the host itself; a mode that doctor says works does work, with the program's output and status; a mode
that it says fails is refused before the program starts; attach to a program outside works, or is refused as the row
says. A way that this host does not allow is skipped.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

import surroundings
from bench import Bench, OWN, Skip, as_nobody, is_profile, need_root, refused, require, works

MODES = ("full", "shadow", "burst")
NO_MODE = {mode: "fails" for mode in MODES}
PTRACE, PERF_EVENT_OPEN, PROCESS_VM_READV, MEMFD_CREATE, USERFAULTFD = 101, 298, 310, 319, 323

NOT_OURS = "is another user's, has privileges that we have not"


@dataclasses.dataclass
class Condition:
    name: str
    enter: object  # a function that gives the way in: (words, what the process does first)
    findings: dict = dataclasses.field(default_factory=dict)  # {name: state}, of doctor's that are not ok
    refused: str = ""  # what the sentence of a refused mode says
    attach: str = ""  # what the sentence says; empty: it works


def as_another_user():
    need_root()
    return as_nobody(), None


def read_only():
    # The folder of the case stays as it is.
    return surroundings.mounts("mount --bind . . && mount -o remount,bind,ro / && "
                               "mount -t tmpfs -o ro none /mnt && cd /mnt")


def limits_of_a_group(controller, version_1, version_2):
    return lambda: surroundings.control_group(controller, version_1, version_2)


CONDITIONS = [
    Condition("nothing", lambda: ([], None)),
    Condition("no /proc", lambda: surroundings.mounts("umount -l /proc"),
              {"proc": "fails", "cpu": "limited", **NO_MODE},
              refused="/proc is not mounted; mount it with", attach="/proc is not mounted; mount it with"),
    Condition("the /proc of other processes", lambda: surroundings.mounts("true", "--pid", "--fork"),
              {"proc": "fails", **NO_MODE},
              refused="/proc belongs to another process namespace",
              attach="/proc belongs to another process namespace"),
    Condition("files that cannot be written", read_only, {"output": "limited"}),
    Condition("no executable files in memory", lambda: surroundings.mounts(
        "echo 2 >/proc/sys/vm/memfd_noexec", "--pid", "--fork", "--mount-proc"), attach="there is no process"),
    Condition("processes of others are hidden", lambda: surroundings.mounts(
        "mount -t proc -o hidepid=2 proc /proc && set -- " + " ".join(as_nobody()) + ' "$0" "$@" && '
        'exec "$@"'), {"time": "limited"}, attach="is hidden from us: /proc is mounted with hidepid"),
    Condition("no new privileges", lambda: surroundings.command("setpriv", "--no-new-privs")),
    Condition("another user's program", as_another_user, {"time": "limited"}, attach=NOT_OURS),
    Condition("a user namespace", lambda: surroundings.command("unshare", "--user", "--map-root-user"),
              {"time": "limited"}, attach=NOT_OURS),
    Condition("root without CAP_SYS_PTRACE", lambda: surroundings.command(
        "setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"), attach=NOT_OURS),
    Condition("a sandbox (Landlock)", surroundings.sandboxed, {"process_ids": "limited"}, attach=NOT_OURS),
    Condition("no ptrace", lambda: surroundings.without_calls(PTRACE),
              {"ptrace": "fails", "ptrace_syscall_info": "fails", "ptrace_signal_mask": "fails",
               "debug_registers": "limited", **NO_MODE},
              refused="--cap-add=SYS_PTRACE", attach="--cap-add=SYS_PTRACE"),
    Condition("no process_vm_readv", lambda: surroundings.without_calls(PROCESS_VM_READV, PROCESS_VM_READV + 1),
              {"process_vm_readv": "limited"}),
    Condition("no files in memory", lambda: surroundings.without_calls(MEMFD_CREATE),
              {"memfd": "limited", "full": "fails"}, refused="memfd_create"),
    Condition("no events of the kernel's clock", lambda: surroundings.without_calls(PERF_EVENT_OPEN),
              {"time": "limited"}),
    Condition("no userfaultfd", lambda: surroundings.without_calls(USERFAULTFD)),
    Condition("three processes", limits_of_a_group("pids", {"pids.max": "3"}, {"pids.max": "3"}),
              {"process_ids": "limited", **NO_MODE}, refused="pids.max", attach="pids.max"),
    Condition("a tenth of a processor", limits_of_a_group(
        "cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "10000"}, {"cpu.max": "10000 100000"})),
    Condition("64 MB of memory", limits_of_a_group(
        "memory", {"memory.limit_in_bytes": "67108864"}, {"memory.max": "67108864"})),
    Condition("five open files", lambda: surroundings.limited(resource.RLIMIT_NOFILE, 5),
              {"process_ids": "limited", **NO_MODE}, refused="ulimit -n", attach="ulimit -n"),
    Condition("200 MB of addresses", lambda: surroundings.limited(resource.RLIMIT_AS, 200000 << 10),
              NO_MODE, refused="ulimit -v", attach="ulimit -v"),
    Condition("no signals in queues", lambda: surroundings.limited(resource.RLIMIT_SIGPENDING, 0),
              NO_MODE, refused="ulimit -i", attach="ulimit -i"),
    Condition("a stack of 256 kB", lambda: surroundings.limited(resource.RLIMIT_STACK, 256 << 10)),
]


@contextlib.contextmanager
def entered(condition):
    way = condition.enter()
    if isinstance(way, tuple):
        yield way
    else:
        with way as inner:
            yield inner


def findings_of_doctor(call):
    said = call("doctor", "--json")
    answer = json.loads(said.out)
    findings = {f["name"]: f["state"] for f in answer["findings"]}
    working = [mode for mode in MODES if findings[mode] == "ok"]
    require(answer["works"] == bool(working), "works, or does it not?", said)
    require(said.status == (0 if working else OWN), "another status", said)
    advised = all("advice" in f for f in answer["findings"] if f["state"] != "ok")
    require(advised, "a finding without advice", said)
    return findings, said


def mode_does_what_doctor_says(call, bench, condition, mode, state):
    outcome = call("run", "-q", "--mode", mode, "-o", bench.profile, "--", "/bin/sh", "-c", "echo out; exit 3")
    if state == "ok":
        works(outcome, 3, "out\n")
        is_profile(bench.profile)
        bench.profile.unlink()
    else:
        refused(outcome, OWN)
        require(condition.refused in outcome.err, f"expected '{condition.refused}'", outcome)


def attach_does_what_the_row_says(call, bench, condition):
    with subprocess.Popen(["/bin/sleep", "100"]) as sleeper:
        try:
            outcome = call("attach", "-q", "-d", "0.3", "-o", bench.profile, sleeper.pid)
            require(sleeper.poll() is None, "the program has ended", outcome)
        finally:
            sleeper.kill()
    if condition.attach:
        refused(outcome, OWN)
        require(condition.attach in outcome.err, f"expected '{condition.attach}'", outcome)
    else:
        works(outcome, 0, "")


def check(condition, bench, of_host):
    with entered(condition) as (words, first):
        def call(*arguments):
            return bench.call(*arguments, before=words, preexec_fn=first)
        tried = bench.shell([*words, "true"], preexec_fn=first)
        if tried.status != 0:
            raise Skip(f"not allowed here: {tried.err.strip()}")
        findings, said = findings_of_doctor(call)
        odd = {name: state for name, state in findings.items() if state not in ("ok", of_host[name])}
        expected = {name: state for name, state in condition.findings.items() if state != of_host[name]}
        require(odd == expected, f"expected {expected}, found {odd}", said)
        for mode in MODES:
            mode_does_what_doctor_says(call, bench, condition, mode, findings[mode])
        attach_does_what_the_row_says(call, bench, condition)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="", help="conditions whose name holds this text")
    options = parser.parse_args()
    counts = {"ok": 0, "FAIL": 0, "skip": 0}
    bench = Bench(options.shadowprof.resolve(), pathlib.Path.cwd())
    of_host, _ = findings_of_doctor(bench.call)
    for condition in CONDITIONS:
        if options.only not in condition.name:
            continue
        result, why = "ok", ""
        with tempfile.TemporaryDirectory(prefix="shadowprof-conditions-") as folder:
            os.chmod(folder, 0o777)
            try:
                check(condition, Bench(options.shadowprof.resolve(), pathlib.Path(folder)), of_host)
            except Skip as reason:
                result, why = "skip", f": {reason}"
            except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as failure:
                result, why = "FAIL", f": {failure}"
        counts[result] += 1
        print(f"{result:<5} {condition.name}{why}", flush=True)
    print(f"{counts['ok']} passed, {counts['FAIL']} failed, {counts['skip']} skipped")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
