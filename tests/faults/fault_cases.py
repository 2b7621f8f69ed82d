# SPDX-License-Identifier: MIT
"""What is done while a call fails, and what must hold of it afterwards."""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from fault_plans import ALLOCATIONS, DIE, KILL, TABLE_BYTES, read_table

TIMEOUT_S = 20
OWN_FAILURE = 125
WITNESS_LINES = re.compile(rb"witness begins\nwitness [0-9a-f]{16} unharmed\n")
BROKEN = (b"internal error", b"Sanitizer", b"terminate called", b"runtime error")
PR_SET_CHILD_SUBREAPER = 36
WALL = 0x40000000  # __WALL of waitpid(2): whatever signal it ends with


def become_reaper():
    """What is left behind becomes a child of this process, so that it is found."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        pass
    return found


def states_of(pid):
    """The state letter of each thread; empty for a process that is gone."""
    states = {}
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat") as file:
                states[int(task)] = file.read().rpartition(")")[2].split()[0]
    except OSError:
        pass
    return states


def is_stopped(pid):
    return any(state in "Tt" for state in states_of(pid).values())


def stays(condition, seconds=1.0):
    """Whether it holds all that time: what passes by itself is no finding."""
    end = time.monotonic() + seconds
    while condition():
        if time.monotonic() > end:
            return True
        time.sleep(0.02)
    return False


def has_begun(pid):
    """It has signal handlers, or is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return "SigCgt:\t0000000000000000\n" not in file.read()
    except FileNotFoundError:
        return True


def interrupt(process, after_s):
    """As ctrl-C does, where it still runs then; nobody is so quick that it has not begun."""
    if after_s is None:
        return
    stays(lambda: not has_begun(process.pid), seconds=10)
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)


class Trial:
    """One command with one call that fails, in an empty folder of its own."""

    def __init__(self, setup, folder, plan):
        self.setup = setup
        self.folder = folder
        self.plan = plan
        self.problems = []
        self.home = os.path.join(folder, "home")
        shutil.rmtree(self.home, ignore_errors=True)
        os.mkdir(self.home, 0o700)
        self.table = os.path.join(folder, "table")
        with open(self.table, "wb") as file:
            file.truncate(TABLE_BYTES)
        self.before = set(children_of(os.getpid()))

    def environment(self):
        environment = {"PATH": "/usr/bin:/bin", "HOME": self.home, "LANG": "C.UTF-8",
                       "TMPDIR": self.home, "XDG_CACHE_HOME": os.path.join(self.folder, "cache"),
                       "LD_PRELOAD": self.setup.library, "FAULTS_TABLE": self.table,
                       "FAULTS_REMOTE": self.setup.remote}
        if self.plan:
            environment["FAULTS_PLAN"] = self.plan.text()
            if self.plan.name in ALLOCATIONS:
                environment["FAULTS_ALLOCATIONS"] = "1"
        elif self.setup.allocations:
            environment["FAULTS_ALLOCATIONS"] = "1"
        return environment

    def wrong(self, text):
        self.problems.append(text)

    def call(self, *arguments, interrupt_after_s=None):
        """Runs shadowprof to its end; its status, and what it wrote."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen([self.setup.shadowprof, *arguments], stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err, cwd=self.home, env=self.environment(),
                                       start_new_session=True)
            try:
                interrupt(process, interrupt_after_s)
                process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.wrong(f"hangs: {self.describe_hang(process.pid)}")
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self.end_what_is_left()
            self.status = process.returncode
            out.seek(0)
            err.seek(0)
            self.stdout, self.stderr = out.read(), err.read()
        self.judge_end()

    def describe_hang(self, pid):
        words = []
        for each in [pid] + children_of(pid) + [c for p in children_of(pid) for c in children_of(p)]:
            try:
                with open(f"/proc/{each}/comm") as comm:
                    name = comm.read().strip()
                with open(f"/proc/{each}/wchan") as wchan:
                    words.append(f"{each} {name} {states_of(each)} in {wchan.read()}")
            except OSError:
                pass
        return "; ".join(words)

    def left(self):
        """What shadowprof left to us and is still there; those that ended are reaped."""
        rest = [c for c in children_of(os.getpid()) if c not in self.before]
        return [c for c in rest if os.waitpid(c, os.WNOHANG | WALL)[0] == 0]

    # The program goes on by itself where shadowprof gave up; it has its time to end.
    def end_what_is_left(self):
        deadline = time.monotonic() + TIMEOUT_S / 2
        while (rest := self.left()) and time.monotonic() < deadline:
            for pid in rest:
                if is_stopped(pid) and stays(lambda p=pid: is_stopped(p)):
                    self.wrong(f"process {pid} is left stopped: {states_of(pid)}")
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        for pid in self.left():
            self.wrong(f"process {pid} is left behind: {states_of(pid)}")
            os.kill(pid, signal.SIGKILL)
        while self.left():
            time.sleep(0.01)

    def judge_end(self):
        if self.is_library_short() and self.status in (1, -signal.SIGABRT, -signal.SIGSEGV):
            self.status = OWN_FAILURE
            if b"internal error" in self.stderr:
                self.wrong("says 'internal error'")
            return
        if self.status < 0 and not (self.status == -signal.SIGKILL and (self.kills() or self.dies())):
            self.wrong(f"ended by signal {-self.status}")
        for word in BROKEN:
            if word in self.stderr:
                self.wrong(f"says '{word.decode()}'")
        says_why = re.search(rb"^shadowprof: .", self.stderr, re.M) or \
            re.search(rb"^fails .*\n +-> .", self.stdout, re.M)  # doctor's table
        if self.status == OWN_FAILURE and not says_why:
            self.wrong("does not say why")
        for line in self.stderr.splitlines():
            if not line.startswith(b"shadowprof: ") and not self.kills():
                self.wrong(f"writes a line that is not shadowprof's: {line!r}")
                break

    # Libraries that get no memory end the process as they like (libdw, glibc). The program must be
    # unharmed all the same.
    def is_library_short(self):
        return any(fault.name == "malloc" for fault in self.faults())

    # Killed, or without memory after the reserve was used up.
    def ends_at_once(self):
        return self.dies() or any(fault.name in ALLOCATIONS for fault in self.faults())

    def faults(self):
        return self.plan.all() if self.plan else ()

    def kills(self):
        return any(fault.failure == KILL for fault in self.faults())

    def dies(self):
        return any(fault.failure == DIE for fault in self.faults())

    def expect_files(self, *names):
        """No file but these is left; the profile is whole where there is one."""
        there = set(os.listdir(self.home))
        for name in sorted(there - set(names)):
            if not self.may_stay(name):
                self.wrong(f"leaves the file {name}")

    # What cannot be removed stays.
    def may_stay(self, _):
        return self.dies() or self.is_library_short() or any(fault.name.startswith("unlink") for fault in self.faults())

    def expect_profile(self, name="p.json", needed=True):
        path = os.path.join(self.home, name)
        self.expect_json(name, ("schema", "run", "coverage", "tables"), needed)
        if os.path.exists(path) and os.stat(path).st_mode & 0o777 != 0o600:
            self.wrong(f"the profile has the mode {os.stat(path).st_mode & 0o777:o}")

    def expect_json(self, name, keys, needed):
        path = os.path.join(self.home, name)
        if not os.path.exists(path):
            if needed:
                self.wrong(f"there is no {name}")
            return
        try:
            with open(path) as file:
                profile = json.load(file)
            for key in keys:
                profile[key]
        except (ValueError, KeyError) as error:
            self.wrong(f"{name} is broken: {error}")

    def expect_statuses(self, *statuses):
        if self.status >= 0 and self.status not in statuses:
            self.wrong(f"has the status {self.status}")

    def finish(self):
        failed, sites = read_table(self.table)
        return failed, sites, self.problems


# --- What is done --------------------------------------------------------------------------------

# As often as can be, so that most calls are made in a short time.
DENSE = ("--max-overhead", "60%", "--seed", "1", "--converge", "off")


def run(*options, milliseconds=250, command=("run", "-o", "p.json"), is_bound=False):
    """`is_bound`: the program ends with us, as it is in our code cache (docs/burst-mode.md)."""
    def act(trial):
        trial.call(*command, *options, "--", trial.setup.witness, str(milliseconds))
        # What the witness says when a child of it was killed is 1.
        trial.expect_statuses(0, OWN_FAILURE, *((1,) if trial.kills() else ()),
                              *((126, 127) if trial.plan and not trial.stdout else ()))
        if not (is_bound and trial.ends_at_once()):
            judge_witness(trial, trial.stdout)
        trial.expect_files("p.json")
        if command[0] == "run":
            trial.expect_profile(needed=trial.status == 0)
        else:
            trial.expect_json("p.json", ("counts",), needed=trial.status == 0)
    return act


# To its end, or not started. Of one that a fault killed, or a child of it, nothing is expected.
def judge_witness(trial, output):
    if trial.kills() or WITNESS_LINES.fullmatch(output):
        return
    if output or trial.status == 0:
        trial.wrong(f"the program did not run to its end: {output!r}")


def mappings_of(pid):
    try:
        with open(f"/proc/{pid}/maps") as file:
            return file.read()
    except OSError:
        return ""


def attach(*options, length=("-d", "0.25"), interrupt_after_s=None, is_bound=False):
    def act(trial):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            program = subprocess.Popen([trial.setup.witness, "-"], stdin=subprocess.PIPE, stdout=out,
                                       stderr=err, start_new_session=True)
            trial.before.add(program.pid)
            # From its second thread on it maps nothing any more.
            if stays(lambda: len(states_of(program.pid)) < 2, seconds=30):
                trial.wrong("the program does not begin")
            time.sleep(0.05)
            mappings = mappings_of(program.pid)
            trial.call("attach", "-o", "p.json", *length, *options, str(program.pid),
                       interrupt_after_s=interrupt_after_s)
            trial.expect_statuses(0, OWN_FAILURE)
            if not (is_bound and trial.ends_at_once()):
                judge_detached(trial, program, mappings)
            program.stdin.close()
            try:
                status = program.wait(TIMEOUT_S / 2)
            except subprocess.TimeoutExpired:
                trial.wrong(f"the program hangs: {states_of(program.pid)}")
                program.kill()
                program.wait()
                return
            if status != 0 and not trial.kills() and not is_missing_reaper(trial, err) \
                    and not (is_bound and trial.ends_at_once()):
                err.seek(0)
                trial.wrong(f"the program ended with {status}: {err.read()!r}")
            out.seek(0)
            output = out.read()
            if status == 0 and not WITNESS_LINES.fullmatch(output):
                trial.wrong(f"the program says {output!r}")
        trial.expect_files("p.json")
        trial.expect_profile(needed=trial.status == 0)
    return act


def is_missing_reaper(trial, err):
    err.seek(0)
    return trial.dies() and b"errno == ECHILD" in err.read()


def is_traced(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return "TracerPid:\t0\n" not in file.read()
    except OSError:
        return False


def judge_detached(trial, program, mappings):
    if program.poll() is not None:
        return
    if stays(lambda: is_stopped(program.pid)):
        trial.wrong(f"the program is left stopped: {states_of(program.pid)}")
    if stays(lambda: is_traced(program.pid)):
        trial.wrong("the program is left traced")
    zombies = lambda: any("Z" in states_of(c).values() for c in children_of(program.pid))
    # A replica that dies with shadowprof is seen by those that wait for all kinds of children.
    if not trial.dies() and stays(zombies):
        trial.wrong("the program has a zombie")
    now = mappings_of(program.pid)
    if now != mappings and not trial.kills() and not may_leave_memory(trial):
        differ = sorted(set(now.splitlines()) ^ set(mappings.splitlines()))
        trial.wrong(f"the program has other mappings than before: {differ[:4]}")


# What the program itself cannot unmap stays there.
def may_leave_memory(trial):
    return any(fault.name in ("remote:11", "ptrace:16902") for fault in trial.faults())


def offline(*arguments, output=None):
    """A command over profiles that were made before, which must stay as they are. `output` is there
    before, too: it is replaced, or is what it was."""
    def act(trial):
        given = {}
        for name in trial.setup.profiles:
            shutil.copy(os.path.join(trial.setup.folder, name), trial.home)
            given[name] = content_of(os.path.join(trial.home, name))
        old = b"old\n"
        if output:
            path = os.path.join(trial.home, output)
            if "json" in output:
                old = content_of(os.path.join(trial.setup.folder, "old." + output.split(".", 1)[1]))
            with open(path, "wb") as file:
                file.write(old)
            os.chmod(path, 0o600)
        trial.call(*arguments)
        trial.expect_statuses(0, OWN_FAILURE)
        for name, content in given.items():
            if content_of(os.path.join(trial.home, name)) != content:
                trial.wrong(f"{name} was changed")
        if output:
            judge_output(trial, output, old)
        elif trial.status == 0 and not trial.stdout:
            trial.wrong("prints nothing")
        trial.expect_files(*given, *([output] if output else []))
    return act


def judge_output(trial, output, old):
    new = content_of(os.path.join(trial.home, output))
    # Without memory even what is said at the end may fail, when the file is there already.
    if (new == old) == (trial.status == 0) and not trial.ends_at_once():
        trial.wrong("the old file stays" if new == old else "the old file is not whole")
    if output.endswith(".json"):
        trial.expect_profile(output)


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


SHADOW = ("--profile", "edge,call,path,value,address,latency")
BURST = ("--mode", "burst", "--burst", "3ms/10ms")


def deadly_ends(case):
    """Who is killed behind a call, too: whoever of shadowprof's makes it, and the program."""
    return (DIE, KILL) if case.startswith(("run", "attach", "stat")) else (DIE,)


CASES = {
    "run-shadow": run(*DENSE),
    "run-all": run(*DENSE, *SHADOW, "-f", "--input-log", "on"),
    "run-emulator": run(*DENSE, "--engine", "emulator"),
    "run-full": run("--mode", "full", milliseconds=60, is_bound=True),
    "run-full-traced": run("--mode", "full", *SHADOW, "-f", milliseconds=60, is_bound=True),
    "run-deterministic": run("--mode", "full", "--deterministic", milliseconds=60, is_bound=True),
    "run-burst": run(*BURST, is_bound=True),
    "run-burst-emulator": run(*BURST, "--engine", "emulator"),
    "stat": run(milliseconds=60, command=("stat", "--json", "-o", "p.json"), is_bound=True),
    "attach-shadow": attach(*DENSE),
    "attach-looks": attach(*DENSE, "--time", "looks"),
    "attach-burst": attach(*BURST, is_bound=True),
    "attach-burst-emulator": attach(*BURST, "--engine", "emulator"),
    "attach-follow": attach(*DENSE, *SHADOW, "-f", "--input-log", "on"),
    "attach-interrupt": attach(*DENSE, length=(), interrupt_after_s=0.3),
    "report": offline("report", "a.json"),
    "report-html": offline("report", "--html", "-o", "out.html", "a.json", output="out.html"),
    "annotate": offline("annotate", "a.json", "answer"),
    "merge": offline("merge", "-o", "m.json", "a.json", "b.json", output="m.json"),
    "merge-packed": offline("merge", "-o", "m.json.zst", "a.json", "b.json", output="m.json.zst"),
    "export": offline("export", "--format", "pprof", "-o", "out.pb", "a.json", output="out.pb"),
    "export-callgrind": offline("export", "--format", "callgrind", "-o", "out.txt", "a.json",
                                output="out.txt"),
    "diff": offline("diff", "a.json", "b.json"),
    "diff-html": offline("diff", "--html", "-o", "out.html", "a.json", "b.json", output="out.html"),
    "check": offline("check", "a.json", "a.json"),
    "report-packed": offline("report", "c.json.zst"),
    "doctor": offline("doctor"),
}
