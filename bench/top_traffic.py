#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How many bytes a second `shadowprof top` sends to a terminal.

usage: bench/top_traffic.py SHADOWPROF [--seconds S] [--size COLUMNSxROWS ...] [-- PROGRAM ARG...]

Runs top below a terminal of each size and counts what it writes: the first seconds, and what follows in S
seconds. Unless another program is given it is a loop of lua. The figures in shadowprof-top(1) are this
script's.
"""

import argparse
import fcntl
import os
import pty
import select
import struct
import sys
import tempfile
import termios
import time

LOOP = "local t = {} for i = 1, 1e9 do t[i % 100] = (t[i % 100] or 0) + i % 7 end"
FIRST_S = 4.0


def read_for(terminal, duration_s):
    """Bytes that came in that time, or until the program had left the terminal."""
    count, until = 0, time.monotonic() + duration_s
    while (left_s := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left_s)[0]:
            try:
                count += len(os.read(terminal, 65536))
            except OSError:
                break
    return count


def traffic(command, columns, rows, duration_s):
    """(bytes of the first seconds, bytes a second after them)"""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execvp(command[0], command)
    first = read_for(terminal, FIRST_S)
    rest = read_for(terminal, duration_s)
    os.write(terminal, b"q")
    read_for(terminal, 1.0)
    os.close(terminal)
    os.waitpid(pid, 0)
    return first, rest / duration_s


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof", type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--size", action="append", default=[])
    words = sys.argv[1:]
    program = words[words.index("--") + 1:] if "--" in words else ["lua5.4", "-e", LOOP]
    options = parser.parse_args(words[:words.index("--")] if "--" in words else words)
    print("| size | first 4 s, bytes | then, bytes a second |\n|---|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="top-traffic-") as folder:
        os.chdir(folder)
        for size in options.size or ["80x24", "200x60"]:
            columns, rows = map(int, size.split("x"))
            first, each = traffic([options.shadowprof, "top", "--", *program], columns, rows, options.seconds)
            print(f"| {size} | {first} | {each:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
