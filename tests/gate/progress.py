#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What takes longer than two seconds says so on a terminal, in one line that is gone at the end, and nowhere else.

usage: progress.py --shadowprof PATH

Most programs that are profiled here wait, so nothing depends on how fast the machine is. Status 1 on failure.
"""

import argparse
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile

from gate_cases import require

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

PROGRAM = ("sh", "-c", "sleep 4; exit 5")
# Without a stop: nobody hears of it but by its counters.
BUSY = ("sh", "-c", "(sleep 5; kill $$) & while :; do :; done")
COUNT = re.compile(rb"translator: ([\d.]+ \w+) instructions, [\d.]+ ?\w*/s")
WORDS = {b"thousand": 1e3, b"million": 1e6, b"billion": 1e9}
BEGUN = re.compile(rb"shadowprof: \d+ s, ")
LINE = re.compile(rb"\rshadowprof: \d+ s, [^\r\n]+\x1b\[K")


def on_terminal(command, stdout, folder):
    """What a command writes to a terminal that is its standard error; its standard output goes there, too, if
    `stdout` is None."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stderr=theirs,
                             stdout=theirs if stdout is None else stdout)
    os.close(theirs)
    text = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # EIO: nobody has it open any more
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    return child.wait(timeout=60), text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    shadowprof = os.path.abspath(parser.parse_args().shadowprof)
    with tempfile.TemporaryDirectory(prefix="shadowprof-progress-") as folder:
        for mode, words in (("full", b"translator"), ("shadow", b"samples"), ("burst", b"bursts")):
            command = [shadowprof, "run", "--mode", mode, "-o", "p.json", "--", *PROGRAM]
            status, text = on_terminal(command, subprocess.DEVNULL, folder)
            require(status == 5, f"{mode}: status {status}")
            lines = LINE.findall(text)
            require(any(words in line for line in lines), f"{mode}: {text}")
            # Each is written over the one before it; the last thing that happens to the line is that it is erased.
            rest = LINE.sub(b"", text)
            require(rest.startswith(b"\r\x1b[K") and rest.count(b"\r\n") >= 1 and not BEGUN.search(rest),
                    f"{mode}: {rest}")
            print(f"ok    {mode} mode: {len(lines)} lines")
        for options in ((), ("--exact-inclusive",)):
            command = [shadowprof, "run", "--mode", "full", *options, "-o", "p.json", "--", *BUSY]
            status, text = on_terminal(command, subprocess.DEVNULL, folder)
            require(status == -signal.SIGTERM, f"{options}: status {status}")
            counts = [float(number) * WORDS[word] for number, word in
                      (count.split() for count in COUNT.findall(text))]
            profiled = read_profile(os.path.join(folder, "p.json"))["coverage"]["instructions_profiled"]
            require(len(set(counts)) >= 2 and counts == sorted(counts), f"{options}: {counts}")
            require(0 < counts[-1] <= 1.01 * profiled, f"{options}: {counts[-1]} of {profiled}")
            print(f"ok    full mode {' '.join(options)}: {len(counts)} counts, the last one "
                  f"{counts[-1] / profiled:.0%} of all")
        for name, extra, stdout in (("a program on the same terminal", [], None), ("-q", ["-q"], subprocess.DEVNULL)):
            command = [shadowprof, "run", "--mode", "full", *extra, "-o", "p.json", "--", *PROGRAM]
            _, text = on_terminal(command, stdout, folder)
            require(not LINE.search(text) and b"\x1b" not in text, f"{name}: {text}")
            print(f"ok    none with {name}")
        piped = subprocess.run([shadowprof, "run", "--mode", "full", "-o", "p.json", "--", *PROGRAM], cwd=folder,
                               check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        require(b"\r" not in piped.stderr and b"\x1b" not in piped.stderr, piped.stderr)
        print("ok    none in a pipe")
    return 0


if __name__ == "__main__":
    sys.exit(main())
