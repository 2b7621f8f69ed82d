#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Random programs: every value, address register and load that is recorded, against single steps.

Cases that end by a signal are left out: a step into a handler is no instruction.
"""

import argparse
import os
import subprocess
import sys
import tempfile

# FUZZ_NEAR_CODE of case_format.h; the runner's own code is below.
NEAR_CODE = 0x20000000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", required=True, help="capture_check of tests/inject")
    parser.add_argument("--generate", required=True, help="the generator of cases")
    parser.add_argument("--runner", required=True, help="the program that executes them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    options = parser.parse_args()
    checked, failed = 0, []
    with tempfile.TemporaryDirectory(prefix="shadowprof-captures-") as directory:
        path = os.path.join(directory, "case")
        for seed in range(options.seed, options.seed + options.count):
            subprocess.run([options.generate, str(seed), "1", path], check=True)
            command = [os.path.abspath(options.runner), path, "bare"]
            native = subprocess.run(command, capture_output=True, text=True, check=True)
            if " signal=" in native.stdout:
                continue
            done = subprocess.run([options.check, hex(NEAR_CODE), *command], capture_output=True, text=True,
                                  check=False, timeout=120)
            checked += 1
            if done.returncode != 0:
                failed.append(seed)
                print(f"seed {seed}: status {done.returncode}\n{done.stdout}{done.stderr}")
                print(f"  rerun: {sys.executable} {os.path.abspath(__file__)} --check {options.check} "
                      f"--generate {options.generate} --runner {options.runner} --seed {seed} "
                      "--count 1", flush=True)
    print(f"{checked} cases checked, {len(failed)} differ: {failed}")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
