#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bad input, end to end: what cannot be done is one clear sentence and the documented status.

usage: run.py --shadowprof PATH [--only TEXT] [--list]

Every refusal is exactly one line on stderr that begins "shadowprof: ", nothing on stdout, and the
exit status of shadowprof-run(1): 125 our own failure, 126 not executable, 127 not found. Where the
program does run, its status is ours. What needs another user or a mount is skipped, with the
reason, where we are not root. Ends with "N passed, N failed, N skipped"; status 1 on failure.
"""

import argparse
import contextlib
import gzip
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import checked, read_profile  # noqa: E402

from bench import (Bench, NOBODY, NOT_EXECUTABLE, NOT_FOUND, OWN, Skip, TIMEOUT_S, as_nobody,
                   as_user_without_processes, is_profile, need, need_root, nothing_left, refused, require,
                   works)


def elf_header(elf_class=2, machine=62, segments=b"", count=0):
    """The first bytes of an ELF file; machine 62 is x86-64, 3 is i386, 183 is aarch64."""
    ident = b"\x7fELF" + bytes([elf_class, 1, 1]) + bytes(9)
    if elf_class == 1:
        return ident + struct.pack("<HHIIIIIHHHHHH", 2, machine, 1, 0x8048054, 52, 0, 0, 52, 32, 0,
                                   0, 0, 0)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0x400000, 64, 0, 0, 64, 56, count,
                               0, 0, 0) + segments


# --- the command line ----------------------------------------------------------------------------

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
                          ("--condition", "values=some"), ("--condition", "calls=1/100"), ("--condition", "latency=1/0"), ("--condition", "values=burst:9,every:3"),
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


# --- the program -----------------------------------------------------------------------------------

def missing_programs(b):
    for name in ("./nope", "/nope/nope", "no-such-program-anywhere", "", "--version"):
        refused(b.run(name), NOT_FOUND)
    nothing_left(b)


def a_file_as_folder(b):
    b.file("plain")
    refused(b.run("./plain/program"), NOT_EXECUTABLE, NOT_FOUND)


def a_directory(b):
    refused(b.run("/"), NOT_EXECUTABLE)
    refused(b.run("."), NOT_EXECUTABLE)


def no_execute_bit(b):
    b.file("program", "#!/bin/sh\n", 0o644)
    refused(b.run("./program"), NOT_EXECUTABLE)


def not_a_program(b):
    for name, content in (("empty", b""), ("text", b"echo hello\n"), ("zeros", bytes(4096)),
                          ("magic", b"\x7fELF")):
        refused(b.run(b.file(name, content)), NOT_EXECUTABLE)


def elf_of_another_kind(b):
    for name, content in (("i386", elf_header(1, 3)), ("x32", elf_header(1, 62)),
                          ("aarch64", elf_header(2, 183)), ("cut", elf_header()[:40]),
                          ("no-segments", elf_header())):
        refused(b.run(b.file(name, content)), NOT_EXECUTABLE)


def elf_with_a_missing_loader(b):
    loader = b"/nonexistent/ld.so\0"
    interp = struct.pack("<IIQQQQQQ", 3, 4, 176, 0x4000B0, 0x4000B0, len(loader), len(loader), 1)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 4096, 4096, 4096)
    content = elf_header(segments=interp + load, count=2) + loader
    refused(b.run(b.file("program", content.ljust(4096, b"\0"))), NOT_EXECUTABLE, NOT_FOUND)


def busy_for_writing(b):
    path = b.file("program", pathlib.Path("/bin/true").read_bytes())
    with path.open("ab"):
        refused(b.run(path), NOT_EXECUTABLE)


def symlink_loop(b):
    (b.dir / "a").symlink_to("b")
    (b.dir / "b").symlink_to("a")
    refused(b.run("./a"), NOT_EXECUTABLE, NOT_FOUND)


def name_too_long(b):
    refused(b.run("./" + "x" * 5000), NOT_EXECUTABLE, NOT_FOUND)


def control_characters_in_the_name(b):
    outcome = b.run("./no\npe\x1b[31m")
    refused(outcome, NOT_FOUND)
    require("\x1b" not in outcome.err, "an escape sequence reached the terminal", outcome)


def no_permission(b):
    before = as_nobody()
    b.open_to_all()
    path = b.file("program", pathlib.Path("/bin/true").read_bytes(), 0o000 if not before else 0o700)
    refused(b.run(path, before=before), NOT_EXECUTABLE)


def executable_but_unreadable(b):
    """The kernel lets nobody trace what he may not read, so this can only be refused."""
    need_root()
    b.open_to_all()
    path = b.file("program", pathlib.Path("/bin/true").read_bytes(), 0o711)
    refused(b.run(path, before=as_nobody()), OWN, NOT_EXECUTABLE)


def noexec_mount(b):
    need_root()
    need("unshare")
    script = ("mkdir m && mount -t tmpfs -o noexec none m && cp /bin/true m/program && "
              'exec "$0" run --mode full -o p.json -- m/program')
    outcome = b.shell(["unshare", "-m", "sh", "-c", script, b.shadowprof])
    if "unshare" in outcome.err or "mount" in outcome.err:
        raise Skip("mounts are not permitted here")
    refused(outcome, NOT_EXECUTABLE)


def script_runs_its_interpreter(b):
    path = b.file("script", '#!/bin/sh\necho "$1"; exit 5\n')
    works(b.run(path, "hello"), 5, "hello\n")
    is_profile(b.profile)
    b.profile.unlink()
    works(b.run(b.file("outer", f"#!{path}\n"), "x"), 5)
    is_profile(b.profile)


def script_with_a_bad_interpreter(b):
    refused(b.run(b.file("missing", "#!/nonexistent/sh\n")), NOT_EXECUTABLE, NOT_FOUND)
    refused(b.run(b.file("folder", "#!/\n")), NOT_EXECUTABLE)
    refused(b.run(b.file("nothing", "#!\n")), NOT_EXECUTABLE)
    loop = b.dir / "loop"
    refused(b.run(b.file("loop", f"#!{loop}\n")), NOT_EXECUTABLE)


def setuid_program_under_root(b):
    need_root()
    path = b.file("id", pathlib.Path(need("id")).read_bytes())
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o4755)
    works(b.run(path, "-u"), 0)
    is_profile(b.profile)


def setuid_program_without_rights(b):
    """Refused; or run as the kernel runs a traced setuid program, without its privileges."""
    need_root()
    b.open_to_all()
    path = b.file("id", pathlib.Path(need("id")).read_bytes())
    path.chmod(0o4755)
    outcome = b.run(path, "-u", before=as_nobody())
    if outcome.status == 0:
        require(outcome.out == f"{NOBODY}\n", "a traced setuid program kept its privileges",
                outcome)
    else:
        refused(outcome, OWN, NOT_EXECUTABLE)


def status_is_the_programs(b):
    for status in (0, 1, 3, 124, 125, 126, 127, 128, 255):
        outcome = b.run("/bin/sh", "-c", f"exit {status}")
        works(outcome, status, "")
        b.profile.unlink()


def death_by_signal_is_ours_too(b):
    for signal in (9, 15, 11, 6, 13):
        outcome = b.run("/bin/sh", "-c", f"ulimit -c 0; kill -{signal} $$")
        works(outcome, -signal, "")
        is_profile(b.profile)


# --- surroundings ------------------------------------------------------------------------------------

def deleted_working_directory(b):
    gone = b.dir / "gone"
    gone.mkdir()
    script = 'cd gone && rmdir ../gone && exec "$0" run --mode full "$@"'
    works(b.shell(["/bin/sh", "-c", script, b.shadowprof, "-o", b.profile, "--", "/bin/echo", "a"]),
          0, "a\n")
    is_profile(b.profile)
    gone.mkdir()
    refused(b.shell(["/bin/sh", "-c", script, b.shadowprof, "--", "/bin/true"]), OWN)


def closed_streams(b):
    """Files of ours must not take the place of a closed stdin, stdout or stderr."""
    program = ["/bin/sh", "-c", "echo out; echo err >&2; cat; ls -l /proc/self/fd/ | wc -l >fds"]
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        native = b.shell(["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *program])
        fds = (b.dir / "fds").read_text()
        outcome = b.shell(["/bin/sh", "-c", f'exec "$@" {closed}', "sh", b.shadowprof, "run",
                           "--mode", "full", "-o", b.profile, "--", *program])
        require(outcome.status == native.status, f"expected {native.status} with {closed}", outcome)
        require(outcome.out == native.out, f"expected the same stdout with {closed}", outcome)
        require((b.dir / "fds").read_text() == fds, f"more open files with {closed}", outcome)
        is_profile(b.profile)
        b.profile.unlink()


def closed_stderr_keeps_the_status(b):
    for program, status in (("./nope", NOT_FOUND), ("/", NOT_EXECUTABLE), ("/bin/true", 0)):
        outcome = b.shell(["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", b.shadowprof, "run", "--mode",
                           "full", "-o", b.profile, "--", program])
        works(outcome, status, "")


def unwritable_stdout(b):
    works(b.run("/bin/true"), 0)
    for arguments in (["report", b.profile], ["syscalls"], ["syscalls", "--json"]):
        for target in (">/dev/full", ">&-"):
            refused(b.shell(["/bin/sh", "-c", f'exec "$@" {target}', "sh", b.shadowprof,
                             *arguments]), OWN)


def small_limits(b):
    """Few file descriptors: it works or it is one sentence."""
    def few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
    outcome = b.run("/bin/true", preexec_fn=few_files)
    if outcome.status != 0:
        refused(outcome, OWN)


def no_more_processes(b):
    need_root()
    b.open_to_all()

    def one_process():
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    refused(b.run("/bin/true", before=as_user_without_processes(), preexec_fn=one_process), OWN)


def limits_in_every_mode(b):
    """What is too low for us is one sentence, whatever the mode."""
    for which, value in ((resource.RLIMIT_AS, 200000 << 10), (resource.RLIMIT_FSIZE, 512),
                         (resource.RLIMIT_NOFILE, 5), (resource.RLIMIT_SIGPENDING, 0)):
        def limited(which=which, value=value):
            resource.setrlimit(which, (value, value))
        for mode in ("full", "shadow", "burst"):
            outcome = b.call("run", "--mode", mode, "-o", b.profile, "--", "/usr/bin/touch", "started",
                             preexec_fn=limited)
            refused(outcome, OWN)
            require("the limit is" in outcome.err and "ulimit" in outcome.err, "expected the limit's name", outcome)
            nothing_left(b)
        with subprocess.Popen(["/bin/sleep", "100"]) as sleeper:
            outcome = b.call("attach", "-d", "0.1", "-o", b.profile, sleeper.pid, preexec_fn=limited)
            sleeper.kill()
        refused(outcome, OWN)


def soft_limits_are_the_programs_alone(b):
    def limited():
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CPU, (17, resource.RLIM_INFINITY))
    if resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY:
        raise Skip("files may not be of any size here")
    for mode in ("full", "shadow", "burst"):
        outcome = b.call("run", "--mode", mode, "-o", b.profile, "--", "/bin/sh", "-c",
                         "ulimit -n; ulimit -f; ulimit -t", preexec_fn=limited)
        works(outcome, 0, "12\n16\n17\n")
        is_profile(b.profile)


def few_processes(b):
    """It works, or it is one sentence; never a crash of ours."""
    need_root()
    b.open_to_all()
    for count in range(5):
        def limited(count=count):
            resource.setrlimit(resource.RLIMIT_NPROC, (count, count))
        for mode in ("full", "shadow", "burst"):
            outcome = b.call("run", "--mode", mode, "-o", b.profile, "--", "/bin/true",
                             before=as_user_without_processes(), preexec_fn=limited)
            if outcome.status != 0:
                refused(outcome, OWN)
                require("ulimit -u" in outcome.err or "fork" in outcome.err, "expected the reason", outcome)


def our_processor_time(b):
    """The program goes on when ours is over, and the profile says so."""
    script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo $i; exit 5"

    def limited():
        resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
    outcome = b.call("run", "-q", "--mode", "full", "--profile", "edge,path,value,latency", "--condition",
                     "values=all", "-o", b.profile, "--", "/bin/sh", "-c", script, preexec_fn=limited)
    works(outcome, 5, "400000\n")
    coverage = read_profile(b.profile)["coverage"]
    require("processor time" in coverage["ended_early"][0]["why"], f"{coverage}", outcome)
    require("ulimit -t" in outcome.err and outcome.err.count("\n") == 1, "expected one line", outcome)


# --- the output --------------------------------------------------------------------------------------

def output_that_cannot_be_made(b):
    """Known before the program starts, so it must not start."""
    marker = b.dir / "started"
    (b.dir / "folder").mkdir()
    for output in ("/nonexistent/p.json", b.dir / "folder", "/proc/p.json"):
        refused(b.run("/usr/bin/touch", marker, output=output), OWN)
        require(not marker.exists(), f"the program ran although {output} cannot be written")


def output_in_a_folder_of_somebody_else(b):
    need_root()
    refused(b.run("/bin/true", before=as_nobody()), OWN)


def foreign_output_is_kept(b):
    for content in ("hello\n", "{}\n", '{"schema": "something.else"}\n', "[1, 2]\n", "\0\1"):
        b.file("p.json", content, 0o644)
        refused(b.run("/usr/bin/touch", "started"), OWN)
        require(b.profile.read_text() == content, "a foreign file was changed")
    nothing_left(b, "p.json")


def own_output_is_replaced(b):
    works(b.run("/bin/true"), 0)
    first = b.profile.read_bytes()
    works(b.run("/bin/sh", "-c", "exit 3"), 3)
    is_profile(b.profile)
    require(b.profile.read_bytes() != first, "the old profile is still there")
    require(b.profile.stat().st_mode & 0o777 == 0o600, "a profile may be read by others")
    nothing_left(b, "p.json")


def full_disk(b):
    need_root()
    need("unshare")
    script = ('mkdir m && mount -t tmpfs -o size=8k none m && '
              '"$0" run --mode full -o m/p.json -- /bin/true; status=$?; ls -A m; exit $status')
    outcome = b.shell(["unshare", "-m", "sh", "-c", script, b.shadowprof])
    if "unshare" in outcome.err or "mount" in outcome.err:
        raise Skip("mounts are not permitted here")
    refused(outcome, OWN)


def file_size_limit(b):
    """Writing past RLIMIT_FSIZE raises SIGXFSZ, which must not kill us: setrlimit(2)."""
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
    refused(b.run("/bin/true", preexec_fn=small_files), OWN)
    nothing_left(b)


def output_on_a_full_device(b):
    """Devices and pipes are written in place, so this shows only when the profile is written."""
    refused(b.run("/bin/true", output="/dev/full"), OWN)


def work_of_children_is_not_lost_in_silence(b):
    """Who profiles a shell that has others work is told so, unless -f profiles them."""
    work = f"{sys.executable} -c 'for i in range(6000000): pass'; :"
    said = "processes that it started had "
    for mode in ("full", "shadow", "burst"):
        outcome = b.call("run", "--mode", mode, "-o", b.profile, "--", "/bin/sh", "-c", work)
        works(outcome, 0, "")
        # By the clock of the program's own processes, which not every kernel permits.
        if mode == "full" or "cpu-clock" in b.profile.read_text():
            require(said in outcome.err and "-f" in outcome.err, f"a word of others ({mode})", outcome)
    outcome = b.call("run", "-f", "--mode", "full", "-o", b.profile, "--", "/bin/sh", "-c", work)
    works(outcome, 0, "")
    require(said not in outcome.err, "no word of others", outcome)


def failure_of_the_program_comes_first(b):
    """Its status stays where the profile cannot be written, and a line says the rest."""
    for mode in ("full", "shadow", "burst"):
        for end, status in (("exit 5", 5), ("kill -9 $$", -9)):
            outcome = b.call("run", "-q", "--mode", mode, "-o", "/dev/full", "--", "/bin/sh", "-c", end)
            works(outcome, status, "")
            require(outcome.err.startswith("shadowprof: cannot write /dev/full") and
                    outcome.err.count("\n") == 1, "expected one line", outcome)
    refused(b.call("run", "-q", "-o", "/dev/full", "--", "/bin/true"), OWN)


def full_disk_keeps_the_status(b):
    need_root()
    need("unshare")
    script = ('mkdir m && mount -t tmpfs -o size=8k none m && '
              '"$0" run -q --mode full -o m/p.json -- /bin/sh -c "exit 5"; status=$?; ls -A m; exit $status')
    outcome = b.shell(["unshare", "-m", "sh", "-c", script, b.shadowprof])
    if "unshare" in outcome.err or "mount" in outcome.err:
        raise Skip("mounts are not permitted here")
    works(outcome, 5, "")
    require(outcome.err.count("\n") == 1 and "cannot write" in outcome.err, "expected one line", outcome)


def profile_on_a_closed_stdout(b):
    refused(b.shell(["/bin/sh", "-c", 'exec "$@" >&-', "sh", b.shadowprof, "run", "--mode", "full", "-o", "-", "--",
                     "/usr/bin/touch", "started"]), OWN)
    nothing_left(b)


def profile_on_a_full_stdout(b):
    refused(b.shell(["/bin/sh", "-c", 'exec "$@" >/dev/full', "sh", b.shadowprof, "run", "--mode",
                     "full", "-o", "-", "--", "/bin/true"]), OWN)


def profile_on_stdout(b):
    """Behind all that the program wrote there."""
    outcome = b.run("/bin/sh", "-c", "echo first; exit 4", output="-")
    works(outcome, 4)
    first, _, profile = outcome.out.partition("\n")
    require(first == "first", "expected the program's output first", outcome)
    require(checked(json.loads(profile))["schema"] == "shadowprof.profile", "expected a profile", outcome)
    nothing_left(b)


def reader_that_went_away(b):
    """The write fails with EPIPE; SIGPIPE must not kill us without a word."""
    script = '"$0" run --mode full -o - -- /bin/true 2>err | :; cat err; exit "${PIPESTATUS[0]}"'
    outcome = b.shell([need("bash"), "-c", script, b.shadowprof])
    if outcome.out:  # the reader may live long enough to be written to: then all is well
        require(outcome.status in (0, OWN) and outcome.out.startswith("shadowprof: "),
                "expected one sentence", outcome)


def compressed_profiles(b):
    for suffix in (".gz", ".zst"):
        output = b.dir / f"p.json{suffix}"
        for _ in range(2):  # the second replaces the first
            works(b.run("/bin/true", output=output), 0)
        report = b.call("report", "--json", output)
        works(report, 0)
        require(json.loads(report.out)["methods"], "expected hot functions", report)
        content = output.read_bytes()
        for bad in (content[: len(content) // 2], content[:-1], content[:100] + bytes(100)):
            refused(b.call("report", b.file("bad" + suffix, bad, 0o644)), OWN)
    b.file("foreign.gz", gzip.compress(b"hello\n"), 0o644)
    refused(b.run("/bin/true", output=b.dir / "foreign.gz"), OWN)


def program_that_is_gone(b):
    """Deleted or replaced while it runs: its counts stay, and it gets no names of another."""
    script = b.file("script", "#!/bin/sh\ncp /bin/true ./program; ./program\n"
                    "rm program; cp /bin/echo program\n")
    works(b.call("run", "--mode", "full", "-f", "-o", b.profile, "--", script), 0)
    data = read_profile(b.profile)
    modules = [i for i, m in enumerate(data["modules"]) if m["path"].endswith("/program")]
    require(len(modules) == 1, f"expected one module of the program: {data['modules']}")
    require(modules[0] in data["tables"]["blocks"]["module"], "the program has no counts")


# --- reports -----------------------------------------------------------------------------------------

def report_of_what_is_no_profile(b):
    works(b.run("/bin/true"), 0)
    good = b.profile.read_bytes()
    refused(b.call("report"), OWN)
    refused(b.call("report", "missing.json"), OWN)
    refused(b.call("report", b.dir), OWN)
    newer = good.replace(b'"version":1', b'"version":999').replace(b'"version": 1',
                                                                   b'"version": 999')
    for content in (b"", b"hello", b"{}", b"[]", b"null", b'{"schema":"shadowprof.profile"}',
                    good[: len(good) // 2], good[:-3], newer, os.urandom(4096),
                    b"[" * 1000000, b'{"schema":"shadowprof.profile","version":1e99}'):
        refused(b.call("report", b.file("bad.json", content, 0o644)), OWN)


def pages_and_annotations_of_what_cannot_be_shown(b):
    works(b.call("run", "--mode", "full", "-o", b.profile, "--", "/bin/true"), 0)
    refused(b.call("annotate", b.profile), OWN)
    refused(b.call("annotate", "missing.json", "main"), OWN)
    refused(b.call("annotate", b.profile, "no\nsuch\x1bfunction"), OWN)
    refused(b.call("annotate", b.profile, ""), OWN)
    refused(b.call("annotate", "--view", "all", b.profile, "main"), OWN)
    refused(b.call("report", "--html", "--sort", "calls", b.profile), OWN)
    refused(b.call("report", "--sort", "luck", b.profile), OWN)
    refused(b.call("report", "--html", "-o", b.dir / "no" / "such.html", b.profile), OWN)
    works(b.call("report", "--html", "-o", b.dir / "page.html", b.profile), 0)
    require((b.dir / "page.html").stat().st_mode & 0o777 == 0o600, "others may read the page")


def report_without_permission(b):
    need_root()
    works(b.run("/bin/true"), 0)
    refused(b.call("report", b.profile, before=as_nobody()), OWN)


CASES = [
    no_subcommand, unknown_subcommand, unknown_options, run_without_a_program, bad_values,
    help_and_version, slips_get_a_suggestion, a_program_without_run, the_profile_of_this_folder,
    attach_to_what_is_no_process, attach_to_a_name, files_that_are_no_profiles, a_reader_that_stops_reading,
    options_of_other_commands_are_named, plug_ins_that_are_none, empty_output_name, options_after_the_program_are_its_own,
    missing_programs, a_file_as_folder, a_directory, no_execute_bit, not_a_program,
    elf_of_another_kind, elf_with_a_missing_loader,
    busy_for_writing, symlink_loop, name_too_long, control_characters_in_the_name, no_permission,
    executable_but_unreadable, noexec_mount, script_runs_its_interpreter,
    script_with_a_bad_interpreter, setuid_program_under_root, setuid_program_without_rights,
    status_is_the_programs, death_by_signal_is_ours_too, deleted_working_directory, closed_streams,
    closed_stderr_keeps_the_status, unwritable_stdout, small_limits, no_more_processes,
    limits_in_every_mode, soft_limits_are_the_programs_alone, few_processes, our_processor_time,
    work_of_children_is_not_lost_in_silence, failure_of_the_program_comes_first, full_disk_keeps_the_status,
    output_that_cannot_be_made, output_in_a_folder_of_somebody_else, foreign_output_is_kept,
    own_output_is_replaced, full_disk, file_size_limit, output_on_a_full_device,
    profile_on_a_closed_stdout, profile_on_a_full_stdout, profile_on_stdout,
    reader_that_went_away, compressed_profiles,
    program_that_is_gone, report_of_what_is_no_profile, report_without_permission,
    pages_and_annotations_of_what_cannot_be_shown,
]


@contextlib.contextmanager
def bench_for(shadowprof):
    """A fresh folder that everybody may enter, so that a case may act as another user."""
    with tempfile.TemporaryDirectory(prefix="shadowprof-errors-") as folder:
        os.chmod(folder, 0o755)
        (pathlib.Path(folder) / "d").mkdir(mode=0o755)
        yield Bench(shadowprof, pathlib.Path(folder) / "d")


def run_case(case, shadowprof):
    """("passed" | "failed" | "skipped", why)."""
    try:
        with bench_for(shadowprof) as bench:
            case(bench)
        return "passed", ""
    except Skip as reason:
        return "skipped", str(reason)
    except AssertionError as failure:
        return "failed", str(failure)
    except subprocess.TimeoutExpired as late:
        return "failed", f"still running after {TIMEOUT_S} s: {late.cmd}"
    except (OSError, ValueError):
        return "failed", traceback.format_exc()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    os.umask(0o022)
    # /dev/full reads as zeros without end: who swallows it goes first when memory runs out.
    pathlib.Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    cases = [case for case in CASES if options.only in case.__name__]
    if options.list:
        print("\n".join(case.__name__ for case in cases))
        return 0
    count = {"passed": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="shadowprof-bin-") as folder:
        # A copy that other users can reach, wherever the build directory is.
        os.chmod(folder, 0o755)
        binary = pathlib.Path(folder) / "shadowprof"
        shutil.copyfile(options.shadowprof.resolve(), binary)
        binary.chmod(0o755)
        for case in cases:
            outcome, why = run_case(case, binary)
            count[outcome] += 1
            print(f"{outcome} {case.__name__}{': ' if why else ''}{why}", flush=True)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
