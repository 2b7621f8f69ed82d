#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Are counts the same whatever surrounds the program?

usage: bench/same_counts.py SHADOWPROF [--runs N] [--only NAME,...] [--users]
                            [--threads PROGRAM --clocks PROGRAM --timers PROGRAM]

Each program is profiled N times with --deterministic, each time in the next of 16 surroundings: two environments,
two working directories, one core or all, a machine that is busy or not; with --users, for which one has to be root,
every second run is another user's (SHADOWPROF has to be where that one may execute it). Every table of each profile is compared with those of the first,
and `check` is asked with the limit at 0 (--limit 'instructions<=+0' and each function's). Printed is how many were
another, and how many alarms there were. --threads, --clocks and --timers are tests/gate's programs of 64 threads, of
loops over clocks, and of timers, from the build folder.
"""

import argparse
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import programs

NOBODY = 65534
SMALL = {"PATH": "/usr/bin:/bin", "HOME": "/", "FIRST": "1"}
LARGE = {**SMALL, "SECOND": "2" * 3000, "THIRD": "3"}
LIMITS = ["--limit", "instructions<=+0", "--limit", "function:*:instructions<=+0"]


def commands(options):
    """Name, options of shadowprof, command. Where the directory is asked for, it stays the same."""
    sql = programs.SQL.replace("COUNT", "2000")
    yield "gzip", [], ["gzip", "-c", "input"]
    yield "sqlite3", [], ["sqlite3", ":memory:", sql]
    yield "python3", [], ["/usr/bin/python3", "-I", "-B", "-c", programs.PYTHON.replace("COUNT", "2000").replace("200000", "2000")]
    yield "perl", [], ["perl", "-e", programs.PERL.replace("COUNT", "20000")]
    yield "lua", [], ["lua5.4", "-e", "local t = {} for i = 1, 5000 do t['k' .. i] = i end for k in pairs(t) do io.write(k) end"]
    yield "cc1plus -f", ["-f"], ["g++", "-O1", "-c", "-o", "/dev/null", "source.cc"]
    yield "xz -T2", [], ["xz", "-T2", "-1", "--block-size=64KiB", "-c", "input"]
    yield "pigz -p4", [], ["pigz", "-p4", "-c", "input"]
    yield "pipeline -f", ["-f"], ["sh", "-c", "gzip -c input | gzip -dc | sort | tail -n 3; (echo b; echo a) | sort"]
    if options.threads:
        yield "64 threads", [], [os.path.abspath(options.threads), "64"]
    if options.clocks:
        yield "clocks", [], [os.path.abspath(options.clocks)]
    if options.timers:
        yield "timers -f", ["-f"], [os.path.abspath(options.timers)]
    yield "java -Xint", [], ["java", "-Xint", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:-UseContainerSupport",
                             "-cp", ".", "Sum"]


JAVA = """
public class Sum {
  public static void main(String[] arguments) {
    java.util.HashMap<String, Integer> counts = new java.util.HashMap<>();
    for (int i = 0; i < 2000; i++) counts.merge("k" + i % 97, 1, Integer::sum);
    System.out.println(counts);
  }
}
"""


class Surroundings:
    def __init__(self, folder):
        self.folder = folder
        self.other = folder / "another_directory_with_a_long_name" / "below"
        self.other.mkdir(parents=True)
        for place in (self.folder, self.other):
            programs.make_text(place / "input", 300_000)
            (place / "source.cc").write_text(
                "#include <string>\n#include <vector>\nint f(const std::vector<std::string>& v) { return v.size(); }\n",
                encoding="ascii")
            (place / "Sum.java").write_text(JAVA, encoding="ascii")
            if shutil.which("javac"):
                subprocess.run(["javac", "Sum.java"], cwd=place, check=False)
            os.chmod(place, 0o777)
        self.profiles = folder / "profiles"
        self.profiles.mkdir()
        os.chmod(self.profiles, 0o777)

    def of_run(self, number, stays):
        cores = sorted(os.sched_getaffinity(0))
        all_of_them = list(itertools.product((SMALL, LARGE), (self.folder, self.folder if stays else self.other),
                                             (cores, cores[:1]), (False, True)))
        return all_of_them[number % len(all_of_them)]


def run(options, surroundings, number, name, own, command):
    environment, directory, cores, busy = surroundings.of_run(number, name in ("cc1plus -f", "java -Xint", "pipeline -f"))
    file = surroundings.profiles / f"{number}.json"
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in cores] if busy else []
    as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if options.users and number % 2 else {}
    try:
        done = subprocess.run([options.shadowprof, "run", "-q", "--mode", "full", "--deterministic", "--clean-env",
                               "--cpu-features", "baseline", *own, "-o", file, "--", *command],
                              cwd=directory, env=environment, check=False, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, cores), **as_user)
    finally:
        for other in others:
            other.kill()
            other.wait()
    if done.returncode != 0:
        sys.exit(f"{name}: status {done.returncode}\n{done.stderr[-500:]}")
    return file


def tables_of(file):
    profile = json.loads(file.read_text())
    tables = json.dumps([profile["tables"], profile["syscalls"]], sort_keys=True).encode()
    return profile["coverage"]["instructions_profiled"], hashlib.sha256(tables).hexdigest()


def measure(options, surroundings, name, own, command):
    first = None
    counts, other, alarms = set(), 0, 0
    for number in range(options.runs):
        file = run(options, surroundings, number, name, own, command)
        count, tables = tables_of(file)
        counts.add(count)
        if first is None:
            first, first_tables = file, tables
            continue
        other += tables != first_tables
        checked = subprocess.run([options.shadowprof, "check", *LIMITS, first, file], capture_output=True, text=True,
                                 check=False)
        if checked.returncode != 0:
            alarms += 1
            print(f"{name}: run {number} {surroundings.of_run(number, False)[2:]}\n{checked.stdout[:600]}{checked.stderr}")
        file.unlink()
    print(f"{name}: {options.runs} runs, {'/'.join(map(str, sorted(counts)))} instructions: {other} with another table, "
          f"{alarms} alarms", flush=True)
    first.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof", type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--users", action="store_true")
    parser.add_argument("--threads")
    parser.add_argument("--clocks")
    parser.add_argument("--timers")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name]
    with tempfile.TemporaryDirectory(prefix="shadowprof-same-") as folder:
        os.chmod(folder, 0o777)
        surroundings = Surroundings(pathlib.Path(folder))
        for name, own, command in commands(options):
            if chosen and name not in chosen:
                continue
            if not shutil.which(command[0]):
                print(f"{name}: not installed")
                continue
            measure(options, surroundings, name, own, command)


if __name__ == "__main__":
    main()
