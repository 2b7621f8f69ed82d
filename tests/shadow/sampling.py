#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What decides when samples are taken, what is prepared for them, and what ends them.

usage: sampling.py --shadowprof FILE --spinner FILE --handler FILE --writer FILE
                   --asker FILE --caller FILE --workers FILE --reader FILE
                   --sharer FILE --phases FILE --executor FILE [--only NAME]
"""

import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from case_list import require, run, run_with_programs
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

EAGER = ["--max-overhead", "100%", "--load", "1"]
# Seconds, in turn: on a busy machine samples are few and slow.
PATIENCE = (2, 8, 32)


def profile():
    return read_profile("p.json")


def attached(options, program, *arguments, seconds=2, by=()):
    """The profile of so many seconds of a program that goes on for ever, and what was said. `by`: a
    command that starts it."""
    with subprocess.Popen([*by, program], stdout=subprocess.DEVNULL) as process:
        try:
            done = run(options, "attach", "-d", str(seconds), *arguments, "-o", "p.json",
                       str(process.pid))
            require(process.poll() is None, f"the program has ended: {process.returncode}")
        finally:
            process.send_signal(signal.SIGKILL)
    require(done.returncode == 0, done.stderr)
    said = [line for line in done.stderr.splitlines()
            if "code list" in line or "--max-memory" in line]
    return profile(), said


def meeting_calls(options, wanted, attempts, *arguments, may_end=()):
    """Runs whose samples together met these system calls: where the machine is busy, few samples are
    taken and fewer come so far. `attempts`: the options of each. Those that `may_end` samples did so
    seldom. The last run, and its profile."""
    met, ended = collections.Counter(), collections.Counter()
    for seed, more in enumerate(attempts):
        done = run(options, "run", *more, "--seed", str(seed), "-o", "p.json", *arguments)
        require(done.returncode == 0, f"{done.returncode}: {done.stderr}")
        found = profile()
        for name, call in found["syscalls"]["by_name"].items():
            met[name] += call["count"]
            ended[name] += call["ended"]
        if all(met[name] for name in wanted):
            break
    for name in wanted:
        require(met[name] > 0, f"{name}: {met}, {found['coverage']}")
        most = met[name] // 5 if name in may_end else 0
        require(ended[name] <= most, f"{name} ended samples: {ended} of {met}")
    return done, found


def handlers_return(options):
    """Samples of a program that is in a signal handler go on behind it, with its registers."""
    done, found = meeting_calls(options, ["rt_sigreturn"], 5 * [EAGER], "-F", "200",
                                "--sample-size", "20M", "--", options.handler, "3")
    require(done.stdout == "done\n", done.stdout + done.stderr)
    names = [function["name"] for function in found["functions"]]
    require("compute_in_step" in names and "handle_slowly" in names, names)
    require("registers_are_corrupted" not in names, "registers were not what they had been")


def scheduling_is_the_programs(options):
    """A replica is idle and on cores of our choice, and told what the program would be."""
    done = run(options, "run", *EAGER, "-F", "200", "--sample-size", "1M", "-o", "p.json", "--",
               "nice", "-n", "3", options.asker, "2")
    require(done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr)
    found = profile()
    for call in ("sched_getaffinity", "sched_getscheduler", "sched_getparam", "getpriority"):
        count = found["syscalls"]["by_name"].get(call, {"count": 0, "ended": 0})
        # The program may have ended before its last replica asks of it.
        require(count["count"] > 1 and count["ended"] <= 1, f"{call}: {found['syscalls']}")
    names = [function["name"] for function in found["functions"]]
    require("is_told_otherwise" not in names, "a replica was told of itself")


def shared_memory_is_written(options):
    """A call that writes to shared memory ends a sample, or does so; it never fails."""
    for more in ([], ["--engine", "emulator"]):
        for _ in range(5):
            done = run(options, "run", *EAGER, "-F", "200", *more, "-o", "p.json", "--",
                       options.sharer, "2")
            require(done.stdout == "done\n", done.stdout + done.stderr)
            found = profile()
            names = [function["name"] for function in found["functions"]]
            require("is_refused" not in names, f"{more}: {found['syscalls']['by_name']}")
            if "have_written" in names:
                break
        require("have_written" in names, f"{more}: {names}")


SEVERAL = ["--max-overhead", "2%", "--load", "1"]  # of the later samples of a replica
# The same, and longer ones where faults and forks take so much that 2 % pay for hardly anything.
SEVERAL_IN_TURN = [SEVERAL, SEVERAL, *(["--max-overhead", "100%", "--load", "1", "--sample-size", size]
                                       for size in ("1M", "4M", "16M"))]


def require_margins(found):
    """Replicas are observations, but for one that is cut off, and say how sure the profile is."""
    forks, groups = found["overhead"]["forks"], found["confidence"]["groups"]
    require(groups >= min(forks - 1, 2), f"{groups} groups of {forks} replicas")


def replicas_go_on(options):
    """A replica gives several samples, and goes on natively in between."""
    for seed in range(5):  # where no core is idle, each gives one, or there is none
        found, _ = attached(options, options.spinner, "--converge", "off", "--seed", str(seed))
        coverage = found["coverage"]
        go_on = coverage["samples"] > 2 * found["overhead"]["forks"] > 0
        if go_on:
            break
    cores = len(os.sched_getaffinity(0))
    if not go_on and os.getloadavg()[0] > cores - 1.5:
        print("skip  replicas_go_on: no core is idle", flush=True)
        return
    require(go_on, coverage)
    require(set(coverage["ended"]) <= {"budget", "cost", "stopped"}, coverage)
    require_margins(found)
    require(sum(coverage["ended"].values()) == coverage["samples"], coverage)
    rows = found["overhead"]["timeline"]
    require(sum(rows["samples"]) == coverage["samples"], rows)
    hottest = max(found["functions"], key=lambda f: f["self_instructions"])
    require(hottest["name"] == "spin_and_mix", hottest)
    # Out of signal handlers, too.
    done = run(options, "run", *SEVERAL, "-o", "p.json", "--", options.handler, "3")
    require(done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr)
    names = [function["name"] for function in profile()["functions"]]
    require("registers_are_corrupted" not in names, "registers were not what they had been")


def threads_go_on(options):
    """A replica of several threads that run goes on, too, and its samples are of each of them."""
    core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]  # another one is for the replica
    for seed in range(5):
        found, _ = attached(options, options.workers, *SEVERAL, "--seed", str(seed), by=core)
        coverage, overhead = found["coverage"], found["overhead"]
        later = coverage["samples"] - overhead["sampling"]["bursts"] - overhead["forks"]
        if later > 1:
            break
    if later <= 1 and os.getloadavg()[0] > 1:
        print("skip  threads_go_on: no core is idle", flush=True)
        return
    require(later > 1, coverage)
    # One that slept at the fork, and holds the token, is waited for.
    require(set(coverage["ended"]) <= {"budget", "cost", "stopped", "waits"}, coverage)
    require_margins(found)
    works = {f["name"]: f["self_instructions"] for f in found["functions"]}
    require("registers_are_corrupted" not in works, "registers were not what they had been")
    of_both = works.get("work_by_three", 0) + works.get("work_by_seven", 0)
    require(0.3 < works.get("work_by_three", 0) / max(1, of_both) < 0.7, works)


def code_behind_calls_is_seen_evenly(options):
    """A thread that is hardly ever outside of system calls, and mostly in one of them, is seen behind
    the others as well."""
    for seconds in PATIENCE:
        found, _ = attached(options, options.reader, "--mode", "burst", "--max-overhead", "20%",
                            seconds=seconds)
        if found["coverage"]["samples"] >= 20:
            break
    require(found["coverage"]["samples"] >= 5, found["coverage"])
    works = {f["name"]: f["self_instructions"] for f in found["functions"]}
    of_both = works.get("work_behind_long_call", 0) + works.get("work_behind_short_call", 0)
    share = works.get("work_behind_short_call", 0) / max(1, of_both)
    require(share > 0.9, f"{share}: {found['coverage']}")


def replicas_last(options):
    """One fork gives samples of a whole run, where the program does not feel its neighbour."""
    for seed in range(5):
        # What a neighbour costs is measured: up to a quarter, nearly, is borne.
        done = run(options, "run", "--max-overhead", "30%", "--seed", str(seed), "-o", "p.json", "--",
                   "/usr/bin/python3", "-c", "n = 0\nfor i in range(30000000): n += i * i\nprint(n)")
        require(done.stdout == "8999999550000005000000\n", done.stdout + done.stderr)
        found = profile()
        rows = found["overhead"]["timeline"]
        lasts = max(rows["lived_us"]) > 0.5e6 * found["run"]["duration_s"]
        gives_many = found["coverage"]["samples"] > 5 * found["overhead"]["forks"]
        if lasts and gives_many:
            return
    if os.getloadavg()[0] > 1:
        print("skip  replicas_last: no core is idle", flush=True)
        return
    require(False, f"{rows}, {found['coverage']}")


def values_are_sampled(options):
    """Values of code that was seen often are captured now and then, and counted for all executions."""
    found, _ = attached(options, options.spinner, "--max-overhead", "30%", "--profile", "edge,value")
    blocks, values = found["tables"]["blocks"], found["tables"]["values"]
    executions = dict(zip(zip(blocks["module"], blocks["offset"]), blocks["count"]))
    often = max(executions.values()) / 20
    counted = []
    for module, offset, count in zip(values["module"], values["offset"], values["count"]):
        executed = executions.get((module, offset), 0)  # of instructions that blocks begin with
        if executed > often:
            counted.append(count / executed)
    require(counted and all(0.9 < share < 1.1 for share in counted), f"{counted}: {found['coverage']}")


def files_are_not_read_later(options):
    """A replica that has gone on does not read what it has written itself, or the program since the fork."""
    script = ("import os\nf = open('scratch', 'w+b', 0)\nn = 0\nfor i in range(4000):\n"
              "  b = os.urandom(1) * 4096\n  os.pwrite(f.fileno(), b, 0)\n"
              "  for k in range(2000): n += k\n  if os.pread(f.fileno(), 4096, 0) != b: n = -1\n"
              "print(n)")
    ended = set()
    for seed, more in enumerate(SEVERAL_IN_TURN):
        # Without the log: what the program itself has read is right. And with samples that get about.
        done = run(options, "run", *more, "--input-log", "off", "--profile", "edge,call",
                   "--seed", str(seed), "-o", "p.json", "--", "/usr/bin/python3", "-c", script)
        require(done.stdout == "7996000000\n", done.stdout + done.stderr)
        ended |= set(profile()["coverage"]["ended"])
        if ended & {"input", "system_call"}:
            return
    require(False, ended)


def answers_follow(options):
    """System calls are answered alike in samples and between them."""
    answered = ["read", "write", "close", "mmap", "mremap", "munmap", "getpid"]
    # A fork may be between the making of a file and its removal, which the program does meanwhile.
    of_names = ["openat", "newfstatat", "access", "unlink"]
    done, found = meeting_calls(options, answered + of_names, SEVERAL_IN_TURN, "--", options.caller,
                                "file", "4", may_end=of_names)
    lines = done.stdout.splitlines()
    require(lines == [str(n) for n in range(len(lines))], "its output is another")
    names = [function["name"] for function in found["functions"]]
    require("compute" in names and "answers_differ" not in names, names)
    require(not list(pathlib.Path(".").glob("file.*")), "a replica's file is in the file system")


def nothing_is_done_twice(options):
    """When we are killed replicas end before their next system call, wherever they are."""
    with open("out", "wb") as out, \
         subprocess.Popen([options.caller, "file", "1000"], stdout=out) as program:
        try:
            for seed in range(20):
                with subprocess.Popen([options.shadowprof, "attach", "-q", *SEVERAL, "-o", "p.json",
                                       "--seed", str(seed), str(program.pid)]) as ours:
                    time.sleep(0.3 + 0.02 * seed)
                    ours.kill()
                require(program.poll() is None, f"the program has ended: {program.returncode}")
        finally:
            program.kill()
    lines = pathlib.Path("out").read_text(encoding="ascii").splitlines()
    require(lines == [str(n) for n in range(len(lines))], "its output is another")


def memory_is_limited(options):
    """--max-memory: samples end, or do not begin."""
    size = ["--sample-size", "300M"]
    found, _ = attached(options, options.writer, *EAGER, *size)
    require("memory" not in found["coverage"]["ended"], found["coverage"]["ended"])
    for seconds in PATIENCE:
        found, _ = attached(options, options.writer, *EAGER, *size, "--max-memory", "192M",
                            seconds=seconds)
        if "memory" in found["coverage"]["ended"]:
            break
    require(found["coverage"]["ended"].get("memory", 0) > 0, found["coverage"]["ended"])
    found, said = attached(options, options.writer, *EAGER, *size, "--max-memory", "1M")
    require(found["coverage"]["samples"] == 0, found["coverage"])
    require(found["overhead"]["sampling"]["waited_for_memory"] > 0, found["overhead"])
    require(len(said) == 1 and "--max-memory" in said[0], said)


def large_programs_are_interpreted(options):
    """Where the budget does not pay for a fork there is none."""
    for seconds in PATIENCE:  # and where a burst costs more than a few seconds pay for
        found, _ = attached(options, options.writer, "--max-overhead", "0.05%", "--delay", "1s",
                            seconds=seconds)
        if found["coverage"]["instructions_profiled"]:
            break
    require(found["overhead"]["forks"] == 0, found["overhead"])
    require(found["run"]["engine"] == "emulator", found["run"])
    require(found["coverage"]["instructions_profiled"] > 0, found["coverage"])
    require("main" in [function["name"] for function in found["functions"]], found["functions"])


def several_at_once(options):
    """--max-shadows: as many replicas live at a time, and the program is unharmed."""
    several = ["--max-overhead", "100%", "--load", "3", "--max-shadows", "3", "--sample-size",
               "20M"]
    for seconds in PATIENCE:
        found, _ = attached(options, options.spinner, *several, seconds=seconds)
        if "budget" in found["coverage"]["ended"]:
            break
    most = found["overhead"]["sampling"]["most_shadows"]
    require(1 < most <= 3, f"{most} shadows at a time")
    require(found["coverage"]["ended"].get("budget", 0) > 0, found["coverage"]["ended"])
    hottest = max(found["functions"], key=lambda f: f["self_instructions"])
    require(hottest["name"] == "spin_and_mix", hottest)
    done = run(options, "run", *several, "-F", "200", "-o", "p.json", "--", options.handler, "2")
    require(done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr)


def steady_programs(options):
    """A program that goes on doing the same is sampled less often, unless that is not wanted."""
    small = [*EAGER, "--sample-size", "200K", "-F", "200"]
    for seconds in PATIENCE:
        found, _ = attached(options, options.spinner, *small, seconds=seconds)
        steady = found["overhead"]["sampling"]
        if steady["windows"] > 1:
            break
    require(steady["windows_alike"] > 0 and steady["phase_changes"] == 0, steady)
    found, _ = attached(options, options.spinner, *small, "--converge", "off")
    require(found["overhead"]["sampling"]["windows"] == 0, found["overhead"]["sampling"])


def samples_begin_in_a_part(options):
    """--only: where the program is a fifth of the time, or never."""
    for mode in ("shadow", "burst"):
        for seconds in ("3", "10", "30"):  # where the machine is busy, few samples are taken
            done = run(options, "run", "--mode", mode, "--max-overhead", "100%", "--only", "divide",
                       "-o", "p.json", "--", options.phases, seconds)
            require(done.returncode == 0, done.stderr)
            found = profile()
            if found["coverage"]["samples"] > 5:
                break
        require(found["coverage"]["samples"] > 5, found["coverage"])
        require(found["overhead"]["stops"].get("elsewhere", 0) > 0, found["overhead"]["stops"])
        of = {f["name"]: f["self_instructions"] for f in found["functions"]}
        share = of.get("divide", 0) / found["coverage"]["instructions_profiled"]
        require(share > 0.5, f"{mode}: {share} of the instructions: {of}")
        time_of = {f["name"]: f.get("user_ns", 0) for f in found["functions"]}
        require(time_of["follow_list"] > time_of["divide"] > 0, time_of)
        done = run(options, "run", "--mode", mode, "--max-overhead", "100%", "--only", "nowhere",
                   "-o", "p.json", "--", options.phases, "1")
        require(done.returncode == 0 and "no sample began in nowhere" in done.stderr, done.stderr)
        require(profile()["coverage"]["samples"] == 0, profile()["coverage"])


def unseen_execs_are_followed(options):
    """A thread that has just begun executes a program: nobody traced it, and the kernel says nothing."""
    for how in (["shadow"], ["burst"], ["burst", "--engine", "translator", "--profile", "edge"]):
        with subprocess.Popen([options.executor, "1", "2500"], stdout=subprocess.DEVNULL) as process:
            time.sleep(0.2)
            done = run(options, "attach", "--mode", *how, "--max-overhead", "50%", "-o", "p.json", str(process.pid))
            require(done.returncode == 0, f"{how}: {done.stderr}")
            require(process.wait() == 0, f"{how}: {process.returncode}")
        commands = [image["command"][1:] for image in profile()["run"].get("images", [])]
        require(commands and commands[-1] == ["0", "2500"], f"{how}: {commands}")


def code_is_known(options):
    """--cache: what one run has executed is translated ahead in the next one."""
    cache = ["--cache", "kept", "--prefill", "on"]
    for seconds in PATIENCE:
        found, said = attached(options, options.spinner, *EAGER, *cache, seconds=seconds)
        if found["coverage"]["samples"]:
            break
    require(not said, said)
    files = list(pathlib.Path("kept").iterdir())
    require(len(files) == 1 and files[0].suffix == ".code", files)
    require(files[0].stat().st_mode & 0o777 == 0o600, "others may read it")
    text = files[0].read_text(encoding="utf-8")
    places = sum(int(n) for n in re.findall(r"^module \S+ (\d+)$", text, re.MULTILINE))
    require(places > 0, text)
    found, said = attached(options, options.spinner, *EAGER, *cache)
    ahead = found["overhead"]["sampling"]["translated_ahead"]
    require(not said and ahead > 0, f"{ahead} of {places} places: {said}")
    for damage in (text[:-3], text.replace("module", "modulo"), "", "\0" * 100000):
        files[0].write_text(damage, encoding="utf-8")
        _, said = attached(options, options.spinner, *EAGER, *cache)
        require(len(said) == 1 and "is not used" in said[0], f"{damage[:20]!r}: {said}")
        require("module " in files[0].read_text(encoding="utf-8"), "it was not written anew")


CASES = [handlers_return, scheduling_is_the_programs, shared_memory_is_written, replicas_go_on,
         threads_go_on, replicas_last,
         code_behind_calls_is_seen_evenly, values_are_sampled, files_are_not_read_later,
         answers_follow, nothing_is_done_twice, memory_is_limited,
         large_programs_are_interpreted, several_at_once, steady_programs,
         samples_begin_in_a_part, unseen_execs_are_followed, code_is_known]


PROGRAMS = ("shadowprof", "spinner", "handler", "writer", "asker", "caller", "workers", "reader",
            "sharer", "phases", "executor")

if __name__ == "__main__":
    sys.exit(run_with_programs(CASES, __doc__, PROGRAMS))
