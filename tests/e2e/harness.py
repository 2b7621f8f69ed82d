# SPDX-License-Identifier: MIT
"""Runs one command natively and under shadowprof and says how the two differ.

Both runs get an empty directory of the same name, the same small environment, no core dumps and a
process group of their own (setsid), killed when the time is up. What counts is what a user would notice:
standard output and error, the exit status or the signal that ended the command, and the files it
left. shadowprof's own lines on standard error begin with "shadowprof: " and are taken out.
"""

import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import errors_of  # noqa: E402

OWN_LINE = b"shadowprof: "


@dataclass
class Outcome:
    """What one run of a command showed to the world."""

    status: int  # exit status, or minus the signal that ended it
    stdout: bytes
    stderr: bytes
    files: dict  # relative path -> (kind, permission bits, content)
    seconds: float
    timed_out: bool = False

    def describe_status(self):
        if self.timed_out:
            return "timed out"
        if self.status < 0:
            return "killed by " + signal.Signals(-self.status).name
        return f"exit status {self.status}"


@dataclass
class Case:
    """A command to compare, and how to make its runs comparable."""

    name: str
    command: list
    stdin: bytes = b""
    shadowprof_options: list = field(default_factory=list)
    prepare: object = None  # called with the empty directory before each run
    normalise: object = None  # called with each output's bytes
    compare_files: bool = True
    environment: dict = field(default_factory=dict)
    # A shell script that says itself what is profiled: `$UNDER program` is `program` natively and
    # `shadowprof run ... -- program` in our run; the rest of the script stays native both times.
    wraps_itself: bool = False


def cache_of(home):
    """Beside it: what shadowprof keeps of the host is no file of the command's."""
    return home + ".cache"


def base_environment(home, extra):
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": home, "LANG": "C.UTF-8",
                   "TZ": "UTC", "TMPDIR": home, "XDG_CACHE_HOME": cache_of(home)}
    environment.update(extra)
    return environment


def snapshot_files(root):
    files = {}
    for folder, subfolders, names in os.walk(root):
        for name in names + subfolders:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if os.path.islink(path):
                files[relative] = ("link", 0, os.readlink(path).encode())
            elif os.path.isdir(path):
                files[relative] = ("directory", os.stat(path).st_mode & 0o7777, b"")
            elif os.path.isfile(path):
                with open(path, "rb") as f:
                    files[relative] = ("file", os.stat(path).st_mode & 0o7777, f.read())
            else:
                files[relative] = ("special", 0, b"")
    return files


def limit_child():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def kill_process_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_once(command, case, directory, timeout, keeps_cache=False):
    """Runs `command` in `directory`, which is emptied before and left as the command leaves it."""
    shutil.rmtree(directory, ignore_errors=True)
    if not keeps_cache:
        shutil.rmtree(cache_of(directory), ignore_errors=True)
    os.mkdir(directory, 0o700)
    if case.prepare:
        case.prepare(directory)
    start = time.monotonic()
    # Files instead of pipes: a daemon that keeps them open must not make us wait for it.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, \
            tempfile.TemporaryFile() as source:
        source.write(case.stdin)
        source.seek(0)
        process = subprocess.Popen(command, stdin=source, stdout=out, stderr=err, cwd=directory,
                                   env=base_environment(directory, case.environment),
                                   start_new_session=True,  # setsid(2)
                                   preexec_fn=limit_child)
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            # shadowprof may be waited for politely first: it reports where the program stands.
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                pass
            kill_process_group(process)
            process.wait()
        finally:
            kill_process_group(process)  # what it left behind in its process group
        seconds = time.monotonic() - start
        out.seek(0)
        err.seek(0)
        return Outcome(process.returncode, out.read(), err.read(), snapshot_files(directory),
                       seconds, timed_out)


def without_own_lines(text):
    return b"".join(line for line in text.splitlines(keepends=True)
                    if not line.startswith(OWN_LINE))


def own_lines(text):
    return [line.decode(errors="replace").rstrip()
            for line in text.splitlines() if line.startswith(OWN_LINE)]


def first_difference(name, native, ours):
    native_lines, our_lines = native.splitlines(), ours.splitlines()
    for number, (a, b) in enumerate(zip(native_lines, our_lines), 1):
        if a != b:
            return (f"{name} line {number}: native {a[:160].decode(errors='replace')!r}, "
                    f"ours {b[:160].decode(errors='replace')!r}")
    if len(native_lines) != len(our_lines):
        longer, which = ((native_lines, "only native") if len(native_lines) > len(our_lines)
                         else (our_lines, "only ours"))
        extra = longer[min(len(native_lines), len(our_lines))]
        return (f"{name}: native has {len(native_lines)} lines, ours {len(our_lines)}; "
                f"{which}: {extra[:160].decode(errors='replace')!r}")
    return f"{name} differs in line endings or trailing bytes"


def compare(native, ours, case):
    """All differences between two outcomes, as sentences."""
    differences = []
    if native.status != ours.status or native.timed_out != ours.timed_out:
        differences.append(f"native {native.describe_status()}, ours {ours.describe_status()}")
    clean = case.normalise or (lambda data: data)
    for name, a, b in (("stdout", native.stdout, ours.stdout),
                       ("stderr", native.stderr, without_own_lines(ours.stderr))):
        if clean(a) != clean(b):
            differences.append(first_difference(name, clean(a), clean(b)))
    if case.compare_files:
        for path in sorted(set(native.files) | set(ours.files)):
            if path not in ours.files:
                differences.append(f"file {path} is missing")
            elif path not in native.files:
                differences.append(f"file {path} is only ours")
            elif native.files[path] != ours.files[path]:
                differences.append(f"file {path} differs")
    return differences


REQUIRED_KEYS = ("schema", "version", "tool", "run", "coverage", "overhead", "syscalls", "modules",
                 "functions", "hotlists", "tables", "confidence")


def instructions_in_tables(profile):
    """What the block table adds up to, the rest of interrupted blocks subtracted."""
    blocks = profile["tables"]["blocks"]
    interruptions = profile["tables"]["interruptions"]
    total = sum(map(int.__mul__, blocks["count"], blocks["insns"]))
    for block, executed, count in zip(interruptions["block"], interruptions["executed"],
                                      interruptions["count"]):
        total -= count * (blocks["insns"][block] - executed)
    return total


def check_profile(path):
    """Whether a full-mode profile is whole. Returns (profile or None, complaints)."""
    try:
        with open(path, encoding="utf-8") as f:
            profile = json.load(f)
    except OSError as e:
        return None, [f"no profile was written ({e.strerror})"]
    except ValueError as e:
        return None, [f"the profile is not JSON: {e}"]
    complaints = [f"the profile lacks {key}" for key in REQUIRED_KEYS if key not in profile]
    complaints += errors_of(profile)
    coverage = profile.get("coverage", {})
    total, profiled = coverage.get("instructions_total"), coverage.get("instructions_profiled")
    dropped = sum(coverage.get("dropped", {}).values())
    if not isinstance(profiled, int) or profiled < 0:
        complaints.append(f"coverage.instructions_profiled is {profiled!r}")
        return profile, complaints
    if "attributed" in coverage and coverage["attributed"] + dropped != profiled:
        complaints.append(f"attributed {coverage['attributed']} + dropped {dropped} is not "
                          f"profiled {profiled}")
    if not complaints and instructions_in_tables(profile) != coverage["attributed"]:
        complaints.append(f"the block table adds up to {instructions_in_tables(profile)} "
                          f"instructions, attributed are {coverage['attributed']}")
    if bool(coverage.get("estimated")) != bool(coverage.get("ended_early")):
        complaints.append(f"estimated is {coverage.get('estimated')} where a full-mode profile has "
                          f"ended_early: {coverage.get('ended_early')}")
    if total is not None and profiled > total:
        complaints.append(f"profiled {profiled} of only {total} instructions")
    return profile, complaints


class Comparison:
    """A temporary directory and a shadowprof; runs cases one after the other."""

    def __init__(self, shadowprof, mode="full", options=(), timeout=60, keep=False, again=False):
        self.shadowprof = os.path.abspath(shadowprof)
        self.mode = mode
        self.options = list(options)
        self.timeout = timeout
        self.keep = keep
        self.again = again  # what is compared is the second run, which knows what the first has kept
        self.root = tempfile.mkdtemp(prefix="shadowprof-test-")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if not self.keep:
            shutil.rmtree(self.root, ignore_errors=True)

    def profiled_command(self, case, profile_path):
        return [*self.wrapper(case, profile_path), *case.command]

    def wrapper(self, case, profile_path):
        return [self.shadowprof, "run", "--mode", self.mode, "-o", profile_path, *self.options,
                *case.shadowprof_options, "--"]

    def run(self, case):
        """(native outcome, our outcome, profile or None, list of differences)"""
        directory = os.path.join(self.root, "cwd")
        profile_path = os.path.join(self.root, "profile.json")
        if os.path.exists(profile_path):
            os.unlink(profile_path)
        case.environment["UNDER"] = ""
        native = run_once(case.command, case, directory, self.timeout)
        command = self.profiled_command(case, profile_path)
        if case.wraps_itself:
            case.environment["UNDER"] = shlex.join(self.wrapper(case, profile_path))
            command = case.command
        ours = run_once(command, case, directory, self.timeout)
        if self.again and not ours.timed_out:
            ours = run_once(command, case, directory, self.timeout, keeps_cache=True)
        differences = compare(native, ours, case)
        profile, complaints = None, []
        if not ours.timed_out and self.mode == "full":
            try:
                profile, complaints = check_profile(profile_path)
            except (KeyError, TypeError, AttributeError, IndexError) as e:
                complaints = [f"the profile is not as documented: {type(e).__name__} {e}"]
        if differences or complaints:
            complaints += own_lines(ours.stderr)[-2:]
        return native, ours, profile, differences + complaints

    def rerun_command(self, case):
        if case.wraps_itself:
            under = shlex.join(self.wrapper(case, "/tmp/profile.json"))
            return f"UNDER={shlex.quote(under)} {shlex.join(case.command)}"
        return shlex.join(self.profiled_command(case, "/tmp/profile.json"))
