#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Calls that move many bytes are never cut short by us, whatever the mode, and no byte is moved twice.

usage: cut_calls.py --shadowprof FILE --mover FILE [--only NAME]
"""

import os
import signal
import subprocess
import sys
import threading
import time

from case_list import require, run, run_with_programs

OFTEN = ["--max-overhead", "50%", "--load", "1", "-F", "200"]
MODES = {
    "shadow": OFTEN,
    "burst": ["--mode", "burst", *OFTEN[:2]],
    "emulator": ["--mode", "burst", "--engine", "emulator", *OFTEN[:2]],
    "full": ["--mode", "full"],
}
SECONDS = "0.6"


def moves(options, what, said):
    for name, mode in MODES.items():
        done = run(options, "run", "-q", "-o", "p.json", *mode, "--", options.mover, what, SECONDS)
        require(done.returncode == 0 and done.stdout == said,
                f"{name}: {done.returncode}, {done.stdout!r}, {done.stderr!r}")


def case(what, said="0 short\n"):
    def test(options):
        moves(options, what, said)
    test.__name__ = what
    return test


def attached_and_left(options):
    """However often somebody comes and goes."""
    with subprocess.Popen([options.mover, "pipe", "4"], stdout=subprocess.PIPE, text=True) as mover:
        while mover.poll() is None:
            done = run(options, "attach", "-q", "-d", "0.15", *OFTEN, "-o", "p.json", str(mover.pid))
            require(done.returncode in (0, 1, 125) or mover.poll() is not None, done.stderr)
        said = mover.stdout.read()
    require(mover.returncode == 0 and said == "0 short\n", f"{mover.returncode}: {said}")


def left_while_somebody_reads(options):
    """In a call that goes on: what it says is what it has written. The reader compares each byte."""
    for what in ("slow-pipe", "slow-socket"):
        for name in ("shadow", "burst", "emulator"):
            with subprocess.Popen([options.mover, what, "3"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as mover:
                while mover.poll() is None:
                    done = run(options, "attach", "-q", "-d", "0.15", *MODES[name], "-o", "p.json", str(mover.pid))
                    require(done.returncode in (0, 1, 125) or mover.poll() is not None, done.stderr)
                said = mover.stderr.read()
            require(mover.returncode == 0, f"{what}, {name}: {mover.returncode}: {said}")


def left_in_a_call(options):
    """A write that nobody reads on does not keep us, and says what it has written."""
    script = ("import os, signal, sys\nr, w = os.pipe()\n"
              "signal.signal(signal.SIGALRM, lambda *_: None)\n"
              "print(os.write(w, bytes(1 << 20)), flush=True)")
    with subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE,
                          text=True) as writer:
        time.sleep(0.5)  # it waits
        done = run(options, "attach", "-q", "-d", "0.3", *OFTEN, "-o", "p.json", str(writer.pid))
        require(writer.poll() is None, done.stderr)
        writer.send_signal(signal.SIGALRM)
        require(int(writer.stdout.readline()) == 65536, "another count")
    require(writer.returncode == 0, writer.returncode)


# Writes all the time; executes another program when what a thread writes was read, and computes once
# it was sent a signal.
ENDING = """
import os, signal, threading
def on_alarm(*_):
    raise TimeoutError
def execute():
    os.write(2, bytes(1 << 20))
    os.execv("/usr/bin/sleep", ["sleep", "60"])
signal.signal(signal.SIGALRM, on_alarm)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.set_inheritable(2, False)
threading.Thread(target=execute, daemon=True).start()
try:
    while True:
        os.write(1, bytes(1 << 20))
except TimeoutError:
    while True:
        pass
"""
ENDS = {
    "dies": lambda program: program.stdout.close(),
    "executes": lambda program: program.stderr.read(),
    "handles": lambda program: program.send_signal(signal.SIGALRM),
}
# What is freed is overwritten.
FREED = {"GLIBC_TUNABLES": "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"}


def read_slowly(pipe, is_over):
    while not is_over.is_set():
        os.read(pipe.fileno(), 4096)
        time.sleep(0.004)


def ends_soon(ours):
    try:
        said = ours.communicate(timeout=20)[1]
    except subprocess.TimeoutExpired:
        ours.kill()
        said = "it does not end"
    return ours.returncode, said


def end_while_left(options, end, after_s):
    is_over = threading.Event()
    with subprocess.Popen(["/usr/bin/python3", "-c", ENDING], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as program:
        reader = threading.Thread(target=read_slowly, args=(program.stdout, is_over))
        reader.start()
        try:
            time.sleep(0.2)  # it writes
            with subprocess.Popen([options.shadowprof, "attach", "-q", "-d", "0.2", *MODES["burst"], "-o", "p.json",
                                   str(program.pid)], env={**os.environ, **FREED},
                                  stderr=subprocess.PIPE, text=True) as ours:
                time.sleep(after_s)
                is_over.set()
                reader.join()
                end(program)
                return ends_soon(ours)
        finally:
            is_over.set()
            program.kill()


def ends_while_left(options):
    """A thread that dies, executes another program or handles a signal in the last moments of such a
    call, while we wait for its end."""
    for name, end in ENDS.items():
        for after_ms in range(200, 600, 50):
            status, said = end_while_left(options, end, after_ms / 1000)
            require(status in (0, 1, 125), f"{name} after {after_ms} ms: {status}, {said}")


CASES = [case(what) for what in ("pipe", "socket", "all", "peek", "datagrams", "messages", "timeouts", "queue",
                                 "zero", "random", "ignored")]
CASES += [case("handled", ""), attached_and_left, left_while_somebody_reads,
          ends_while_left, left_in_a_call]


if __name__ == "__main__":
    sys.exit(run_with_programs(CASES, __doc__, ("shadowprof", "mover")))
