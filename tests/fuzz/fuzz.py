#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Random programs natively and under `shadowprof run --mode full`: every result must be equal.

Cases are numbered by their seeds, and go through one run of the runner in batches. Whatever
differs is printed as a whole: what the two runs said of the case, its disassembly, and the command
that runs it again by itself (or, when only the batch fails, the whole batch). A batch that one of the runs
did not survive is split in halves until the guilty case is found.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time


class Fuzzer:
    """The three programs and a directory for their files."""

    def __init__(self, options, directory):
        self.options = options
        self.cases = os.path.join(directory, "cases")
        self.profile = os.path.join(directory, "profile.json")

    def generate(self, seed, count):
        subprocess.run([self.options.generate, str(seed), str(count), self.cases], check=True)

    def run(self, command):
        """(lines by seed, what ended it)"""
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False,
                                  timeout=self.options.timeout)
        except subprocess.TimeoutExpired as e:
            text = e.stdout.decode(errors="replace") if e.stdout else ""
            return self.by_seed(text), "timed out"
        errors = [line for line in done.stderr.splitlines()
                  if "profile" not in line or done.returncode != 0]
        return self.by_seed(done.stdout), f"status {done.returncode} {' | '.join(errors[:20])}"

    def wrapper(self):
        if self.options.wrapper:
            return shlex.split(self.options.wrapper)
        return [self.options.shadowprof, "run", "-q", "--mode", "full", "--deterministic", "-o",
                self.profile, *self.options.option, "--"]

    @staticmethod
    def by_seed(text):
        return {line.split(" ", 1)[0]: line for line in text.splitlines() if line}

    def batch(self, seed, count):
        """Runs a batch both ways; returns the seeds that differ.

        Addresses are not randomised: neither the heap nor an engine's own
        memory may come to lie on a case's areas.
        """
        self.generate(seed, count)
        native, native_end = self.run(["setarch", "-R", self.options.runner, self.cases])
        timer = [str(self.options.timer)] if self.options.timer else []
        ours, our_end = self.run([*self.wrapper(), self.options.runner, self.cases, *timer])
        different = [s for s in range(seed, seed + count)
                     if native.get(str(s)) != ours.get(str(s))]
        survived = len(native) == count and len(ours) == count
        signals = sum(" signal=" in line for line in native.values())
        if not different and native_end.strip() == our_end.strip() and survived:
            return [], signals
        if not survived and count > 1:
            print(f"batch {seed}+{count}: native {native_end} ({len(native)} cases), "
                  f"ours {our_end} ({len(ours)} cases)", flush=True)
            half = count // 2
            first, _ = self.batch(seed, half)
            second, _ = self.batch(seed + half, count - half)
            return first + second, signals
        for s in different[:self.options.show]:
            self.show(s, native.get(str(s), native_end), ours.get(str(s), our_end), seed, count)
        if not different:
            print(f"batch {seed}+{count}: native ended with {native_end}, ours with {our_end}")
            return [seed], signals
        return different, signals

    def show(self, seed, native, ours, batch_seed, batch_count):
        print(f"\nDIFFERS: seed {seed}")
        native_fields, our_fields = native.split(" "), ours.split(" ")
        if len(native_fields) < 10 or len(our_fields) < 10:
            print(f"  native: {native}\n  ours:   {ours}")
        else:
            theirs = dict(f.split("=", 1) for f in native_fields[1:] if "=" in f)
            own = dict(f.split("=", 1) for f in our_fields[1:] if "=" in f)
            for name in [*theirs, *(n for n in own if n not in theirs)]:
                if theirs.get(name) != own.get(name):
                    print(f"  {name}: native {theirs.get(name)}, ours {own.get(name)}")
        if self.options.disassemble:
            print(subprocess.run([self.options.generate, "--list", str(seed)], capture_output=True,
                                 text=True, check=True).stdout, end="")
        common = (f"{sys.executable} {os.path.abspath(__file__)} --shadowprof "
                  f"{self.options.shadowprof} --generate {self.options.generate} "
                  f"--runner {self.options.runner}")
        common += f" --timer {self.options.timer}" if self.options.timer else ""
        if self.options.wrapper:
            common += f" --wrapper {shlex.quote(self.options.wrapper)}"
        print(f"  rerun: {common} --seed {seed} --count 1")
        print(f"  batch: {common} --seed {batch_seed} --count {batch_count}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", help="the program under test")
    parser.add_argument("--wrapper", help="a command to run the runner under instead of shadowprof")
    parser.add_argument("--timer", type=int, metavar="US", help="interrupt our run that often")
    parser.add_argument("--generate", required=True, help="the generator of cases")
    parser.add_argument("--runner", required=True, help="the program that executes them")
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--count", type=int, default=1000, help="how many cases")
    parser.add_argument("--seconds", type=float, help="go on for so long instead of --count")
    parser.add_argument("--batch", type=int, default=500, help="cases in one run of the runner")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="per run")
    parser.add_argument("--show", type=int, default=5, help="differing cases to print per batch")
    parser.add_argument("--no-disassembly", dest="disassemble", action="store_false")
    parser.add_argument("--option", action="append", default=[], metavar="OPT",
                        help="a further option of shadowprof run (repeatable)")
    options = parser.parse_args()

    failed, done, signals = [], 0, 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shadowprof-fuzz-") as directory:
        fuzzer = Fuzzer(options, directory)
        while True:
            left = options.count - done
            if options.seconds is not None:
                left = options.batch if time.monotonic() - start < options.seconds else 0
            if left <= 0:
                break
            count = min(options.batch, left)
            different, with_signal = fuzzer.batch(options.seed + done, count)
            failed += different
            signals += with_signal
            done += count
    print(f"{done} cases from seed {options.seed}, {signals} of them ended by a signal, "
          f"{len(failed)} differ")
    if failed:
        print("differing seeds: " + " ".join(map(str, failed[:100])))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
