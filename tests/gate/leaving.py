#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A profile says what it has not, and a program that executes another is followed.

usage: leaving.py --shadowprof PATH --program PROGRAM

What makes room for a program's own mappings keeps the counts exact; what cannot go on under the
engine is said with -q, too, in the profile, by report, check and compare. Profiles without samples
say why. Ends with "N passed, N failed"; status 1 on failure.
"""

import argparse
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import traceback

from gate_cases import require

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

STATUS = 7
CALLS = 2000  # of work(), by one thread
OWN = 125


class Bench:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.program = os.path.abspath(options.program)
        self.dir = pathlib.Path(folder)
        self.file = self.dir / "p.json"

    def call(self, *words, status=0):
        done = subprocess.run([str(w) for w in words], cwd=self.dir, check=False, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)
        require(done.returncode == status, words, "status", done.returncode, "not", status, done.stdout, done.stderr)
        return done

    def own(self, *words, status=0):
        return self.call(self.shadowprof, *words, status=status)

    def run(self, *words, status=STATUS):
        return self.own("run", "-q", "-o", self.file, *words, status=status)

    def profile(self):
        return read_profile(self.file)

    def script(self, text, name="wrapper"):
        path = self.dir / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path


def calls_of_work(profile):
    return sum(f["invocations"] for f in profile["functions"] if f["name"] == "work")


def memory_of_ours_moves_out_of_the_programs_way(bench):
    for what, threads in (("middle", 1), ("all", 1), ("threads", 4)):
        native = bench.call(bench.program, what, status=STATUS)
        done = bench.run("--mode", "full", "--", bench.program, what)
        require(done.stdout == native.stdout and done.stderr == "", what, done.stdout, done.stderr)
        profile = bench.profile()
        coverage = profile["coverage"]
        require(coverage["share"] == 1 and not coverage["estimated"], what, coverage)
        require("ended_early" not in coverage and profile["confidence"]["exact"], what, coverage)
        require(profile["confidence"]["enough"], what, profile["confidence"])
        require(set(coverage["ended"]) == {"exited"}, what, coverage["ended"])
        expected = CALLS + (threads - 1) * CALLS // 2
        require(calls_of_work(profile) == expected, what, calls_of_work(profile), "calls, not", expected)


def leaving_the_engine_is_no_complete_profile(bench):
    whole = bench.dir / "whole.json"
    bench.own("run", "-q", "--mode", "full", "-o", whole, "--", bench.program, "work", status=STATUS)
    done = bench.run("--mode", "full", "--profile", "edge,call,path", "--", bench.program, "gs")
    require(done.stderr.count("\n") == 1 and "went on outside the engine" in done.stderr, done.stderr)
    profile = bench.profile()
    coverage = profile["coverage"]
    require(coverage["share"] is None and coverage["estimated"], coverage)
    (left,) = coverage["ended_early"]
    require("gs" in left["why"] and left["at_s"] > 0, left)
    require(left["instructions"] == coverage["instructions_profiled"] > 1000 * 300, left, coverage)
    require(calls_of_work(profile) == CALLS // 2, calls_of_work(profile))
    require(not profile["confidence"]["exact"] and not profile["confidence"]["enough"], profile["confidence"])
    report = bench.own("report", bench.file).stdout
    require(report.startswith("ended early, after ") and "gs base" in report.replace("\n", " "), report)
    page = bench.own("report", "--html", bench.file).stdout
    require("ended early, after" in page, "the page does not say so")
    for pair in ((whole, bench.file), (bench.file, whole)):
        found = bench.own("check", *pair, status=OWN)
        require("not decidable" in found.stderr and "ended early" in found.stderr, found.stderr)
    compared = bench.own("compare", "--json", bench.file, whole)
    require("no perfect profile" in compared.stderr, compared.stderr)
    require(json.loads(compared.stdout)["coverage"] is None, compared.stdout)
    merged = bench.dir / "merged.json"
    bench.own("merge", "-o", merged, whole, bench.file)
    require(read_profile(merged)["coverage"]["share"] is None, "a merged profile is complete again")


def what_a_program_executes_is_followed_in_every_mode(bench):
    wrapper = bench.script(f'exec "{bench.program}" work\n')
    native = bench.call(wrapper, status=STATUS).stdout
    for mode in ("full", "shadow", "burst"):
        done = bench.run("--mode", mode, "--", wrapper)
        require(done.stdout == native, mode, done.stdout)
        profile = bench.profile()
        images = profile["run"]["images"]
        require([i["command"][-1] for i in images] == [str(wrapper), "work"], mode, images)
        require(images[0]["at_s"] == 0 <= images[1]["at_s"] <= profile["run"]["duration_s"], mode, images)
        require("ended_early" not in profile["coverage"], mode, profile["coverage"])
        if mode == "full":
            require(calls_of_work(profile) == CALLS, calls_of_work(profile))
            names = {os.path.basename(m["path"]) for m in profile["modules"]}
            require(os.path.basename(bench.program) in names and names & {"dash", "bash", "sh"}, names)
            require(profile["confidence"]["exact"], profile["confidence"])
            text = bench.own("report", bench.file).stdout
            require("then, after " in text, text)


def no_exec_leaves_it_and_says_so(bench):
    wrapper = bench.script(f'exec "{bench.program}" work\n')
    native = bench.call(wrapper, status=STATUS).stdout
    for mode in ("full", "shadow", "burst"):
        done = bench.run("--no-exec", "--mode", mode, "--", wrapper)
        require(done.stdout == native and done.stderr == "", mode, done.stdout, done.stderr)
        profile = bench.profile()
        (left,) = profile["coverage"]["ended_early"]
        require("executed another program" in left["why"] and "--no-exec" in left["why"], mode, left)
        require(profile["coverage"]["share"] is None, mode, profile["coverage"])
        require(calls_of_work(profile) == 0, mode, "the other program was profiled")
        require(profile["run"]["exit"] == {"status": STATUS}, mode, profile["run"]["exit"])
    loud = bench.own("run", "--no-exec", "--mode", "full", "-o", bench.file, "--", wrapper, status=STATUS)
    require("(--no-exec)" in loud.stderr, loud.stderr)


def a_32_bit_program_is_left(bench):
    # exit(7): mov eax, 1; mov ebx, 7; int 0x80
    code = bytes([0xb8, 1, 0, 0, 0, 0xbb, STATUS, 0, 0, 0, 0xcd, 0x80])
    at = 0x08048000
    header = b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, at + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    segment = struct.pack("<IIIIIIII", 1, 0, at, at, 84 + len(code), 84 + len(code), 5, 4096)
    small = bench.dir / "small"
    small.write_bytes(header + segment + code)
    small.chmod(0o755)
    try:
        native = subprocess.run([small], check=False).returncode
    except OSError:
        native = None
    if native != STATUS:
        print("skip  a_32_bit_program_is_left: the kernel runs none")
        return
    wrapper = bench.script(f'exec "{small}"\n')
    for options in ((), ("--deterministic",)):
        done = bench.run("--mode", "full", *options, "--", wrapper)
        require(done.stderr.count("\n") == 1 and "32-bit" in done.stderr, done.stderr)
        require("32-bit" in bench.profile()["coverage"]["ended_early"][0]["why"], bench.profile()["coverage"])
    for mode in ("shadow", "burst"):
        bench.run("--mode", mode, "--", wrapper)


def profiles_without_samples_say_why(bench):
    done = bench.own("run", "-D", "100", "-o", bench.file, "--", "/bin/true")
    require("ended before the first" in done.stderr and "--mode full" in done.stderr, done.stderr)
    confidence = bench.profile()["confidence"]
    require(not confidence["enough"] and "--mode full" in confidence["advice"], confidence)
    first = bench.own("report", bench.file).stdout.splitlines()[0]
    require(first.startswith("no samples: the program ended before"), first)
    found = bench.own("check", bench.file, bench.file, status=OWN)
    require("not decidable" in found.stderr, found.stderr)
    for stopped, why in ((False, "asleep"), (True, "stopped")):
        with subprocess.Popen(["/bin/sleep", "100"]) as sleeper:
            try:
                if stopped:
                    sleeper.send_signal(signal.SIGSTOP)
                done = bench.own("attach", "-d", "1", "-o", bench.file, sleeper.pid)
            finally:
                sleeper.kill()
        require(f"no samples: the program was {why}" in done.stderr, why, done.stderr)
        first = bench.own("report", bench.file).stdout.splitlines()[0]
        require(first.startswith(f"no samples: the program was {why}"), first)


CASES = [memory_of_ours_moves_out_of_the_programs_way, leaving_the_engine_is_no_complete_profile,
         what_a_program_executes_is_followed_in_every_mode, no_exec_leaves_it_and_says_so,
         a_32_bit_program_is_left, profiles_without_samples_say_why]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    options = parser.parse_args()
    passed = failed = 0
    for case in CASES:
        if options.only not in case.__name__:
            continue
        with tempfile.TemporaryDirectory(prefix="shadowprof-leaving-") as folder:
            try:
                case(Bench(options, folder))
                passed += 1
                print("ok   ", case.__name__, flush=True)
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print("FAILED", case.__name__, flush=True)
                traceback.print_exc()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
