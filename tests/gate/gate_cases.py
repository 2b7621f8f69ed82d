# SPDX-License-Identifier: MIT
"""What the drivers here have in common: cases, one after the other."""

import pathlib
import tempfile
import traceback


def require(condition, *message):
    if not condition:
        raise AssertionError(" ".join(map(str, message)))


class Skipped(Exception):
    """The case cannot run here, for the reason that it says."""


def npm_modules(package):
    """The node_modules that holds this package: of the build (scripts/test puts it there), or of the machine."""
    for root in (".", "/usr/lib", "/usr/local/lib"):
        modules = pathlib.Path(root, "node_modules").resolve()
        if (modules / package).is_dir():
            return modules
    raise Skipped(f"{package} (a package of npm) is not installed")


def run_cases(cases, subject, only=""):
    """Those whose name holds `only`, with `subject`. Each is said to be ok, or why not; the exit status, which is 77 if
    none could run here."""
    chosen = [case for case in cases if only in case.__name__]
    failed = skipped = 0
    for case in chosen:
        name = case.__name__.replace("_", " ")
        try:
            case(subject)
            print(f"ok    {name}", flush=True)
        except Skipped as reason:
            skipped += 1
            print(f"skipped: {name}: {reason}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"FAIL  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(chosen) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 77 if skipped == len(chosen) else 0


def run_in_folder(cases, make_subject, options, prefix):
    """The same with a subject that is made in a folder of its own; the exit status is 77 if it cannot be made here."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        try:
            subject = make_subject(options, folder)
        except Skipped as reason:
            print(f"skipped: {reason}")
            return 77
        return run_cases(cases, subject, options.only)
