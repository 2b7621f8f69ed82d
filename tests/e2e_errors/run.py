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
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

import command_lines
import outputs
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
    script = ("mkdir m && mount -t tmpfs -o noexec none m && cp /bin/true m/program && "
              'exec "$0" run --mode full -o p.json -- m/program')
    outcome = b.shell_with_mounts(script)
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


def memory_that_cannot_be_read_any_more(b):
    """It is not dumpable (PR_SET_DUMPABLE is 4), so only root reads it. It must not be executed in steps for ever."""
    need_root()
    b.open_to_all()
    program = "import ctypes; ctypes.CDLL(None).prctl(4, 0); import json, re; print(len(json.dumps([1])))"
    outcome = b.run(need("/usr/bin/python3"), "-I", "-S", "-c", program, before=as_nobody())
    works(outcome, 0, "3\n")
    require("its memory cannot be read any more" in outcome.err, "expected that it left", outcome)
    steps = read_profile(b.profile)["overhead"]["stops"]["native_step"]
    require(steps < 100, f"{steps} steps", outcome)


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


CASES = [
    *command_lines.CASES,
    missing_programs, a_file_as_folder, a_directory, no_execute_bit, not_a_program, elf_of_another_kind,
    elf_with_a_missing_loader, busy_for_writing, symlink_loop, name_too_long, control_characters_in_the_name,
    no_permission, executable_but_unreadable, noexec_mount, script_runs_its_interpreter,
    script_with_a_bad_interpreter, setuid_program_under_root, setuid_program_without_rights,
    memory_that_cannot_be_read_any_more, status_is_the_programs,
    death_by_signal_is_ours_too, deleted_working_directory, closed_streams, closed_stderr_keeps_the_status,
    unwritable_stdout, small_limits, no_more_processes, limits_in_every_mode, soft_limits_are_the_programs_alone,
    few_processes, our_processor_time,
    *outputs.CASES,
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
