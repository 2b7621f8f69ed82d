# SPDX-License-Identifier: MIT
"""Cases of run.py about the command line."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

from bench import (NOT_FOUND, OWN, TIMEOUT_S, is_profile, nothing_left, refused, require, works)
from profile_file import read_profile  # bench.py says where it is


def no_subcommand(b):
    refused(b.call(), OWN)


def unknown_subcommand(b):
    refused(b.call("frobnicate"), OWN)


def unknown_options(b):
    for arguments in (["--frob"], ["run", "--frob", "--", "/bin/true"], ["report", "--frob", "x"],
                      ["syscalls", "--frob"]):
        refused(b.call(*arguments), OWN)


def run_without_a_program(b):
    for arguments in (["run"], ["run", "--"], ["run", "--mode", "full"], ["run", "-o"]):
        refused(b.call(*arguments), OWN)


def bad_values(b):
    for option, value in (("--mode", "fast"), ("--mode", ""), ("--top", "x"), ("--top", "-3"),
                          ("--top", "99999999999999999999"), ("--sample-size", "10Q"),
                          ("--duration", "soon"), ("--seed", "1.5"), ("--color", "blue"),
                          ("--condition", "values=some"), ("--condition", "calls=1/100"), ("--condition", "latency=1/0"),
                          ("--condition", "values=burst:9,every:3"),
                          ("--probe", "load capture valu"), ("--probe", "lod"),
                          ("--probe", "load key stack 99"), ("--probe", "load at main.c"),
                          ("--probe", "load in thread"), ("--probe", "store capture latency"),
                          ("--hotlist", "best"), ("--path-scope", "all")):
        refused(b.call("run", option, value, "--", "/bin/true"), OWN)
    nothing_left(b)


def options_of_other_commands_are_named(b):
    for option, owner in (("--color=x", "report, annotate and diff"), ("--keep", "attach"), ("--html", "report")):
        outcome = b.call("run", option, "--", "/usr/bin/touch", "started")
        refused(outcome, OWN)
        require(f"there is no option {option.split('=')[0]} here: it is one of {owner}" in outcome.err,
                f"expected {owner}", outcome)
    nothing_left(b)


def what_would_do_nothing_is_refused(b):
    works(b.run("/bin/true"), 0)
    for arguments, why in ((["check", "--limit", "syscalls:wirte<=+0", b.profile, b.profile], "no system call wirte"),
                           (["report", "--html", "--json", b.profile], "--html and --json do not go together"),
                           (["run", "--mode", "burst", "--prefill", "on", "--", "/usr/bin/touch", "started"],
                            "--prefill is for --engine translator")):
        outcome = b.call(*arguments)
        refused(outcome, OWN)
        require(why in outcome.err, f"expected {why}", outcome)
    works(b.call("check", "--limit", "syscalls:wr*<=+0", b.profile, b.profile), 0)
    b.profile.unlink()
    nothing_left(b)


def plug_ins_that_are_none(b):
    for plugin, words in (("nowhere.so", "cannot open plug-in nowhere.so"), ("/dev/null", "is not a file"),
                          ("/etc/passwd", "is not a shared object for x86-64"), ("", "cannot open plug-in"),
                          ("/bin/true", "plug-in /bin/true: ")):
        for mode in ("full", "shadow", "burst"):
            outcome = b.call("run", "--mode", mode, "--plugin", plugin, "--", "/usr/bin/touch", "started")
            refused(outcome, OWN)
            require(words in outcome.err, f"expected {words!r}", outcome)
    refused(b.call("run", "--mode", "burst", "--engine", "step", "--plugin", "x.so", "--", "/bin/true"), OWN)
    refused(b.call("attach", "--plugin", "nowhere.so", str(os.getpid())), OWN)
    nothing_left(b)


def empty_output_name(b):
    refused(b.call("run", "--mode", "full", "-o", "", "--", "/bin/true"), OWN)


def options_after_the_program_are_its_own(b):
    works(b.call("run", "--mode", "full", "-o", b.profile, "/bin/echo", "--frob", "-o", "x"), 0,
          "--frob -o x\n")
    is_profile(b.profile)


def says(outcome, *words):
    refused(outcome, OWN)
    for word in words:
        require(word in outcome.err, f"expected {word!r}", outcome)


def help_and_version(b):
    for words in (["help"], ["--help"], ["-h"]):
        require("Usage: shadowprof COMMAND" in b.call(*words).out, f"{words} prints no usage")
    for command in ("run", "attach", "report", "annotate", "check", "export", "syscalls"):
        works(b.call("help", command), 0, b.call(command, "--help").out)
    works(b.call("-V"), 0, b.call("--version").out)
    says(b.call("help", "repotr"), "did you mean report")


def slips_get_a_suggestion(b):
    says(b.call("repotr"), "no command 'repotr'", "did you mean report?")
    says(b.call("frobnicate"), "no command 'frobnicate'")
    says(b.call("--mode", "full", "/bin/true"), "without a command")
    says(b.call("report", "--fliter", "x"), "no option --fliter", "did you mean --filter?")
    says(b.call("run", "--profle", "edge", "--", "/bin/true"), "did you mean --profile?")
    says(b.call("run", "--zzzzz", "--", "/bin/true"), "no option --zzzzz")
    says(b.call("report", "a", "b", "c"), "'c' is one word too many")
    says(b.call("diff", "a", "b", "c"), "'c' is one word too many")
    says(b.call("report", "a", "b"), "two profiles are compared on a page (--html)", "shadowprof diff")
    for sort in (["--sort", "self"], ["--filter", "x"]):
        says(b.call("report", "--html", *sort, "a", "b"), "the page sorts and searches itself")
    says(b.call("report", "--html", "--source-root", "/", "a", "b"), "that of two shows no source")
    says(b.call("report", "--html", "a", "b"), "cannot read a")
    says(b.call("diff", "--html", "a", "b"), "cannot read a")
    says(b.call("diff", "--html", "--json", "a", "b"), "--html", "--json")
    says(b.call("report", "--format", "github", "x"), "no option --format", "check and export")
    says(b.call("export", "--format", "github", "x"), "is a format of shadowprof check")
    says(b.call("check", "--format", "pprof", "x", "y"), "no format 'pprof'", "sarif")
    says(b.call("report", "--color", "blue"), "no choice 'blue'", "always")
    says(b.call("report", "--color", "nevr"), "no choice 'nevr'", "did you mean never?")
    says(b.call("export", "--format", "spedscope", "x"), "no format 'spedscope'", "did you mean speedscope?")
    says(b.call("run", "--mode", "ful", "--", "/bin/true"), "no mode 'ful'", "did you mean full?")
    says(b.call("run", "--mode", "fast", "--", "/bin/true"), "there are shadow, burst, full")


def a_program_without_run(b):
    works(b.call("/bin/sh", "-c", "echo hello; exit 3"), 3, "hello\n")
    is_profile(b.dir / "shadowprof.json")
    works(b.call("sh", "-c", "exit 4"), 4)
    works(b.call("--", "sh", "-c", "exit 5"), 5)
    refused(b.call("./missing"), NOT_FOUND)
    refused(b.call("--"), OWN)
    b.file("repor", "#!/bin/sh\n")
    says(b.call("repor", env={"PATH": f"{b.dir}:/bin"}), "may be a program or a slip for report")


def the_profile_of_this_folder(b):
    says(b.call("report"), "no profile given, and there is no shadowprof.json here")
    says(b.call("annotate", "main"), "there is no shadowprof.json here")
    says(b.call("export", "--format", "folded"), "there is no shadowprof.json here")
    works(b.call("run", "--mode", "full", "-q", "--", "/bin/true"), 0)
    works(b.call("report"), 0)
    works(b.call("export", "--format", "folded"), 0)
    says(b.call("annotate", "shadowprof.json"), "no function given")
    says(b.call("annotate"), "no function given")
    says(b.call("annotate", "no-such-function"), "no function called no-such-function executed")
    with open(os.path.join(b.dir, "no-such-function"), "w", encoding="utf-8") as f:
        f.write("a function may be named like a file")
    says(b.call("annotate", "no-such-function"), "no function called no-such-function executed")
    outcome = b.call("report", "--filter", "no-such-name")
    works(outcome, 0)
    require("--filter no-such-name: no row" in outcome.err, "an unmatched filter says nothing",
            outcome)
    require(b.call("report", "--filter", "ld").err == "", "a filter that fits says something")


def attach_to_what_is_no_process(b):
    says(b.call("attach"), "no process given")
    own = str(os.getpid())
    for words in (["1,"], [",1"], ["1,,2"], ["x"], ["12x"], ["0"], ["99999999999"]):
        says(b.call("attach", *words), "is not a process id")
    says(b.call("attach", f"{own},{own}"), f"process {own} is given twice")
    says(b.call("attach", own, own), f"process {own} is given twice")
    says(b.call("attach", "1"), "process 1", "left alone")
    says(b.call("attach", "no-such-name"), "no process is called so")
    says(b.call("top", "no-such-name"), "no process is called so", "a program stands behind --")
    for rate in ("0", "-1", "x", "nan", "inf"):
        says(b.call("attach", f"--freq={rate}", own), "samples a second above 0")


def attach_to_a_name(b):
    """The one process that is called so is sampled; of several, which they are is said."""
    name = f"sleeper{os.getpid()}"
    shutil.copy("/bin/sleep", b.dir / name)
    with contextlib.ExitStack() as sleepers:
        pids = []
        for seconds in ("1000", "1001"):
            sleeper = subprocess.Popen([b.dir / name, seconds])
            sleepers.callback(sleeper.wait)
            sleepers.callback(sleeper.kill)
            while not pathlib.Path(f"/proc/{sleeper.pid}/cmdline").read_text().endswith(f"{seconds}\0"):
                time.sleep(0.01)
            pids.append(sleeper.pid)
            if len(pids) == 1:
                works(b.call("attach", "-d", "0.1", "-o", b.profile, name), 0)
                require(read_profile(b.profile)["run"]["pid"] == pids[0], "another process was sampled")
        says(b.call("attach", name), f"2 processes are called '{name}'", "1000)", "1001)", *map(str, pids))


def files_that_are_no_profiles(b):
    says(b.call("report", "/etc/passwd"), "cannot use /etc/passwd: it is not JSON at byte 1",
         "no profile of shadowprof")
    for device in ("/dev/zero", "/dev/tty", "/dev/null"):
        refused(b.call("report", device), OWN)
    os.mkfifo(b.dir / "pipe")
    says(b.call("report", "pipe"), "it is empty")
    marker = b.dir / "started"
    says(b.run("/usr/bin/touch", marker, output=b.dir / "pipe"), "no program reads from this pipe")
    require(not marker.exists(), "the program ran although nobody reads its profile")
    says(b.call("export", "--format", "folded", "-o", "pipe", "x"), "cannot read x")


def a_reader_that_stops_reading(b):
    """A pipe that is full and stays full: SIGTERM ends us, and the program has had its run."""
    os.mkfifo(b.dir / "pipe")
    reader = os.open(b.dir / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for mode in ("full", "shadow"):
        program = ["/bin/sh", "-c", "echo $$; exec /bin/ls /"]
        with subprocess.Popen([b.shadowprof, "run", "--mode", mode, "-o", "pipe", "--", *program],
                              cwd=b.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ours:
            pid = int(ours.stdout.readline())
            end = time.monotonic() + TIMEOUT_S
            while os.path.exists(f"/proc/{pid}"):  # a signal would be meant for it
                require(time.monotonic() < end, "the program does not end")
                time.sleep(0.01)
            for _ in range(TIMEOUT_S):
                ours.send_signal(signal.SIGTERM)
                try:
                    ours.wait(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    continue
            # A profile that fits into the pipe is no reason to stop.
            require(ours.returncode in (0, OWN), f"status {ours.returncode}: {ours.stderr.read()}")
    os.close(reader)


CASES = [
    no_subcommand, unknown_subcommand, unknown_options, run_without_a_program, bad_values, help_and_version,
    slips_get_a_suggestion, a_program_without_run, the_profile_of_this_folder, attach_to_what_is_no_process,
    attach_to_a_name, files_that_are_no_profiles, a_reader_that_stops_reading, options_of_other_commands_are_named,
    what_would_do_nothing_is_refused, plug_ins_that_are_none, empty_output_name,
    options_after_the_program_are_its_own,
]
