# SPDX-License-Identifier: MIT
"""One run of one test, natively or under shadowprof, from which nothing is left.

A run has an empty directory, a process group made with setsid(2) and, isolated, namespaces of its own. What it
has started is dead when `Runner.run` returns: by the end of its PID namespace; otherwise each process is found
by a variable of its environment that no other run has.
"""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

# The options with which a mode samples as often as it can. Full mode counts only, or records a trace.
MODES = {
    "native": (),
    "full": ("--mode", "full"),
    "traced": ("--mode", "full", "--profile", "edge,call,path,value,address"),
    "shadow": ("--mode", "shadow", "--max-overhead", "100%", "--load", "1", "--freq", "200", "--sample-size", "200K"),
    "burst": ("--mode", "burst", "--max-overhead", "100%", "--burst", "1ms/10ms"),
}

IN_FULL_MODE = ("full", "traced")

# The shell is the first process of the namespace, which signals do not kill as they kill others. Numbers of
# processes begin above 30000, so that they look the same with and without a tracer (external_compare.py).
# /dev/shm is its own: LTP's tests make files there by these numbers, and what one that was killed has left
# would make the next run fail. So would System V objects.
# Who is left when the test has ended has half a second to end, too.
FIRST_PROCESS = """
exec 3>&2 2>/dev/null
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
echo 30000 >/proc/sys/kernel/ns_last_pid
ip link set lo up
note=$1
shift
"$@" 2>&3 3>&-
status=$?
for look in 1 2 3 4 5 6; do
  left=
  for file in /proc/[2-9]*/stat /proc/1?*/stat; do
    if read -r pid name state rest <"$file" && [ "$state" != Z ]; then left=yes; fi
  done
  if [ -z "$left" ]; then exit $status; fi
  sleep 0.1
done
: >"$note"
exit $status
"""
ISOLATED = ("unshare", "--net", "--ipc", "--uts", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child",
            "setsid", "sh", "-c", FIRST_PROCESS, "sh")

MARK = "EXTERNAL_TEST_RUN"
OWN_LINE = b"shadowprof: "
LOOK_S = 0.02
LOOKS_AT_ONE_THAT_BEGINS, BEGINS_S = 20, 0.002
IS_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of proc(5)'s flags
GRACE_S = 0.5
# Longer between two looks means that the machine, or we with the test, stood still: that is not the test's time.
LONGEST_LOOK_S = 0.5


@dataclass
class Outcome:
    """What a run has shown. A signal that killed the test is a status above 128, as in a shell."""

    status: int
    out: bytes
    err: bytes  # without shadowprof's lines
    notes: list  # shadowprof's lines
    seconds: float
    hangs: bool
    profile: bool  # that there is one; True natively
    leaves: bool  # that processes go on when it has ended


def never_has_one(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()  # from the third field on, the state
    return fields[0] in "ZX" or int(fields[6]) & IS_KERNEL_THREAD


def environment_of(pid):
    """Waits, within bounds, for that of a program that begins: the kernel shows none before it is laid out."""
    for _ in range(LOOKS_AT_ONE_THAT_BEGINS):
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
        if environment or never_has_one(pid):
            break
        time.sleep(BEGINS_S)
    return environment.split(b"\0")


def processes_marked(mark):
    """Those whose environment has it, zombies apart. Programs may have cleared their environment: these are missed."""
    wanted = f"{MARK}={mark}".encode()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if wanted in environment_of(int(name)):
                yield int(name)
        except OSError:
            continue


def kill_marked(mark):
    for _ in range(100):
        left = list(processes_marked(mark))
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not left:
            return
        time.sleep(LOOK_S)


def wait(process, limit_s):
    """Waits for its end; returns the seconds, or None when it takes longer than the limit."""
    spent, before = 0.0, time.monotonic()
    while spent < limit_s:
        try:
            process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        spent += min(now - before, LONGEST_LOOK_S)
        before = now
        if process.returncode is not None:
            return spent
    return None


def some_are_left(mark):
    """As the first process of a namespace looks."""
    end = time.monotonic() + GRACE_S
    while any(processes_marked(mark)):
        if time.monotonic() > end:
            return True
        time.sleep(LOOK_S)
    return False


def kill_rest(process, mark, isolated):
    try:
        os.killpg(process.pid, signal.SIGKILL)  # its own process group: started with setsid(2)
    except ProcessLookupError:
        pass
    process.wait()
    if not isolated:
        kill_marked(mark)


class Runner:
    """Makes runs below one temporary directory, which also keeps what shadowprof knows of the host."""

    def __init__(self, root, shadowprof, isolate):
        self.root, self.shadowprof, self.isolate = root, shadowprof, isolate
        self.numbers = itertools.count(1)

    def command(self, test, mode, top, follow):
        command = [*ISOLATED, os.path.join(top, "left")] if self.isolate else []
        if mode != "native":
            command += [self.shadowprof, "run", "-q", *MODES[mode], *(["-f"] if follow else []),
                        "-o", os.path.join(top, "profile.json"), "--"]
        return command + list(test.command)

    def environment(self, test, directory, mark):
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": directory, "TMPDIR": directory, "LANG": "C.UTF-8",
                "TZ": "UTC", "XDG_CACHE_HOME": os.path.join(self.root, "cache"), MARK: mark, **test.environment}

    def run(self, test, mode, limit_s, follow=True):
        top = tempfile.mkdtemp(dir=self.root)
        directory = os.path.join(top, "run")
        os.mkdir(directory)
        for name in os.listdir(test.links) if test.links else []:
            os.symlink(os.path.join(test.links, name), os.path.join(directory, name))
        mark = f"{os.getpid()}.{next(self.numbers)}"
        # Files instead of pipes: what it leaves behind keeps nobody waiting.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(self.command(test, mode, top, follow), stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err, cwd=directory, env=self.environment(test, directory, mark),
                                       start_new_session=True)
            try:
                seconds = wait(process, limit_s)
                leaves = (os.path.exists(os.path.join(top, "left")) if self.isolate
                          else seconds is not None and some_are_left(mark))
            finally:
                kill_rest(process, mark, self.isolate)
            out.seek(0)
            err.seek(0)
            # Paths differ from run to run.
            shown, said = (file.read().replace(top.encode(), b"TOP") for file in (out, err))
        written = mode == "native" or os.path.exists(os.path.join(top, "profile.json"))
        shutil.rmtree(top, ignore_errors=True)
        lines = said.splitlines(keepends=True)
        status = process.returncode
        return Outcome(status=status if status >= 0 else 128 - status, out=shown,
                       err=b"".join(line for line in lines if not line.startswith(OWN_LINE)),
                       notes=[line.decode(errors="replace").strip() for line in lines if line.startswith(OWN_LINE)],
                       seconds=limit_s if seconds is None else seconds, hangs=seconds is None, profile=written,
                       leaves=leaves)
