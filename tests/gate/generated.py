#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Code that a program makes while it runs has the names that it writes to its perf map.

In full and in shadow mode, and where the program sees another /tmp and has another pid than we.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

NAME = "generated::count_down"


def names(profile):
    return {f["name"]: f["self_instructions"] for f in read_profile(profile)["functions"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--program", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder) / "profile.json"

        def run(mode, times, *before):
            done = subprocess.run([args.shadowprof, "run", "-q", "-o", profile, *mode, "--", *before, args.program,
                                   times], capture_output=True, text=True)
            if done.returncode != 0:
                return done.stderr
            path = pathlib.Path(done.stdout.strip())
            if not before:
                path.unlink()
            found = names(profile)
            assert found.get(NAME, 0) > 1_000_000, (mode, before, found)
            return None

        assert run(["--mode", "full"], "5") is None
        assert run(["--max-overhead", "50%"], "3000") is None

        probe = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", "mount -t tmpfs none /tmp"]
        if os.geteuid() != 0 or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            print("not tried: a program in namespaces of its own (that needs the right to make some)")
            return
        # The program alone is in them: shadowprof attaches from outside.
        program = pathlib.Path(args.program).resolve()
        # It may itself be below /tmp, so it is copied.
        script = (f"exec 3<{program}; mount -t tmpfs none /tmp && cat <&3 >/tmp/{program.name} && "
                  f"chmod +x /tmp/{program.name} && exec 3<&- /tmp/{program.name} 100000")
        namespace = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script]
        inside = subprocess.Popen(namespace, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # Forked by unshare.
            children = pathlib.Path(f"/proc/{inside.pid}/task/{inside.pid}/children")
            pid = ""
            while not pid or pathlib.Path(f"/proc/{pid}/comm").read_text().strip() != program.name:
                pid = children.read_text().strip()
                assert inside.poll() is None, "the program in the namespace has ended"
            done = subprocess.run([args.shadowprof, "attach", "-q", "-d", "2", "--max-overhead", "50%", "-o", profile,
                                   pid], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            found = names(profile)
            assert found.get(NAME, 0) > 100_000, found
        finally:
            subprocess.run(["kill", "-KILL", pid], check=False)
            inside.wait()
    print("generated code has its names")


if __name__ == "__main__":
    sys.exit(main())
