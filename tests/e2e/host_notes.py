#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What is measured of the host is kept in the user's cache folder, and nowhere else.

usage: host_notes.py --shadowprof SHADOWPROF
"""

import argparse
import os
import stat
import subprocess
import sys
import tempfile

# Each is measured when it is first needed: a short run may end before that.
NAMES = {"busy-core", "exceptions", "latency", "names"}
LONG = ("sh", "-c", "sleep 3.1; exit 3")  # long enough for what is measured behind it


def run(shadowprof, cache, directory, command=("sh", "-c", "exit 3")):
    profile = os.path.join(directory, "profile.json")
    environment = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "HOME")}
    if cache:
        environment["XDG_CACHE_HOME"] = cache
    done = subprocess.run([shadowprof, "run", "-q", "-o", profile, "--", *command], env=environment, timeout=60,
                          cwd=directory, capture_output=True, text=True)
    if done.returncode != 3 or done.stderr:
        return f"exit status {done.returncode}, {done.stderr!r}"
    if not os.path.exists(profile):
        return "no profile"
    return ""


def wrong_folder(cache):
    folder = os.path.join(cache, "shadowprof")
    if stat.S_IMODE(os.stat(folder).st_mode) != 0o700:
        return "others can look into the folder"
    names = set(os.listdir(folder))
    if "busy-core" not in names or names - NAMES:
        return f"it has {sorted(names)}"
    for name in names:
        if stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) & 0o077:
            return f"others can read {name}"
    return ""


def wrong_behind_long(shadowprof, cache, directory):
    """Its status is the program's, and the note has one number."""
    wrong = run(shadowprof, cache, directory, LONG)
    note = os.path.join(cache, "shadowprof", "cache-neighbour")
    if wrong:
        return wrong
    if not os.path.exists(note):
        return "nothing is kept of what a neighbour costs"
    with open(note, encoding="ascii") as file:
        numbers = [line for line in file.read().splitlines() if line.lstrip("-").replace(".", "", 1)[:1].isdigit()]
    os.unlink(note)
    return "" if len(numbers) == 1 else f"it has {numbers}"


def measured(shadowprof, cache, directory, others=""):
    """A note of this host is there. On a busy one a run may have no second core to measure with, and the next
    one tries again; `others` is what a note of another host has."""
    for _ in range(40):
        wrong = run(shadowprof, cache, directory) or wrong_folder(cache)
        if not wrong and others:
            with open(os.path.join(cache, "shadowprof", "busy-core"), encoding="ascii") as file:
                wrong = "another host's note is believed" if others in file.read() else ""
        if not wrong:
            break
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    options = parser.parse_args()
    options.shadowprof = os.path.abspath(options.shadowprof)
    failed = 0

    def check(what, wrong):
        nonlocal failed
        failed += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '}  {what}" + (f": {wrong}" if wrong else ""))

    with tempfile.TemporaryDirectory(prefix="shadowprof-notes-") as directory:
        cache = os.path.join(directory, "cache")
        check("the folder is made", measured(options.shadowprof, cache, directory))
        check("it is used again", run(options.shadowprof, cache, directory) or wrong_folder(cache))
        notes = os.path.join(cache, "shadowprof", "busy-core")
        with open(notes, encoding="ascii") as file:
            text = file.read()
        with open(notes, "w", encoding="ascii") as file:
            file.write(text.replace("boot ", "boot of-another-", 1))
        check("what was measured before the host was started is measured again",
              measured(options.shadowprof, cache, directory, "boot of-another-"))
        check("a neighbour's cost is measured behind a long run, which ends like its program",
              wrong_behind_long(options.shadowprof, cache, directory))
        os.chmod(cache, 0o777)
        os.rename(os.path.join(cache, "shadowprof"), os.path.join(directory, "away"))
        check("a folder that others may write to is left alone",
              run(options.shadowprof, cache, directory) or (os.listdir(cache) and f"it has {os.listdir(cache)}"))
        check("without a folder it works", run(options.shadowprof, None, directory))
        check("a folder that cannot be made does not matter", run(options.shadowprof, "/proc/none", directory))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
