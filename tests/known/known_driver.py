# SPDX-License-Identifier: MIT
"""What the drivers of this folder share: a known program's run under shadowprof, and expectations."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402  pylint: disable=wrong-import-position


LASTS_S = 2  # long enough for samples


class Driver:
    def __init__(self, options, folder):
        self.shadowprof = options.shadowprof
        self.programs = options.folder
        self.path = os.path.join(folder, "profile.json")
        self.failed = []

    def command(self, program, sizes):
        return [os.path.join(self.programs, "known_" + program), *sizes]

    def run(self, program, sizes, *options):
        """The profile, and what the program says of itself."""
        done = subprocess.run(
            [self.shadowprof, "run", "-q", *options, "-o", self.path, "--", *self.command(program, sizes)],
            check=True, stdout=subprocess.PIPE, text=True, timeout=300)
        return read_profile(self.path), json.loads(done.stdout)

    def lasting(self, program, sizes):
        """The same sizes, but more rounds, which are the last of them, on a host that is quick with a tenth of these."""
        *others, rounds = sizes
        start = time.monotonic()
        subprocess.run(self.command(program, [*others, str(int(rounds) // 10)]), check=True, stdout=subprocess.DEVNULL)
        took = 10 * (time.monotonic() - start)
        return [*others, str(int(int(rounds) * max(1, LASTS_S / took)))]

    def expect(self, what, condition, found=""):
        print("ok   " if condition else "wrong", what, "" if condition else found)
        if not condition:
            self.failed.append(what)


ONLY_AND_MODES = {"--only": {"default": "", "help": "programs, by commas"}, "--modes": {"default": "full,shadow,burst"}}


def drive(doc, check_all, arguments=None, driver=Driver):
    """A driver's exit status: check_all(driver, options) with `arguments` of its own."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    for name, settings in {"--shadowprof": {"required": True}, "--folder": {"required": True}, **(arguments or {})}.items():
        parser.add_argument(name, **settings)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-known-") as folder:
        known = driver(options, folder)
        check_all(known, options)
    if known.failed:
        print(f"failed: {'; '.join(known.failed)}")
    return 1 if known.failed else 0
