# SPDX-License-Identifier: MIT
"""Cases that run shadowprof, one after another, each in a folder of its own."""

import argparse
import os
import subprocess
import tempfile


class Failure(Exception):
    pass


def require(condition, text):
    if not condition:
        raise Failure(text)


def run(options, *arguments):
    return subprocess.run([options.shadowprof, *arguments], check=False, timeout=120, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run_cases(cases, options):
    """Of those whose name holds options.only; the exit status."""
    failed = 0
    for case in cases:
        if options.only and options.only not in case.__name__:
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            os.chdir(directory)
            try:
                case(options)
                print("ok    " + case.__name__, flush=True)
            except (Failure, subprocess.TimeoutExpired) as problem:
                failed += 1
                print(f"FAIL  {case.__name__}: {problem}", flush=True)
            finally:
                os.chdir("/")
    return 1 if failed else 0


def run_with_programs(cases, about, programs):
    """Each of `programs` is an option for its file; `about` begins with what the cases are about."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    for name in programs:
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--only", help="cases whose name holds this text")
    return run_cases(cases, parser.parse_args())
