#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One machine for every run: what --deterministic, --cpu-features and --clean-env promise (docs/deterministic.md).

usage: machine.py --shadowprof PATH --told TOLD --clocks CLOCKS --whose WHOSE --ids IDS --refuse REFUSE --timers TIMERS [--runs N] [--table]

Programs that say what they are told (told.c, whose.c), and one that reads clocks (clocks.c), say the same whatever
environment, directory and cores they are run with, and everyday programs execute the same instructions. --table prints the counts of --runs runs in
each of the surroundings. Ends with "N passed, N failed"; status 1 on failure.
"""

import argparse
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from gate_cases import require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/", "FIRST": "1", "SECOND": "2"}
LARGER = {**ENVIRONMENT, "SECOND": "2" * 3000}
OWN = 125

SQL = ("create table t(a integer, b text); insert into t with recursive n(i) as (select 1 union all "
       "select i+1 from n where i<300) select i, hex(randomblob(8)) from n; create index x on t(b); "
       "select count(*), sum(a), max(b) from t where b > '3';")
PROGRAMS = [
    ("gzip", ["gzip", "-c", "INPUT"]),
    ("sqlite3", ["sqlite3", ":memory:", SQL]),
    # Its hash randomisation is on.
    ("python3", ["/usr/bin/python3", "-S", "-B", "-c", "print(len({str(i) for i in range(1000)}), hash('a'))"]),
    ("perl", ["perl", "-e", "my %h; $h{$_ % 97} .= $_ for 1..500; print join ',', keys %h"]),
    ("lua", ["lua5.4", "-e", "local t = {} for i = 1, 500 do t['k' .. i] = i end for k in pairs(t) do io.write(k) end"]),
    ("sort", ["sort", "-R", "--random-source=/dev/urandom", "INPUT"]),
    # The driver makes the name of a temporary file of the time and its process id.
    ("cc1plus -f", ["-f", "--", "g++", "-O1", "-c", "-o", "/dev/null", "SOURCE"]),
    ("sh -f", ["-f", "--", "sh", "-c", "echo $$ $PPID; seq 99 | sort -n | wc -l; (echo $PPID)"]),
]
# Compilers and shells ask for the directory that they are in, and the length of its name counts.
ASK_FOR_DIRECTORY = ("cc1plus -f", "sh -f")
SOURCE = "#include <cstddef>\nnamespace { int f(int x) { return x * 3; } }\nint g(int x) { return f(x) + f(1); }\n"


class Machine:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.told_program = os.path.abspath(options.told)
        self.clocks_program = os.path.abspath(options.clocks)
        self.whose_program = os.path.abspath(options.whose)
        self.ids_program = os.path.abspath(options.ids)
        self.timers_program = os.path.abspath(options.timers)
        self.refuse = os.path.abspath(options.refuse)
        self.folder = pathlib.Path(folder)
        self.other = self.folder / "another_directory_with_a_long_name" / "and_one_below"
        self.other.mkdir(parents=True)
        (self.folder / "input").write_text("".join(f"{i * i} line\n" for i in range(3000)), encoding="ascii")
        (self.folder / "source.cc").write_text(SOURCE, encoding="ascii")
        self.cores = sorted(os.sched_getaffinity(0))

    def run(self, *arguments, status=0, environment=None, directory=None, cores=None, stdin=None):
        done = subprocess.run(
            [self.shadowprof, "run", "--mode", "full", "-q", *map(str, arguments)], check=False, timeout=240,
            cwd=directory or self.folder, env=ENVIRONMENT if environment is None else environment,
            stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
        require(done.returncode == status, f"{arguments}: status {done.returncode}\n{done.stderr}")
        return done

    def told(self, *options, **surroundings):
        return self.run("-f", "-o", self.folder / "told.json", *options, "--", self.told_program, "argument",
                        **surroundings).stdout

    def surroundings(self, program=None):
        """Those that nothing may depend on."""
        directories = (self.folder, self.folder if program in ASK_FOR_DIRECTORY else self.other)
        for environment, directory, cores in itertools.product(
                (ENVIRONMENT, LARGER), directories, (tuple(self.cores), tuple(self.cores[:1]))):
            yield {"environment": environment, "directory": directory, "cores": cores}

    def profile(self, command, *options, **surroundings):
        file = self.folder / "profile.json"
        places = {"INPUT": self.folder / "input", "SOURCE": self.folder / "source.cc"}
        words = [places.get(word, word) for word in command]
        if "--" not in words:
            words.insert(0, "--")
        self.run("--deterministic", *options, "-o", file, *words, **surroundings)
        profile = read_profile(file)
        return {"instructions": profile["coverage"]["instructions_profiled"], "tables": profile["tables"],
                "syscalls": profile["syscalls"]}


def is_there(command):
    program = command[command.index("--") + 1] if "--" in command else command[0]
    return shutil.which(program) is not None


def what_a_program_is_told_is_the_same_in_all_surroundings(machine):
    expected = machine.told("--deterministic", "--cpu-features", "baseline")
    for surroundings in machine.surroundings():
        told = machine.told("--deterministic", "--cpu-features", "baseline", **surroundings)
        require(told == expected, f"{surroundings}:\n{told}\nand not\n{expected}")
    for line in ("vdso: 0, rest: 0x7888131 0 x86_64", "into nowhere: EFAULT", "of a closed one: EBADF", "of one for writing: EBADF",
                 "of a copy: 5", "none: 0", "wrong: EFAULT EINVAL", "pipe: 4 pipe",
                 "arguments that /proc has: 2 of 2, and 0 bytes more", "cores: 0 1 0 1", "mask: 8 1 EINVAL",
                 "set: EINVAL no", "on: 0, 0 0 0, EFAULT", "processors: 1 ",
                 "memory: 4294967296 3221225472 1, up 100000, 1 processes", "pages: 1048576 786432",
                 "kernel: Linux 4.18.0 ", " SMP x86_64\n", "rdrand 0, core 0, avx 0, fma 0, rdseed 0, avx2 0, avx512vl 0",
                 "state: 0 0", "model name\t: x86-64-v2 baseline",
                 "relative: 26 2 MemTotal:        4194304 k0\n", "here: 0 14 processor\t: 0\n"):
        require(line in expected, f"'{line}' is not in\n{expected}")
    for file in ("online", "possible", "present"):
        require(f"/sys/devices/system/cpu/{file}: 1 1, 0 1, 1, writing EBADF\n0\n" in expected, expected)
    require("MemTotal:        4194304 kB\n" in expected, expected)
    lines = expected.splitlines()
    drawn = [line.partition(":")[2] for line in lines if line.count(" ") >= 16 and ":" in line
             and all(len(word) == 2 for word in line.split()[-16:])]
    require(len(drawn) == 8 and len(set(drawn)) == 8, f"random bytes come twice: {drawn}")


def a_process_has_random_bytes_of_its_own_and_its_children_too(machine):
    """Also by way of a descriptor that they have from the start."""
    script = "head -c 8 | od -An -tx1; (head -c 8 | od -An -tx1) | cat; sh -c 'head -c 8 | od -An -tx1'"
    drawn = set()
    for _ in range(5):
        with open("/dev/urandom", "rb") as device:
            drawn.add(machine.run("-f", "--deterministic", "-o", "random.json", "--", "sh", "-c", script,
                                  stdin=device).stdout)
    require(len(drawn) == 1, f"each run draws other bytes: {drawn}")
    lines = drawn.pop().splitlines()
    require(len(lines) == 3 and len(set(lines)) == 3, f"two children draw the same bytes: {lines}")


def models_are_told_of_alike_everywhere(machine):
    """By cpuid, xgetbv, the auxiliary vector and /proc/cpuinfo."""
    expected = {"x86-64-v2": ("avx 0, fma 0, rdseed 0, avx2 0, avx512vl 0", "state: 0 0"),
                "x86-64-v3": ("avx 1, fma 1, rdseed 0, avx2 1, avx512vl 0", "state: 0x7 0"),
                "x86-64-v4": ("avx 1, fma 1, rdseed 0, avx2 1, avx512vl 1", "state: 0xe7 0")}
    names = {"avx": " avx", "fma": " fma", "avx2": " avx2", "avx512vl": " avx512vl"}
    for model, (features, state) in expected.items():
        done = subprocess.run([machine.shadowprof, "run", "--mode", "full", "-q", "-f", "-o", "told.json", "--deterministic",
                               "--cpu-features", model, "--", machine.told_program, "argument"], check=False,
                              cwd=machine.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        if done.returncode == OWN:
            require(done.stderr.startswith(f"shadowprof: this processor cannot be an {model}: it lacks "), done.stderr)
            print(f"skip  {model}: {done.stderr.strip()}")
            continue
        told = done.stdout
        require(features in told and state in told, told)
        flags = next(line for line in told.splitlines() if line.startswith("flags")) + " "
        for feature, name in names.items():
            require((f"{name} " in flags) == (f"{feature} 1" in features), f"{model}: {flags}")
        native = machine.told("--cpu-features", model)
        for kind in ("rdrand", "state", "vdso"):
            line = [next(line for line in text.splitlines() if line.startswith(kind)) for text in (told, native)]
            require(line[0].split("rest")[-1] == line[1].split("rest")[-1], f"{model}: {line}")
    host = machine.told("--deterministic")
    require("rdrand 0, core 0" in host and "rdseed 0" in host, host)


SOMEBODY = 64123


def lines_as(machine, user, program, arguments):
    """What it says as that user, in a folder of his own with a file of his own, and its profile."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=machine.folder))
    own = folder / "own"
    own.write_text("text", encoding="ascii")
    for place in (folder, own):
        os.chown(place, user, user)
    # By descriptors: the way to both programs may be closed to others.
    with open(machine.shadowprof, "rb") as shadowprof, open(program, "rb") as file:
        files = [shadowprof.fileno(), file.fileno()]
        command = [f"/proc/self/fd/{files[0]}", "run", "-q", "-f", "--mode", "full", "--deterministic", "-o",
                   folder / "p.json", "--", f"/proc/self/fd/{files[1]}", *arguments(own)]
        done = subprocess.run(list(map(str, command)), check=False, timeout=240, cwd=folder, env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, user=user, group=user,
                              extra_groups=[], pass_fds=files)
    require(done.returncode == 0, f"as {user}: status {done.returncode}\n{done.stderr}")
    found = own.stat()
    require((found.st_uid, found.st_gid) == (user, user), f"as {user}: {found} owns it now")
    return done.stdout.splitlines(), read_profile(folder / "p.json")


def whose_lines(machine, user, arguments):
    return lines_as(machine, user, machine.whose_program, arguments)[0]


def one_user_has_the_program_and_all_files(machine):
    if os.geteuid() != 0:
        print("skip  one_user_has_the_program_and_all_files: others cannot be tried without root")
        return
    os.chmod(machine.folder, 0o755)
    expected = whose_lines(machine, 0, lambda own: [own])
    for user in (SOMEBODY, 1000, 4711):
        require(whose_lines(machine, user, lambda own: [own]) == expected, f"another user ({user}) is told otherwise")
    ids = ["user: 1000 1000, group: 1000 1000", "at the start: 1000 1000 1000 1000",
           "saved: 1000 1000 1000, 1000 1000 1000", "into nowhere: EFAULT", "groups: 1, 1: 1000",
           "as many as no list has: EINVAL"]
    require(expected == ids + [
        "stat done", "own: 1000 1000", "lstat done", "/bin: 1000 1000", "fstat done", "own: 1000 1000",
        "fstatat done", "/usr: 1000 1000", "statx done", "/etc: 1000 1000", "nothing: ENOENT", "into nowhere: EFAULT",
        "given: done done done done, of nothing: ENOENT",
        "becomes what it is: done done done done done done 1000 1000"] + ids + ids + ["child: 0"], expected)


def who_becomes_another_user_is_told_so(machine):
    if os.geteuid() != 0:
        print("skip  who_becomes_another_user_is_told_so: only root can become another")
        return
    lines = whose_lines(machine, 0, lambda own: ["--become", 4711])
    at = lines.index("becomes another: done done")
    require(lines[0] == "user: 1000 1000, group: 1000 1000", lines)
    require(lines[at + 1] == "user: 4711 4711, group: 4711 4711", lines)
    require("user: 4711 4711, group: 4711 4711" in lines[at + 2:], lines)
    require("at the start: 4711 4711 4711 4711" in lines[at + 2:], lines)
    natively = subprocess.run([machine.whose_program, "--become", "4711"], capture_output=True, text=True, check=True)
    later = natively.stdout.splitlines()[at + 1:]
    later[1] = "at the start: 1000 1000 1000 1000"  # as it was
    require(later == lines[at + 1:], natively.stdout)


def process_ids_are_the_programs_own(machine):
    """And the kernel knows no others: for root, who may give them, and for others with a user namespace."""
    users = (0, SOMEBODY) if os.geteuid() == 0 else (os.geteuid(),)
    os.chmod(machine.folder, 0o755)
    for user in users:
        lines, profile = lines_as(machine, user, machine.ids_program, lambda _: [])
        if profile["run"]["options"]["ids"] != "own":
            print(f"skip  process_ids_are_the_programs_own: this host does not permit them to user {user}")
            continue
        require(lines == [
            "program: 2 2 of 0, getpgrp 0, getsid 0", "its thread: 3 of 2", "in /proc: done, self 2",
            "child: 4 of 2", "child's thread: 5 of 4", "there: done, group 0", "waited for: 4 4 with 7", "gone: ESRCH",
            "signalled by: 2", "all: 1 2", "orphan: 7 of 1", "a group of its own: done, 2",
            "debugged: done done, stopped 1, done, ended with 8"], lines)


def where_namespaces_are_refused_the_real_ids_stay(machine):
    file = machine.folder / "refused.json"
    for call in ("unshare", "mount"):
        with subprocess.Popen([machine.refuse, call, machine.shadowprof, "run", "--mode", "full", "-q", "--deterministic",
                               "-o", file, "--", machine.ids_program], stdout=subprocess.PIPE, text=True) as run:
            said = run.stdout.readline()
            run.stdout.read()
        profile = read_profile(file)
        pid = profile["run"]["pid"]
        require(run.returncode == 0 and profile["run"]["options"]["ids"] == "real", (call, run.returncode, profile["run"]))
        require(said.startswith(f"program: {pid} {pid} of {run.pid},"), (call, said, pid, run.pid))


def time_is_what_the_program_does(machine):
    """Also for calls that are given a moment, and in loops that wait for one."""
    told = set()
    for surroundings in list(machine.surroundings())[::3]:
        told.add(machine.run("--deterministic", "--cpu-features", "baseline", "-o", "clocks.json", "--",
                             machine.clocks_program, **surroundings).stdout)
    require(len(told) == 1, f"times differ: {told}")
    lines = told.pop().splitlines()
    require(lines[0].startswith("clock 0: 17672256000") and lines[1].startswith("clock 1: 1000000"), lines)
    require(not any("WRONG" in line for line in lines), lines)
    right = [line.split(":")[0] for line in lines if "as long as it should" in line]
    require(right[:7] == ["nanosleep", "clock_nanosleep", "clock_nanosleep", "poll", "select", "epoll", "ETIMEDOUT"], lines)
    require([name for name in right[7:] if not name.startswith(("ring", "new"))] == [
        "ppoll", "pselect", "epoll_pwait2", "sigtimedwait", "semtimedop", "mq_timedreceive", "io_getevents", "io_pgetevents", "io_getevents of none", "recv", "read", "recv at once", "recv of some",
        "recv of all", "send", "write", "accept"], lines)
    if "no ring" in lines:
        print("skip  io_uring_enter: this host does not permit it")
    else:
        require(right.count("ring") == 1 and right.count("ring that does something") == 1, lines)
        require(right.count("ring until") in (0, 2) and lines.count("ring: 1 done") == 1, lines)
    require(sum(line.startswith("child ") and line.endswith("used 0.000000 0.000000 0 0 0") for line in lines) == 3, lines)
    for line in ("remains: 1, 3 5", "timer: 8 1", "none: 0", "kept: 1"):
        require(line in lines, lines)
    real = machine.run("--deterministic", "--clock", "real", "-o", "clocks.json", "--", machine.clocks_program).stdout
    require(not real.startswith("clock 0: 17672256000"), real)


def counts_do_not_depend_on_clocks(machine):
    profiles = [machine.profile([machine.clocks_program], "--cpu-features", "baseline", *options)
                for options in ((), (), ("--profile", "edge,path"), ("--profile", "edge,path"))]
    require(profiles[0] == profiles[1] and profiles[2] == profiles[3], "a table differs")
    counts = [profile["instructions"] for profile in profiles]
    require(len(set(counts)) == 1, f"{counts} instructions")


def timers_follow_the_clock(machine):
    told, profiles = set(), []
    for surroundings in list(machine.surroundings())[::3]:
        run = machine.run("-f", "--deterministic", "--cpu-features", "baseline", "-o", "timers.json", "--",
                          machine.timers_program, **surroundings)
        told.add(run.stdout)
        profiles.append(machine.profile([machine.timers_program], "-f", "--clean-env", "--cpu-features", "baseline",
                                        **surroundings))
    require(len(told) == 1, f"timers differ: {told}")
    require(all(profile == profiles[0] for profile in profiles[1:]), "a table differs")
    lines = told.pop().splitlines()
    # A turn later at most, and in the time that was asked for.
    expected = [("interval: 3 of signal 14, code 128", 40), ("interval: 3 of signal 26, code 128", 40),
                ("interval: 3 of signal 27, code 128", 40), ("alarm: 1 of signal 14, code 128", 1000),
                ("posix: 3 of signal 37, code -2, value 42, overrun 0", 18),
                ("processor time: 1 of signal 14, code -2", 20), ("descriptor: 1 ready, 8 bytes, 1 times", 30),
                ("descriptor: 1 ready, 8 bytes, 1 times", 40), ("descriptor: 1 ready, 8 bytes, 1 times", 50)]
    for begin, wanted_ms in expected:
        took = [int(line.split()[-2]) / 1e6 for line in lines if line.startswith(begin)]
        require(any(wanted_ms <= ms < wanted_ms + 0.5 for ms in took), (begin, wanted_ms, lines))
    took = [line for line in lines if line.startswith("socket: 18 after ")]
    require(len(took) == 1 and 20 <= int(took[0].split()[-2]) / 1e6 < 22, lines)
    require(sum(line.startswith("socket: 19 after 100") for line in lines) == 1, lines)
    for line in ("interrupted: -1 EINTR, 1", "wrong: -1 EINVAL", "alarm: 7 left", "alarm: 0 left", "posix: overrun 1", "deleted: -1 EINVAL",
                 "descriptor: every 10000000, in time 1", "child: 8 bytes, 1", "stopped: 1, 0 ready",
                 "no timer: -1 EINVAL"):
        require(line in lines, (line, lines))
    require(lines.count("nowhere: -1 EFAULT") == 2, lines)
    require(lines.count("stopped: 1") == 3 and any(line.startswith("sleep: -1 EINTR, about 497") for line in lines), lines)


def timers_go_on_where_the_engine_ends(machine):
    run = machine.run("--deterministic", "--profile", "edge,path", "-o", "timers.json", "--", machine.timers_program,
                      "leave")
    require(run.stdout == "left: 2 signals, 8 bytes, 1 times\n", run.stdout)


def counts_are_the_same_in_all_surroundings(machine):
    for name, command in PROGRAMS:
        if not is_there(command):
            print(f"skip  {name}: it is not installed")
            continue
        profiles = [machine.profile(command, "--clean-env", "--cpu-features", "baseline", **surroundings)
                    for surroundings in list(machine.surroundings(name))[::3]]
        for profile in profiles[1:]:
            require(profile["instructions"] == profiles[0]["instructions"],
                    f"{name}: {[p['instructions'] for p in profiles]} instructions")
            require(profile == profiles[0], f"{name}: a table differs")


def a_longer_variable_does_not_change_who_does_not_read_it(machine):
    for name, command in PROGRAMS:
        if name not in ("gzip", "sqlite3", "sort", "cc1plus -f") or not is_there(command):
            continue
        first, second = (machine.profile(command, "--cpu-features", "baseline", environment=environment)
                         for environment in (ENVIRONMENT, LARGER))
        require(first == second, f"{name}: {first['instructions']} and {second['instructions']} instructions")


CASES = [
    what_a_program_is_told_is_the_same_in_all_surroundings,
    a_process_has_random_bytes_of_its_own_and_its_children_too,
    models_are_told_of_alike_everywhere,
    one_user_has_the_program_and_all_files,
    who_becomes_another_user_is_told_so,
    process_ids_are_the_programs_own,
    where_namespaces_are_refused_the_real_ids_stay,
    time_is_what_the_program_does,
    counts_do_not_depend_on_clocks,
    timers_follow_the_clock,
    timers_go_on_where_the_engine_ends,
    counts_are_the_same_in_all_surroundings,
    a_longer_variable_does_not_change_who_does_not_read_it,
]


def print_table(machine, runs):
    for name, command in PROGRAMS:
        if not is_there(command):
            print(f"{name}: not installed")
            continue
        for options in (("--clean-env",), ()):
            counts = {}
            for surroundings in machine.surroundings():
                for _ in range(runs):
                    sys.stdout.flush()
                    count = machine.profile(command, "--cpu-features", "baseline", *options, **surroundings)
                    counts.setdefault(count["instructions"], []).append(
                        (len(str(surroundings["environment"])), str(surroundings["directory"])[-10:],
                         len(surroundings["cores"])))
            print(f"{name} {' '.join(options)}: {sum(map(len, counts.values()))} runs, "
                  f"{ {count: len(where) for count, where in counts.items()} }")
            if len(counts) > 1:
                print("   ", {count: sorted(set(where)) for count, where in counts.items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--told", required=True)
    parser.add_argument("--clocks", required=True)
    parser.add_argument("--whose", required=True)
    parser.add_argument("--ids", required=True)
    parser.add_argument("--refuse", required=True)
    parser.add_argument("--timers", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-machine-") as folder:
        machine = Machine(options, folder)
        if options.table:
            return print_table(machine, options.runs)
        return run_cases(CASES, machine, options.only)


if __name__ == "__main__":
    sys.exit(main())
