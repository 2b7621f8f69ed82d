#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs that go on: the profile so far, one of each interval, until it is exact enough, and what ctl asks and tells.

usage: continuous.py --shadowprof PATH --program PROGRAM [--only CASE]

PROGRAM is known_inlined, which works for as long as it is told. Ends with "N passed, N failed"; status 1 on failure.
"""

import argparse
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from gate_cases import require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE_S = 60
EXACT_ENOUGH_S = 200  # a few seconds, but for hosts on which samples cost much
LONG = "100000000"
NAME = re.compile(r"app\.\d{8}T\d{6}Z\.json")


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        require(time.monotonic() < end, f"{what} does not come")
        time.sleep(0.05)
    return found


def facts(pid):
    """What a process could notice of a tracer."""
    folder = pathlib.Path(f"/proc/{pid}")
    status = (folder / "status").read_text()
    wanted = ("TracerPid", "Threads", "SigBlk", "SigIgn", "SigCgt")
    return ([re.search(rf"{name}:\t(\S+)", status)[1] for name in wanted], (folder / "maps").read_text(),
            sorted(os.listdir(folder / "fd")), sorted(os.listdir(folder / "task")))


class Runs:
    def __init__(self, options, folder):
        self.shadowprof, self.program = map(os.path.abspath, (options.shadowprof, options.program))
        self.top = pathlib.Path(folder)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(self.top / "runtime")}
        (self.top / "runtime").mkdir(mode=0o700)

    def folder(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.top))

    def sockets(self):
        return list((self.top / "runtime").glob("shadowprof/*"))

    def call(self, *arguments):
        return subprocess.run([self.shadowprof, *map(str, arguments)], check=False, capture_output=True, text=True,
                              timeout=PATIENCE_S, env=self.environment)

    def ctl(self, *arguments):
        done = self.call("ctl", *arguments)
        require(done.returncode == 0 and done.stderr == "", done)
        return done.stdout

    @contextlib.contextmanager
    def working(self):
        """A program that works, when it has come so far that nothing of it changes by itself."""
        with subprocess.Popen([self.program, LONG], stdout=subprocess.DEVNULL) as process:
            try:
                before = None
                while before is None or "ld.so.cache" in before[1] or facts(process.pid) != before:
                    before = facts(process.pid)
                    time.sleep(0.3)
                yield process
                require(facts(process.pid) == before, f"{before}\n{facts(process.pid)}")
                require(process.poll() is None, "the program has ended")
            finally:
                process.kill()

    @contextlib.contextmanager
    def sampling(self, *arguments, ended_by=signal.SIGINT):
        """A run that samples, with the lines that it says at its end."""
        known = set(self.sockets())
        with subprocess.Popen([self.shadowprof, *map(str, arguments)], env=self.environment, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            try:
                wait_for(lambda: run.poll() is not None or set(self.sockets()) - known, "a socket")
                said = []
                yield run, said
                if ended_by and run.poll() is None:
                    run.send_signal(ended_by)
                said += run.communicate(timeout=PATIENCE_S)[1].splitlines()
                require(run.returncode == 0, run.returncode, said)
            finally:
                run.kill()
        require(not set(self.sockets()) - known, self.sockets())


def inode(path):
    return path.stat().st_ino if path.exists() else 0


def dumped_anew(path, before):
    wait_for(lambda: inode(path) not in (0, before), f"{path}")
    return read_profile(str(path)), inode(path)


def sigusr2_writes_the_profile_so_far_and_the_run_goes_on(runs):
    for mode in ("shadow", "burst"):
        path = runs.folder() / "app.json"
        with runs.working() as program:
            with runs.sampling("attach", "--mode", mode, "-o", path, program.pid) as (run, said):
                time.sleep(1)
                run.send_signal(signal.SIGUSR2)
                first, first_inode = dumped_anew(path, 0)
                time.sleep(1)
                run.send_signal(signal.SIGUSR2)
                second, second_inode = dumped_anew(path, first_inode)
                require(run.poll() is None, "the run has ended")
            last, _ = dumped_anew(path, second_inode)
        times = [p["run"]["duration_s"] for p in (first, second, last)]
        require(times == sorted(times) and times[0] > 0 and times[2] > times[0], times)
        counts = [p["coverage"]["instructions_profiled"] for p in (first, second, last)]
        require(counts == sorted(counts), counts)
        require(os.listdir(path.parent) == ["app.json"], os.listdir(path.parent))
        require(sum("the profile of the first" in line for line in said) == 2, said)


def a_program_that_is_run_does_not_notice_sigusr2(runs):
    path = runs.folder() / "app.json"
    arguments = [runs.program, "300000"]
    natively = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
    with subprocess.Popen([runs.shadowprof, "run", "-o", path, "--", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=runs.environment) as run:
        wait_for(runs.sockets, "a socket")
        while run.poll() is None:
            run.send_signal(signal.SIGUSR2)
            time.sleep(0.2)
        out, errors = run.communicate(timeout=PATIENCE_S)
    require(run.returncode == natively.returncode and out == natively.stdout, run.returncode, errors)
    require(read_profile(str(path))["run"]["exit"] == {"status": 0}, errors)


def each_interval_has_a_profile_of_its_own(runs):
    folder = runs.folder()
    foreign = folder / "app.20200101T000000Z.json"
    foreign.write_text("not a profile")
    old = folder / "app.20210101T000000Z.json"
    with runs.working() as program:
        runs.call("attach", "-q", "-d", "0.5", "-o", old, program.pid)
        require(old.exists(), "no profile")
        with runs.sampling("attach", "--every", "1", "--keep", "3", "-o", folder / "app.json", program.pid) as (run, said):
            wait_for(lambda: not old.exists(), "the end of the oldest")
            run.send_signal(signal.SIGUSR2)
            dumped_anew(folder / "app.json", 0)
    files = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name) and path != foreign)
    require(foreign.read_text() == "not a profile", "a foreign file was changed")
    require(1 <= len(files) <= 3, files)
    require(set(folder.iterdir()) == {*files, foreign, folder / "app.json"}, list(folder.iterdir()))
    profiles = [read_profile(str(path)) for path in files]
    for path, profile in zip(files, profiles):
        stamp = re.sub("[-:]", "", profile["run"]["started"])
        require(stamp in path.name, path, profile["run"]["started"])
        require(profile["run"]["duration_s"] < 30, profile["run"])
        require(profile["overhead"]["engine_cpu_s"] < profile["run"]["duration_s"] + 5, profile["overhead"])
    require(all(p["run"]["duration_s"] >= 1 for p in profiles[:-1]), [p["run"]["duration_s"] for p in profiles])
    whole = folder / "whole.json"
    require(runs.call("merge", "-o", whole, *files).returncode == 0, "no merge")
    merged = read_profile(str(whole))
    for what in ("instructions_profiled", "samples", "attributed"):
        require(merged["coverage"][what] == sum(p["coverage"][what] for p in profiles), what)
    require(any(str(files[-1]) in line for line in said), said)


def an_interval_that_cannot_be_written_is_lost_and_said_once(runs):
    folder = runs.folder()
    kept, away = folder / "kept", folder / "away"
    kept.mkdir()
    with runs.working() as program:
        with runs.sampling("attach", "--every", "1", "-o", kept / "app.json", program.pid) as (run, said):
            kept.rename(away)
            time.sleep(5)
            require(run.poll() is None, "the run has ended")
            kept.mkdir()
            wait_for(lambda: list(kept.iterdir()), "a file")
    require(sum("an interval is lost" in line for line in said) == 1, said)
    require(all(NAME.fullmatch(path.name) for path in kept.iterdir()), list(kept.iterdir()))


def a_run_ends_when_it_is_exact_enough(runs):
    for command in ("attach", "run"):
        path = runs.folder() / "app.json"
        with runs.working() as program:
            if command == "attach":
                with runs.sampling("attach", "--until-error", "25%", "-d", str(EXACT_ENOUGH_S), "-o", path, program.pid,
                                   ended_by=None) as (run, _):
                    run.wait(timeout=2 * EXACT_ENOUGH_S)
            else:
                done = runs.call("run", "--until-error", "25%", "-o", path, "--", runs.program, "2000000")
                require(done.returncode == 0, done)
        profile = read_profile(str(path))
        reached = profile["run"].get("until_error")
        if command == "run" and reached is None:
            continue  # the program has ended before
        require(reached is not None, (profile["run"], profile["coverage"], profile["overhead"]))
        require(reached["limit"] == 0.25 and 0 < reached["reached"] <= 0.25 and reached["functions"] >= 1, reached)
        require(profile["run"]["duration_s"] < EXACT_ENOUGH_S, profile["run"])
        text = runs.call("report", path).stdout
        require("(--until-error 25%)" in " ".join(text.split()), text)


def ctl_asks_and_tells(runs):
    path = runs.folder() / "app.json"
    with runs.working() as program:
        with runs.sampling("attach", "-d", "50", "-o", path, program.pid, ended_by=None) as (run, _):
            for pid in (program.pid, run.pid):
                status = runs.ctl(pid, "status")
                require(f"processes: {program.pid}\n" in status and "mode: shadow\n" in status, status)
                require("max-overhead: 1.00 %\n" in status and f"file: {path}\n" in status, status)
            require(runs.ctl(program.pid, "set", "max-overhead=2.5%") == "", "set says something")
            require("max-overhead: 2.50 %\n" in runs.ctl(program.pid, "status"), "not set")
            require(runs.ctl(program.pid, "dump") == "", "dump says something")
            require(path.exists(), "dump has not waited for the file")
            _, before = dumped_anew(path, 0)
            require(run.poll() is None, "the run has ended")
            runs.ctl(run.pid, "stop")
            profile, _ = dumped_anew(path, before)
        require(profile["overhead"]["budget_share"] == 0.025, profile["overhead"])
        require(profile["run"]["duration_s"] < 50, profile["run"])


def conditions_change_while_it_runs(runs):
    path = runs.folder() / "app.json"
    told = {"values=1/64": "values: 1/64\nlatency: 1/64\n", "latency=burst:1,every:128": "values: 1/64\nlatency: 1/128\n",
            "latency=1/32": "values: 1/64\nlatency: 1/32\n", "values=all": "values: all\nlatency: 1/32\n", "freq=20": "freq: 20\n", "freq=auto": "freq: auto\n",
            "sample-size=50K": "sample-size: 50000\n", "sample-size=auto": "sample-size: auto\n"}
    with runs.working() as program:
        with runs.sampling("attach", "--max-overhead", "20%", "--profile", "all", "-o", path, program.pid,
                           ended_by=None) as (run, _):
            for setting, answer in told.items():
                said = runs.ctl(program.pid, "set", setting)
                require(said == answer, f"{setting}: {said!r}")
                time.sleep(0.3)
            runs.ctl(program.pid, "set", "max-overhead=3%")
            for wrong in ("values=1/0", "values=some", "latency=", "latency=all", "calls=1/100", "freq=0", "freq=x", "sample-size=3",
                          "address=1/4", "top=5"):
                done = runs.call("ctl", program.pid, "set", wrong)
                require(done.returncode == 125 and done.stdout == "" and done.stderr.count("\n") == 1, f"{wrong}: {done}")
            runs.ctl(run.pid, "stop")
            profile, _ = dumped_anew(path, 0)
    changes = profile["run"]["changes"]
    wanted = [("values", "1/64"), ("latency", "1/128"), ("latency", "1/32"), ("values", "all"), ("freq", "20"), ("freq", "auto"),
              ("sample-size", "50000"), ("sample-size", "auto"), ("max-overhead", "3%")]
    require([(c["setting"], c["value"]) for c in changes] == wanted, changes)
    moments = [c["at_s"] for c in changes]
    require(moments == sorted(moments) and moments[-1] <= profile["run"]["duration_s"], changes)
    require(profile["coverage"]["samples"] > 0, profile["coverage"])
    require("values=1/64" in runs.call("report", path).stdout, "the report does not say it")


def what_a_run_does_not_have_cannot_be_set(runs):
    path = runs.folder() / "app.json"
    refused = {("--profile", "edge"): ("values=all", "latency=1/4"), ("--mode", "burst"): ("latency=1/4", "sample-size=50K"),
               ("--engine", "emulator"): ("latency=1/4",)}
    with runs.working() as program:
        for options, settings in refused.items():
            with runs.sampling("attach", *options, "-o", path, program.pid) as (_, _):
                for setting in settings:
                    done = runs.call("ctl", program.pid, "set", setting)
                    require(done.returncode == 125 and done.stderr.count("\n") == 1, f"{options} {setting}: {done}")
                if options == ("--mode", "burst"):
                    require(runs.ctl(program.pid, "set", "values=1/16") == "values: 1/16\n", "values in bursts")
                    require(runs.ctl(program.pid, "set", "freq=50") == "freq: 50\n", "frequency of bursts")
            profile = read_profile(str(path))
            require(("changes" in profile["run"]) == (options == ("--mode", "burst")), profile["run"])


def a_hostile_client_changes_nothing(runs):
    path = runs.folder() / "app.json"
    with runs.working() as program:
        with runs.sampling("attach", "-o", path, program.pid) as (run, _):
            place, = runs.sockets()
            require((place.parent.stat().st_mode & 0o777) == 0o700, place.parent)
            clients = []
            for _ in range(3):
                client = socket.socket(socket.AF_UNIX)
                client.settimeout(PATIENCE_S)
                client.connect(str(place))
                clients.append(client)
            clients[1].sendall(b"\0\xff" * 400)
            clients[2].sendall(b"stop")  # no line
            status = runs.ctl(run.pid, "status")
            require("samples: " in status, status)
            for client in clients:
                client.close()
            require(run.poll() is None, "the run has ended")


def what_cannot_be_done_is_one_sentence(runs):
    own = str(os.getpid())
    for arguments in (["ctl", "x", "status"], ["ctl", "999999999", "status"], ["ctl", own, "status"],
                      ["ctl", own, "jump"], ["ctl", own, "set"], ["ctl", own, "set", "max-overhead=0"],
                      ["ctl", own, "set", "top=5"], ["ctl", own, "set", "values=1/0"],
                      ["ctl", own, "set", "calls=1/9"], ["ctl", own, "set", "freq=0"], ["ctl", own, "set", "sample-size=1K2"], ["ctl", own, "stop", "now"], ["ctl", own], ["ctl"],
                      ["attach", "--every", "10", "-o", "-", own], ["attach", "--every", "0.1", own],
                      ["attach", "--every", "10", "--mode", "burst", own], ["attach", "--keep", "3", own],
                      ["attach", "--every", "10", "--keep", "0", own],
                      ["attach", "--every", "10", "--until-error", "5%", own],
                      ["attach", "--until-error", "0", own], ["attach", "--until-error", "80%", own],
                      ["run", "--mode", "full", "--until-error", "5%", "true"]):
        done = runs.call(*arguments)
        require(done.returncode == 125 and done.stderr.count("\n") == 1 and done.stdout == "", f"{arguments}: {done}")
        require(done.stderr.startswith("shadowprof: "), done.stderr)


CASES = [sigusr2_writes_the_profile_so_far_and_the_run_goes_on,
         a_program_that_is_run_does_not_notice_sigusr2,
         each_interval_has_a_profile_of_its_own,
         an_interval_that_cannot_be_written_is_lost_and_said_once,
         a_run_ends_when_it_is_exact_enough,
         ctl_asks_and_tells,
         conditions_change_while_it_runs,
         what_a_run_does_not_have_cannot_be_set,
         a_hostile_client_changes_nothing,
         what_cannot_be_done_is_one_sentence]


def main():
    parser = argparse.ArgumentParser()
    for name in ("shadowprof", "program"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-continuous-") as folder:
        return run_cases(CASES, Runs(options, folder), options.only)


if __name__ == "__main__":
    sys.exit(main())
