#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Are shares of processor time those that perf sees? Ten programs of different kinds, by each source of time.

usage: time_shares.py SHADOWPROF [--scale X] [--only NAME,...] [--sources clock,looks] [--mode shadow|burst]

perf notes 10,000 program counters a second (cpu-clock, -c 100000), shadowprof at its default budget some 65, of the
same run. Both are summed up by the same functions: those that the profile has, from one entry to the next. For
each function above 2 % of the processor time the user time is compared, and the kernel's as a whole.
"""

import argparse
import bisect
import collections
import json
import math
import os
import pathlib
import re
import subprocess
import tempfile

import programs
from measure import must

KERNEL = 1 << 63
LEAST_SHARE = 0.02
CHASE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
struct cell { struct cell* next; char rest[56]; };
__attribute__((noinline)) static struct cell* chase(struct cell* at, long steps) {
  while (steps-- > 0) at = at->next;
  return at;
}
__attribute__((noinline)) static struct cell* make(size_t n) {
  struct cell* cells = malloc(n * sizeof *cells);
  uint32_t* order = malloc(n * sizeof *order);
  uint64_t random = 88172645463325252u;
  for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
  for (size_t i = n - 1; i > 0; i--) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    const size_t other = random % i;
    const uint32_t kept = order[i];
    order[i] = order[other], order[other] = kept;
  }
  for (size_t i = 0; i < n; i++) cells[order[i]].next = &cells[order[(i + 1) % n]];
  free(order);
  return cells;
}
int main(int argc, char** argv) {
  const long steps = argc > 1 ? atol(argv[1]) : 0;
  printf("%p\n", (void*)chase(make(4 << 20), steps));
}
"""
MMAP = re.compile(r"PERF_RECORD_MMAP2? (-?\d+)/\d+: \[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (\S+) .*?: ..x. (.*)$")
SAMPLE = re.compile(r"^\s*(\d+)\s+([0-9a-f]+)\s*$")


def cases(folder, scale):
    known = dict(programs.cases(folder, scale, "gzip,bzip2,xz,cc1plus"))
    chase = folder / "chase"
    subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", chase], input=CHASE.encode(), check=True)
    text, small = folder / "text", folder / "small"
    yield "gzip", known["gzip"]
    yield "bzip2", known["bzip2"]
    yield "xz", known["xz"]
    yield "cc1plus", known["cc1plus"]
    yield "chase", [chase, int(60_000_000 * scale)]
    yield "sort", ["sort", "--parallel=1", "-S", "1G", "-o", folder / "sorted", text]
    yield "dd", ["dd", "if=/dev/zero", f"of={folder}/dd", "bs=512", f"count={int(4_000_000 * scale)}",
                 "conv=notrunc", "status=none"]
    yield "tar", ["tar", "-cf", folder / "tar", "/usr/include", "/usr/share", "/usr/lib/gcc"]
    yield "find", ["find", *["/"] * max(1, int(4 * scale)), "-xdev", "-type", "f", "-size", "+1k", "-name", "*.zz"]
    yield "xz -T2", ["xz", "-2", "-T2", "--block-size=4MiB", "-c", small]
    yield "pigz", ["pigz", "-p", "2", "-c", text]
    yield "short", ["gzip", "-c", small]


class Maps:
    """Which file is where in a process, by perf's records."""

    def __init__(self):
        self.ranges = []

    def add(self, start, size, offset, path):
        end = start + size
        self.ranges = [r for r in self.ranges if r[1] <= start or r[0] >= end]
        self.ranges.append((start, end, offset, path))

    def find(self, at):
        for start, end, offset, path in self.ranges:
            if start <= at < end:
                return path, at - start + offset
        return None


def by_perf(data, process):
    """Samples of a process by (file, offset); those of the kernel; all."""
    script = subprocess.Popen(["perf", "script", "-i", data, "--show-mmap-events", "-F", "pid,ip"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    maps, places, kernel = Maps(), collections.Counter(), 0
    for line in script.stdout:
        if sample := SAMPLE.match(line):
            pid, at = int(sample[1]), int(sample[2], 16)
            if pid != process:
                continue
            if at >= KERNEL:
                kernel += 1
            else:
                places[maps.find(at)] += 1
        elif mapped := MMAP.search(line):
            if int(mapped[1]) == process:
                offset = mapped[4]
                offset = int(offset, 16) if offset.startswith("0x") else int(offset)
                maps.add(int(mapped[2], 16), int(mapped[3], 16), offset, mapped[5].strip())
    script.wait()
    return places, kernel, sum(places.values()) + kernel


def by_both(options, source, command, folder):
    """The profile of a run, and what perf saw of its program."""
    profile, data = folder / "p.json", folder / "perf.data"
    must(["perf", "record", "-q", "-e", "cpu-clock", "-c", "100000", "-o", data, "--", options.shadowprof, "run",
          "-q", "--mode", options.mode, "--time", source, "-o", profile, "--", *command])
    profile = json.loads(profile.read_text(encoding="utf-8"))
    return profile, by_perf(data, profile["run"]["pid"])


def entries_of(profile):
    """Entries of functions and their names, by file."""
    found = collections.defaultdict(dict)
    for row in profile["functions"]:
        path = profile["modules"][row["module"]]["path"]
        found[path][row["offset"]] = row.get("name") or hex(row["offset"])
    return {path: (sorted(names), names) for path, names in found.items()}


def function_at(entries, path, offset):
    offsets, names = entries.get(path, ([], {}))
    at = bisect.bisect_right(offsets, offset) - 1
    if at < 0:
        return f"{os.path.basename(path)}: else"
    return f"{names[offsets[at]]} ({os.path.basename(path)} {offsets[at]:x})"


def shares_of_perf(entries, places, total):
    shares = collections.Counter()
    for place, samples in places.items():
        shares[function_at(entries, *place) if place else "unknown"] += samples / total
    return shares


def shares_of_profile(entries, profile):
    time, shares = profile["time"], collections.Counter()
    total = time["user_s"] + time["kernel_s"]
    modules = profile["modules"]
    for row in rows(profile, "time"):
        shares[function_at(entries, modules[row["module"]]["path"], row["offset"])] += 1e-9 * row["user_ns"] / total
    return shares, time["kernel_s"] / total


def rows(profile, table):
    columns = profile["tables"][table]
    if isinstance(columns, list):
        return columns
    names = list(columns)
    return [dict(zip(names, values)) for values in zip(*(columns[name] for name in names))]


def compare(name, command, options, folder):
    for source in options.sources.split(","):
        profile, (places, kernel, total) = by_both(options, source, command, folder)
        entries = entries_of(profile)
        truth = shares_of_perf(entries, places, total)
        found, found_kernel = shares_of_profile(entries, profile)
        ticks = max(1, profile["time"]["ticks"])
        hot = [f for f in set(truth) | set(found) if max(truth[f], found[f]) > LEAST_SHARE]
        worst = max(hot, key=lambda f: abs(truth[f] - found[f]), default="")
        interval = 1.96 * math.sqrt(truth[worst] * (1 - truth[worst]) / ticks)
        print(f"| {name} | {source} | {total / 1e4:.1f} | {ticks} | {len(hot)} | "
              f"{100 * (found[worst] - truth[worst]):+.1f} | {100 * interval:.1f} | "
              f"{worst}: {100 * truth[worst]:.1f} | {100 * kernel / total:.1f} | "
              f"{100 * (found_kernel - kernel / total):+.1f} | "
              f"{100 * profile['overhead']['by_cause'].get('clock', 0) / profile['run']['duration_s']:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shadowprof")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--sources", default="clock,looks")
    parser.add_argument("--mode", default="shadow")
    options = parser.parse_args()
    options.shadowprof = os.path.abspath(options.shadowprof)
    only = {name for name in options.only.split(",") if name}
    print("| program | source | s | ticks | functions | off | interval | worst: share | kernel | off | cost |")
    print("|---|---|--:|--:|--:|--:|--:|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program, command in cases(folder, options.scale):
            if not only or program in only:
                compare(program, [str(word) for word in command], options, folder)


if __name__ == "__main__":
    main()
