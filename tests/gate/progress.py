#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What takes longer than two seconds says so on a terminal, in one line that is gone at the end, and nowhere else.

usage: progress.py --shadowprof PATH

The program that is profiled waits, so nothing here depends on how fast the machine is. Status 1 on failure.
"""

import argparse
import os
import pty
import re
import select
import subprocess
import sys
import tempfile

from gate_cases import require

PROGRAM = ("sh", "-c", "sleep 4; exit 5")
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
