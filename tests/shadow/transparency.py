#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sampled programs notice nothing, and are left as they were.

usage: transparency.py --shadowprof FILE --observer FILE [--mode shadow|burst] [--engine NAME]
                       [--only NAME]

Samples are taken as often as possible. How much of the program they see depends on how busy the
machine is, so only that there are some is asked for.
"""

import argparse
import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from case_list import require, run, run_cases
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cache_bursts  # noqa: E402

OFTEN = {"shadow": ["--max-overhead", "100%", "--load", "1", "--freq", "200", "--sample-size",
                    "500K"],
         "burst": ["--max-overhead", "100%", "--burst", "2ms/10ms"]}
SPIN = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done; echo done"


def samples_in(path):
    profile = read_profile(path)
    return profile["coverage"]["samples"]


def launched(options):
    """run: the observer sees nothing of its samples."""
    logs = (["--input-log", "off"], ["--input-log", "on"]) if options.mode == "shadow" else ([],)
    for log in logs:
        done = run(options, "run", *options.sampling, *log, "-o", "p.json", "--",
                   options.observer, "3", options.mode)
        require(done.stdout == "clean\n" and done.returncode == 0, done.stdout + done.stderr)
        require(samples_in("p.json") > 0, "no sample: " + done.stderr)


def attached(options):
    """attach: neither does one that ran before."""
    with subprocess.Popen([options.observer, "4", options.mode], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as program:
        time.sleep(0.5)
        done = run(options, "attach", *options.sampling, "-d", "2", "-o", "p.json",
                   str(program.pid))
        out, _ = program.communicate(timeout=60)
    require(done.returncode == 0, done.stderr)
    require(out == "clean\n", out)
    require(samples_in("p.json") > 0, "no sample: " + done.stderr)


def state_of(pid):
    """What a detach must leave as it was."""
    proc = pathlib.Path(f"/proc/{pid}")
    status = [line for line in (proc / "status").read_text().splitlines()
              if line.split(":")[0] in ("TracerPid", "Threads", "SigBlk", "SigIgn", "SigCgt",
                                        "SigPnd", "ShdPnd", "Uid", "Gid", "Groups", "NoNewPrivs")]
    children = "".join((task / "children").read_text() for task in (proc / "task").iterdir())
    return {"status": status, "maps": (proc / "maps").read_text(),
            "fds": sorted(os.listdir(proc / "fd")), "children": children,
            "limits": (proc / "limits").read_text(), "timers": (proc / "timers").read_text()}


PIPELINE = ("for i in 1 2 3 4 5 6 7 8 9 10; do (i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; "
            "echo $i) | cat; done; (sleep 0.1; exit 4) & wait $!; exit $?")


def children_are_followed(options):
    """-f: the work of children is seen, and their output and statuses are theirs."""
    done = run(options, "run", "-f", *options.sampling, "-o", "p.json", "--", "sh", "-c", PIPELINE)
    require(done.returncode == 4 and done.stdout == "30000\n" * 10, done.stdout + done.stderr)
    require(samples_in("p.json") > 0, "no sample: " + done.stderr)
    done = run(options, "run", "-f", *options.sampling, "-o", "p.json", "--", options.observer, "2")
    require(done.stdout == "clean\n" and done.returncode == 0, done.stdout + done.stderr)


def children_of_attached(options):
    """attach -f to several at once; detaching leaves their children running, and to their end."""
    programs = [subprocess.Popen(["sh", "-c", PIPELINE], stdout=subprocess.PIPE, text=True)
                for _ in range(2)]
    pids = ",".join(str(program.pid) for program in programs)
    done = run(options, "attach", "-f", *options.sampling, "-d", "0.7", "-o", "p.json", pids)
    for program in programs:
        out, _ = program.communicate(timeout=60)
        require(program.returncode == 4 and out == "30000\n" * 10, out)
    require(done.returncode == 0 and samples_in("p.json") > 0, done.stderr)


def nothing_is_left(options):
    """After a detach maps, descriptors, masks, threads, children and limits are the same."""
    spin = "exec 3</dev/null; i=0; while :; do i=$((i+1)); done"
    with subprocess.Popen(["sh", "-c", spin]) as program:
        try:
            time.sleep(0.3)
            before = state_of(program.pid)
            for _ in range(3):
                done = run(options, "attach", *options.sampling, "-d", "0.3", "-o", "p.json",
                           str(program.pid))
                require(done.returncode == 0, done.stderr)
                require(samples_in("p.json") > 0, "no sample: " + done.stderr)
                after = state_of(program.pid)
                for what, value in before.items():
                    require(after[what] == value, f"{what}: {value} became {after[what]}")
        finally:
            program.kill()


def killed_while_sampling(options):
    """SIGKILL of what the user started, at any moment: the program is unharmed."""
    generator = random.Random(1)
    for _ in range(12):
        with subprocess.Popen(["sh", "-c", SPIN], stdout=subprocess.PIPE, text=True) as program:
            sampler = subprocess.Popen([options.shadowprof, "attach", "-q", *options.sampling, "-o",
                                        "p.json", str(program.pid)])
            time.sleep(generator.uniform(0.02, 0.15))
            sampler.kill()
            sampler.wait()
            out, _ = program.communicate(timeout=60)
            require(out == "done\n" and program.returncode == 0,
                    f"status {program.returncode}, output {out!r}")


def groups_have_no_strangers(options):
    """Nobody is in a process group of which the program has ended, and all of its children."""
    busy = "import os, time\nend = time.monotonic() + 0.4\n" \
           "while time.monotonic() < end: assert os.getpgrp() == os.getpgid(0) == os.getpid()"
    sampled = 0
    for _ in range(24):  # on a busy machine some have no sample
        if sampled == 8:
            break
        with subprocess.Popen(["/usr/bin/python3", "-c", busy], start_new_session=True) as program, \
             subprocess.Popen([options.shadowprof, "attach", "-q", *options.sampling, "-o", "p.json",
                               str(program.pid)]) as sampler:
            require(program.wait(timeout=60) == 0, f"status {program.returncode}")
            try:
                os.killpg(program.pid, 0)
                require(False, "somebody is left in the group")
            except ProcessLookupError:
                pass
            require(sampler.wait(timeout=60) == 0, f"status {sampler.returncode}")
            sampled += samples_in("p.json") > 0
    require(sampled == 8, f"only {sampled} had samples")


def programs_executed_by_threads(options):
    """In place of a followed child, by a thread that was not seen yet. We end when all have ended."""
    forks = "import os, threading, time\n" \
            "for _ in range(40):\n" \
            "  child = os.fork()\n" \
            "  if child == 0:\n" \
            "    threading.Thread(target=os.execv, args=('/bin/true', ['true'])).start()\n" \
            "    time.sleep(100)\n" \
            "  assert os.waitpid(child, 0)[1] == 0\n" \
            "print('done')"
    done = run(options, "run", "-f", *options.sampling, "-o", "p.json", "--", "/usr/bin/python3", "-c", forks)
    require(done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr)


def interrupted(options):
    """Ctrl-C ends attach, which writes what it has; the program goes on."""
    interrupt(options, os.killpg)


def interrupted_by_kill(options):
    """So does the same signal when it is sent to what the user started."""
    interrupt(options, os.kill)


def interrupt(options, send):
    with subprocess.Popen(["sh", "-c", SPIN.replace("600000", "4000000")], stdout=subprocess.PIPE, text=True) as program:
        sampler = subprocess.Popen([options.shadowprof, "attach", *options.sampling, "-o",
                                    "p.json", str(program.pid)], stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        time.sleep(1)
        send(sampler.pid, signal.SIGINT)
        _, err = sampler.communicate(timeout=60)
        require(sampler.returncode == 0, err)
        require(samples_in("p.json") >= 0, err)
        out, _ = program.communicate(timeout=60)
        require(out == "done\n" and program.returncode == 0, out)


def input_is_kept(options):
    """Replicas of a program that does little more than read a pipe read what it reads."""
    script = ("import sys\nn = 0\nfor line in sys.stdin:\n"
              "  n += sum(int(word) for word in line.split())\nprint(n)")
    numbers = "".join(f"{i} {i * 7} {i % 13}\n" for i in range(400000))
    expected = sum(8 * i + i % 13 for i in range(400000))
    answered = collections.Counter()
    for log in ("off", *5 * ["on"]):  # where the machine is busy, few replicas come so far
        done = subprocess.run([options.shadowprof, "run", *options.sampling[:-1], "5M",
                               "--input-log", log, "-o", "p.json", "--", "/usr/bin/python3", "-c",
                               script], input=numbers, check=False, timeout=120, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        require(done.stdout == f"{expected}\n", done.stdout + done.stderr)
        stops = read_profile("p.json")["overhead"]["stops"]
        answered[log] += stops["logged_call"]
        if answered["on"]:
            break
    require(answered["on"] and not answered["off"], f"{answered}, {stops}")


def program_ends_as_it_ends(options):
    """run: exit status and signal are the program's."""
    for script, status in (("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM)):
        done = run(options, "run", *options.mode_options, "-o", "p.json", "--", "sh", "-c", script)
        require(done.returncode == status, f"{script}: {done.returncode}, {done.stderr}")


def sampling_ends_before_the_program(options):
    """--duration under run: the program goes on to its own end."""
    done = run(options, "run", *options.mode_options, "-d", "0.1", "-o", "p.json", "--", "sh", "-c",
               SPIN + "; exit 3")
    require(done.returncode == 3 and done.stdout == "done\n", done.stderr)


def reads_and_offsets(options):
    """Replicas that read the program's files do not move its offsets."""
    script = ("import os,sys,zlib\nf = open(sys.argv[1], 'rb')\nc = 0\n"
              "for _ in range(60):\n  f.seek(0)\n  while b := f.read(4096): c = zlib.crc32(b, c)\n"
              "print(c)")
    data = pathlib.Path("data")
    data.write_bytes(random.Random(2).randbytes(1 << 20))
    command = ["/usr/bin/python3", "-c", script, str(data)]
    expected = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    done = run(options, "run", *options.sampling, "-o", "p.json", "--", *command)
    require(done.stdout == expected, done.stderr)


def bad_targets(options):
    """What cannot be attached to is said in one sentence."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for pid in (str(ended.pid), "0", "x", "99999999"):
        done = run(options, "attach", "-o", "p.json", pid)
        require(done.returncode == 125, f"{pid}: status {done.returncode}")
        require(done.stderr.startswith("shadowprof: ") and done.stderr.count("\n") == 1, done.stderr)
    require(not os.path.exists("p.json"), "a profile was written")


CASES = [launched, attached, nothing_is_left, killed_while_sampling, interrupted, interrupted_by_kill,
         program_ends_as_it_ends, sampling_ends_before_the_program, reads_and_offsets, bad_targets]
OF_SEVERAL = [children_are_followed, children_of_attached]
OF_SHADOWS = [input_is_kept, groups_have_no_strangers, programs_executed_by_threads]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--observer", required=True)
    parser.add_argument("--mode", choices=sorted(OFTEN), default="shadow")
    parser.add_argument("--engine", help="of burst mode")
    parser.add_argument("--only", help="cases whose name holds this text")
    options = parser.parse_args()
    options.shadowprof = os.path.abspath(options.shadowprof)
    options.observer = os.path.abspath(options.observer)
    options.mode_options = ["--mode", options.mode]
    if options.engine:
        options.mode_options += ["--engine", options.engine]
    if options.engine == "translator":
        options.mode_options += cache_bursts.of_this_host()
    options.sampling = options.mode_options + OFTEN[options.mode]
    cases = CASES + (OF_SHADOWS if options.mode == "shadow" else [])
    if options.engine in (None, "emulator"):
        cases += OF_SEVERAL
    return run_cases(cases, options)


if __name__ == "__main__":
    sys.exit(main())
