# SPDX-License-Identifier: MIT
"""Cases of run.py about what is written, and what is read again."""

import gzip
import json
import os
import resource
import sys

from bench import (OWN, as_nobody, is_profile, need, need_root, nothing_left, refused, require, works)
from profile_file import checked, read_profile  # bench.py says where it is


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
    script = ('mkdir m && mount -t tmpfs -o size=8k none m && '
              '"$0" run --mode full -o m/p.json -- /bin/true; status=$?; ls -A m; exit $status')
    outcome = b.shell_with_mounts(script)
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
    work = f"{sys.executable} -c 'for i in range(30000000): pass'; :"
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
    script = ('mkdir m && mount -t tmpfs -o size=8k none m && '
              '"$0" run -q --mode full -o m/p.json -- /bin/sh -c "exit 5"; status=$?; ls -A m; exit $status')
    outcome = b.shell_with_mounts(script)
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
    work_of_children_is_not_lost_in_silence, failure_of_the_program_comes_first, full_disk_keeps_the_status,
    output_that_cannot_be_made, output_in_a_folder_of_somebody_else, foreign_output_is_kept, own_output_is_replaced,
    full_disk, file_size_limit, output_on_a_full_device, profile_on_a_closed_stdout, profile_on_a_full_stdout,
    profile_on_stdout, reader_that_went_away, compressed_profiles, program_that_is_gone,
    report_of_what_is_no_profile, report_without_permission, pages_and_annotations_of_what_cannot_be_shown,
]
