#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Whoever sends us a signal to end sees us end, and nothing is left but the program, which goes on.

usage: ending.py --shadowprof FILE --spinner FILE --blocked FILE [--only NAME]

waits.py has the states a program can be in meanwhile.
"""

import argparse
import array
import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import termios
import time

from case_list import require, run, run_cases
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cache_bursts  # noqa: E402

EAGER = ("--max-overhead", "100%")
SHADOW = ("--mode", "shadow", *EAGER, "-F", "200", "--sample-size", "1M")
ATTACHED = {
    "shadow": SHADOW,
    "emulator": (*SHADOW, "--engine", "emulator"),
    "burst": ("--mode", "burst", "--engine", "translator", *EAGER, "--burst", "1ms/20ms",
              *cache_bursts.of_this_host()),
    "interpreted": ("--mode", "burst", "--engine", "emulator", *EAGER, "--burst", "1ms/20ms"),
}
STARTED = {**ATTACHED, "full": ("--mode", "full"), "traced": ("--mode", "full", "--profile", "+path,value")}
# Signals its process group, of which those are that profile it. With "end", as a program that aborts.
GROUP = "\n".join(("import os, signal, sys, time",
                   "came = []",
                   "all = [getattr(signal, 'SIG' + name) for name in ('USR1', 'ALRM', 'ABRT', 'TERM', 'HUP', 'TRAP', 'VTALRM', 'IO', 'PWR')]",
                   "for number in all + [signal.SIGRTMIN, signal.SIGRTMAX]:",
                   "    signal.signal(number, lambda number, _: came.append(number))",
                   "    os.kill(0, number)",
                   "end = time.monotonic() + 0.5",
                   "while time.monotonic() < end: sum(range(1000))",
                   "print(len(came), flush=True)",
                   "if sys.argv[1:]: signal.signal(signal.SIGABRT, signal.SIG_DFL); os.kill(0, signal.SIGABRT)",
                   "sys.exit(7)"))
SOON = 20  # seconds; far less where the machine is not busy

# Handles what it is sent, and goes on.
PATIENT = "\n".join(("import os, signal, sys",
                     "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))",
                     "signal.signal(signal.SIGTERM, lambda *_: print('term', flush=True))",
                     "signal.signal(signal.SIGHUP, lambda *_: print('hup', flush=True))",
                     "signal.signal(signal.SIGINT, lambda *_: print('int', flush=True))",
                     "print(os.getpid(), flush=True)",
                     "while True: sum(range(1000))"))


def wait_until(holds, what):
    end = time.monotonic() + SOON
    while not holds():
        require(time.monotonic() < end, f"{what}: not in {SOON} s")
        time.sleep(0.02)


def fields_of(process):
    """Of /proc/PID/stat, from the state on; None when it is gone."""
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def members_of(leader):
    """Live processes of those that came from one that called setsid(2), with itself."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            fields = fields_of(entry)
            if fields and int(fields[3]) == leader and fields[0] not in "ZX":
                found.append(int(entry))
    return found


def ticks_of(process):
    return int(fields_of(process)[11])


@contextlib.contextmanager
def started(command, **more):
    """A process that has called setsid(2). Nothing of it is left behind."""
    # pylint: disable-next=consider-using-with
    process = subprocess.Popen(command, start_new_session=True, text=True, **more)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


def ends(process, what):
    """So do all that it has started."""
    try:
        process.wait(timeout=SOON)
    except subprocess.TimeoutExpired:
        require(False, what + " does not end")
    wait_until(lambda: not members_of(process.pid), what + ": processes are left")


def require_runs(process, what):
    require(process.poll() is None, f"{what}: it has ended with {process.returncode}")


def require_status(process, statuses, what):
    """It has ended."""
    if process.returncode not in statuses:
        require(False, f"{what}: {process.returncode} {process.stderr.read()}")


def goes_on(program, what):
    status = pathlib.Path(f"/proc/{program.pid}/status").read_text(encoding="utf-8")
    require("TracerPid:\t0" in status, what + ": it is still traced")
    require(members_of(program.pid) == [program.pid], what + ": processes are left")
    before = ticks_of(program.pid)
    wait_until(lambda: ticks_of(program.pid) > before, what + ": it goes on")


def attach_ends_and_the_program_goes_on(options):
    for mode, chosen in ATTACHED.items():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            what = f"attach {mode}, {number.name}"
            with started([options.spinner]) as first, started([options.spinner]) as second:
                programs = [first] if "burst" in chosen else [first, second]
                with started([options.shadowprof, "attach", *chosen, "-o", "p.json",
                              ",".join(str(program.pid) for program in programs)],
                             stderr=subprocess.PIPE) as ours:
                    time.sleep(1)
                    require_runs(ours, what)
                    ours.send_signal(number)
                    ends(ours, what)
                    require_status(ours, [0], what)
                for program in programs:
                    goes_on(program, what)
            profiles = list(pathlib.Path().glob("p*"))
            require(profiles, f"{what}: no profile")
            for file in profiles:
                json.loads(file.read_text(encoding="utf-8"))
                file.unlink()


def run_passes_it_on(options):
    """The program ends of it, and so do we, as it has."""
    for mode, chosen in STARTED.items():
        for number in (signal.SIGTERM, signal.SIGHUP):
            what = f"run {mode}, {number.name}"
            with started([options.shadowprof, "run", *chosen, "-o", "p.json", "--", options.spinner],
                         stderr=subprocess.PIPE) as ours:
                time.sleep(1)
                require_runs(ours, what)
                ours.send_signal(number)
                ends(ours, what)
                require_status(ours, [-number], what)
            found = json.loads(pathlib.Path("p.json").read_text(encoding="utf-8"))
            require(found["run"]["exit"] == {"signal": number}, f"{what}: {found['run']}")
            os.unlink("p.json")


def run_goes_on_with_a_program_that_does(options):
    """What it handles is its own business; SIGINT to us alone is nobody's."""
    for mode, chosen in STARTED.items():
        what = "run " + mode
        with started([options.shadowprof, "run", *chosen, "-o", "p.json", "--", "/usr/bin/python3", "-c",
                      PATIENT], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ours:
            program = int(ours.stdout.readline())
            ours.send_signal(signal.SIGINT)
            for number, word in ((signal.SIGTERM, "term\n"), (signal.SIGHUP, "hup\n")):
                ours.send_signal(number)
                line = ours.stdout.readline()
                require(line == word, f"{what}: {line!r}")
            os.kill(program, signal.SIGUSR1)
            ends(ours, what)
            require_status(ours, [7], what)
            rest = ours.stdout.read()
            require(rest == "", f"{what}: {rest!r}")


def following_ends_though_the_first_has(options):
    """Who was started has ended: what it leaves behind goes on, and we end as it has."""
    for mode in ("shadow", "burst"):
        what = f"run -f, {mode}"
        with started([options.shadowprof, "run", "--mode", mode, "-f", "-o", "p.json", "--", "/bin/sh", "-c",
                      '"$0" & sleep 0.5; exit 5', options.spinner], stderr=subprocess.PIPE) as ours:
            time.sleep(2)
            require_runs(ours, what)
            ours.send_signal(signal.SIGTERM)
            try:
                ours.wait(timeout=SOON)
            except subprocess.TimeoutExpired:
                require(False, what + " does not end")
            require_status(ours, [5], what)
            wait_until(lambda: len(members_of(ours.pid)) == 1, what + ": the spinner alone goes on")
        os.unlink("p.json")


def a_program_may_signal_its_process_group(options):
    """It is ours; what the program sends to it ends neither us nor the profile."""
    for mode, chosen in STARTED.items():
        for words, status in ((), 7), (("end",), -signal.SIGABRT):
            profile = pathlib.Path("group.json")
            profile.unlink(missing_ok=True)
            command = [options.shadowprof, "run", "-q", *chosen, "-o", profile, "--",
                       "/usr/bin/python3", "-c", GROUP, *words]
            with started(command, stdout=subprocess.PIPE) as process:
                said, _ = process.communicate(timeout=60)
            what = f"{mode} {words}"
            require((process.returncode, said) == (status, "11\n"), f"{what}: {process.returncode}, {said!r}")
            wait_until(profile.exists, f"{what}: the profile")
            end = json.loads(profile.read_text(encoding="utf-8"))["run"]["exit"]
            require(end == ({"status": 7} if status == 7 else {"signal": signal.SIGABRT}), f"{what}: {end}")


def what_cannot_be_left_yet_goes_on(options):
    """A thread in a call that a stop would cut short is left when that is over; until then it gets
    its signals."""
    for mode in ("shadow", "burst"):
        done = subprocess.run([options.shadowprof, "run", "--mode", mode, "-d", "0.5", "-o", "p.json", "--",
                               options.blocked], check=False, timeout=60, capture_output=True, text=True)
        require(done.returncode == 0, f"{mode}: {done.returncode} {done.stderr}")
        require(done.stdout == "1048576 bytes, many signals\n", f"{mode}: {done.stdout}")


def end_of_it(options, commands, is_ready, statuses=()):
    """Each of them, of each signal, with no file left; `is_ready` says that it has come to wait."""
    before = sorted(os.listdir())
    for command in commands:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            what = f"{' '.join(command)}, {number.name}"
            with started([options.shadowprof, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         pipesize=4096) as ours:
                wait_until(lambda: ours.poll() is not None or is_ready(ours), what + ": it begins")
                require_runs(ours, what)
                ours.send_signal(number)
                ends(ours, what)
                require_status(ours, [-number, *statuses], what)
            require(sorted(os.listdir()) == before, f"{what}: {os.listdir()}")


def has_open(process, file):
    folder = f"/proc/{process.pid}/fd"
    for descriptor in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"{folder}/{descriptor}") == os.path.abspath(file):
                return True
    return False


def profiled(options):
    done = run(options, "run", "--mode", "full", "-q", "-o", "whole.json", "--", "/usr/bin/true")
    require(done.returncode == 0, done.stderr)


def is_unread(pipe):
    """Some of what was written to it."""
    waiting = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] > 0


def readers_end(options):
    """Of a profile whose writer has stopped in the middle."""
    profiled(options)
    os.mkfifo("silent")
    begun = pathlib.Path("whole.json").read_bytes()[:1000]
    writer = os.open("silent", os.O_RDWR)
    try:
        def has_begun(ours):
            if not has_open(ours, "silent"):
                return False
            os.write(writer, begun)
            while is_unread(writer):  # else the next one would read it, too
                time.sleep(0.001)
            return True
        end_of_it(options, [["report", "silent"], ["report", "--html", "silent"],
                             ["annotate", "silent", "main"], ["diff", "silent", "whole.json"],
                             ["diff", "whole.json", "silent"], ["check", "whole.json", "silent"],
                             ["compare", "whole.json", "silent"],
                             ["merge", "-o", "m.json", "whole.json", "silent"],
                             ["export", "--format", "folded", "silent"],
                             ["export", "--format", "pprof", "-o", "x.pb.gz", "silent"]], has_begun)
    finally:
        os.close(writer)


def is_blocked(process):
    """Nobody reads what it writes."""
    fields = fields_of(process.pid)
    if fields is None or fields[0] != "S":
        return False
    call = pathlib.Path(f"/proc/{process.pid}/syscall").read_text(encoding="utf-8").split()
    return call[0] in ("1", "7")  # write, poll


def writers_end(options):
    """To a pipe that nobody reads, of a page."""
    profiled(options)
    pathlib.Path("other.json").write_bytes(pathlib.Path("whole.json").read_bytes())
    end_of_it(options, [["report", "--json", "--limit", "100000", "whole.json"],
                         ["merge", "-o", "-", "whole.json", "other.json"],
                         ["export", "--format", "callgrind", "whole.json"]], is_blocked)


def readers_of_much_end(options):
    """While they compute, unless they are through."""
    done = run(options, "run", "--mode", "full", "-q", "--profile", "+path,value,address", "-o", "whole.json",
               "--", "/usr/bin/python3", "-c", "import json, decimal, email.message")
    require(done.returncode == 0, done.stderr)
    end_of_it(options, [["report", "whole.json"], ["diff", "whole.json", "whole.json"],
                         ["check", "whole.json", "whole.json"],
                         ["merge", "-o", "m.json", *["whole.json"] * 40],
                         ["export", "--format", "pprof", "-o", "x.pb.gz", "whole.json"]],
              lambda ours: has_open(ours, "whole.json"), [0])


def doctor_ends(options):
    """And what it tries, in whichever mode it was."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with started([options.shadowprof, "doctor"], stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE) as ours:
            wait_until(lambda: ours.poll() is not None or len(members_of(ours.pid)) > 1, "doctor: it tries")
            ours.send_signal(number)
            ends(ours, f"doctor, {number.name}")
            require_status(ours, [-number], f"doctor, {number.name}")


CASES = [attach_ends_and_the_program_goes_on, run_passes_it_on, run_goes_on_with_a_program_that_does,
         following_ends_though_the_first_has, a_program_may_signal_its_process_group,
         what_cannot_be_left_yet_goes_on, readers_end, writers_end, readers_of_much_end, doctor_ends]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True, type=os.path.abspath)
    parser.add_argument("--spinner", required=True, type=os.path.abspath)
    parser.add_argument("--blocked", required=True, type=os.path.abspath)
    parser.add_argument("--only", default="")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored by who runs this with nohup
    return run_cases(CASES, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
