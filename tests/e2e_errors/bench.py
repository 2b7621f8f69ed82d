# SPDX-License-Identifier: MIT
"""What the cases of run.py have in common: a folder for one case, running shadowprof in it, and what
an outcome must look like.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

NOBODY = 65534
FIRST_UNUSED_USER = 2000000
OWN, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
TIMEOUT_S = 120


class Skip(Exception):
    pass


class Outcome:
    def __init__(self, argv, status, out, err):
        self.argv, self.status, self.out, self.err = argv, status, out, err

    def __str__(self):
        return (f"{' '.join(map(str, self.argv))}\n      status {self.status}\n"
                f"      stdout {self.out[:400]!r}\n      stderr {self.err[:800]!r}")


def require(condition, message, outcome=None):
    if not condition:
        raise AssertionError(f"{message}\n      {outcome}" if outcome else message)


class Bench:
    """A folder of its own for one case, and shadowprof run in it."""

    def __init__(self, shadowprof, folder):
        self.shadowprof = shadowprof
        self.dir = folder
        self.profile = folder / "p.json"

    def file(self, name, content=b"", mode=0o755):
        path = self.dir / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def open_to_all(self):
        """So that it is not the output that another user fails at."""
        self.dir.chmod(0o777)

    def shell(self, argv, **options):
        """Runs argv here. Streams that are not given are captured."""
        options.setdefault("cwd", self.dir)
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        argv = [str(a) for a in argv]
        done = subprocess.run(argv, timeout=TIMEOUT_S, check=False, **options)
        return Outcome(argv, done.returncode, (done.stdout or b"").decode(errors="replace"),
                       (done.stderr or b"").decode(errors="replace"))

    def call(self, *arguments, before=(), **options):
        return self.shell([*before, self.shadowprof, *arguments], **options)

    def shell_with_mounts(self, script):
        """Runs a script whose mounts are its own; $0 is shadowprof."""
        need_root()
        need("unshare")
        outcome = self.shell(["unshare", "-m", "sh", "-c", script, self.shadowprof])
        if "unshare" in outcome.err or "mount" in outcome.err:
            raise Skip("mounts are not permitted here")
        return outcome

    def run(self, *program, output=None, before=(), **options):
        return self.call("run", "--mode", "full", "-o", output or self.profile, "--", *program,
                         before=before, **options)


def refused(outcome, *statuses):
    lines = outcome.err.splitlines()
    require(outcome.status in statuses, f"expected status {' or '.join(map(str, statuses))}",
            outcome)
    require(len(lines) == 1 and outcome.err.endswith("\n"), "expected one line on stderr", outcome)
    require(lines[0].startswith("shadowprof: "), "expected the line to begin 'shadowprof: '",
            outcome)
    require(len(lines[0]) > len("shadowprof: ") + 8 and "exception" not in lines[0].lower(),
            "expected a sentence", outcome)
    require(not lines[0].endswith(os.strerror(0)), "expected the error that there was", outcome)
    require(outcome.out == "", "expected nothing on stdout", outcome)


def works(outcome, status, out=None):
    require(outcome.status == status, f"expected status {status}", outcome)
    if out is not None:
        require(outcome.out == out, f"expected {out!r} on stdout", outcome)


def is_profile(path):
    data = read_profile(path)
    require(data.get("schema") == "shadowprof.profile", f"{path} is not a profile")


def nothing_left(bench, *expected):
    left = sorted(p.name for p in bench.dir.iterdir() if p.name not in expected)
    require(not left, f"files left behind: {left}")


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def need(tool):
    path = shutil.which(tool)
    if not path:
        raise Skip(f"needs {tool}")
    return path


def as_nobody():
    """The words before a command that run it without privileges."""
    if os.geteuid() != 0:
        return []
    return [need("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def as_user_without_processes():
    """As as_nobody, of a user who has no process, so that a limit on processes counts ours alone."""
    user = FIRST_UNUSED_USER + os.getpid()
    return [need("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups"]
