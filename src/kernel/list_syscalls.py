#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns the system's <asm/unistd_64.h> into lines CHECK_ROW(name, number), by number.

usage: list_syscalls.py OUTPUT DEPFILE COMPILER [ARG...]

The compiler that builds the project preprocesses the header, so that a cross compiler or another
sysroot is checked against its own. DEPFILE makes a newer header rebuild the check.
"""

import re
import subprocess
import sys

DEFINE = re.compile(r"^#define __NR_(\w+) (\d+)$", re.MULTILINE)


def main():
    output, depfile, compiler = sys.argv[1], sys.argv[2], sys.argv[3:]
    command = compiler + ["-E", "-dM", "-x", "c", "-include", "asm/unistd_64.h",
                          "-MD", "-MF", depfile, "-MT", output, "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"list_syscalls.py: cannot read <asm/unistd_64.h>: {done.stderr.strip()}")
    calls = sorted((int(number), name) for name, number in DEFINE.findall(done.stdout))
    if len(calls) < 300:
        sys.exit(f"list_syscalls.py: <asm/unistd_64.h> has only {len(calls)} calls")
    with open(output, "w", encoding="ascii") as out:
        for number, name in calls:
            out.write(f"CHECK_ROW({name}, {number})\n")


if __name__ == "__main__":
    main()
