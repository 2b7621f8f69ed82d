# SPDX-License-Identifier: MIT
"""Builds side by side: their time and cycles, and what full mode counts of them."""

import json
import resource
import shutil
import statistics
import subprocess
import sys

from subjects import run

LINE_BYTES = 64
HOT_SHARE = 0.99
USER, CYCLES = 0, 1
COUNTS = "cycles.csv"  # what perf stat writes


def counter_command(file):
    """What counts the cycles of a program in user mode, in `file`; nothing where no counter is."""
    if not shutil.which("perf"):
        return []
    command = ["perf", "stat", "-x,", "-e", "cycles:u", "-o", file, "--"]
    tried = subprocess.run([*command, "true"], check=False, capture_output=True)
    return command if tried.returncode == 0 and counted_cycles(file) else []


def counted_cycles(file):
    """Of the last line of `file`, which begins with the count; 0 if it is none."""
    count = file.read_text().splitlines()[-1].split(",")[0]
    return int(count) if count.isdigit() else 0


def once(program, subject, work, counter):
    """(user seconds, cycles or 0) of one run, and what it printed or wrote."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    output = run(*counter, program, *subject.timed, cwd=work)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    cycles = counted_cycles(work / COUNTS) if counter else 0
    return (spent, cycles), subject.writes.read_bytes() if subject.writes else output


def times_in_turn(subject, builds, work, repeat):
    """{name: [(seconds, cycles)]}: in each turn every build once. They must all do the same."""
    times = {name: [] for name in builds}
    counter = counter_command(work / COUNTS)
    expected = None
    for _ in range(repeat):
        for name, program in builds.items():
            spent, output = once(program, subject, work, counter)
            expected = expected or output
            if output != expected:
                sys.exit(f"{name} of {subject.name} prints something else")
            times[name].append(spent)
    return times


def hot_lines(tables, module):
    """How many cache lines of code 99 % of the executed instructions are in."""
    blocks, weights = tables["blocks"], {}
    for m, offset, size, insns, count in zip(*(blocks[c] for c in ("module", "offset", "size",
                                                                   "insns", "count"))):
        if m != module:
            continue
        for line in range(offset // LINE_BYTES, (offset + size - 1) // LINE_BYTES + 1):
            begin, end = max(offset, line * LINE_BYTES), min(offset + size, (line + 1) * LINE_BYTES)
            weights[line] = weights.get(line, 0) + count * insns * (end - begin) / size
    rest = HOT_SHARE * sum(weights.values())
    for number, weight in enumerate(sorted(weights.values(), reverse=True), 1):
        rest -= weight
        if rest <= 0:
            return number
    return len(weights)


def counted(shadowprof, program, subject, work):
    """Instructions, taken branches and hot cache lines of code of the timed input, exactly."""
    path = f"{program}.timed.json"
    run(shadowprof, "run", "--mode", "full", "-q", "-o", path, "--", program, *subject.timed,
        cwd=work)
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)
    module = next(i for i, m in enumerate(profile["modules"]) if m["path"] == str(program))
    edges = profile["tables"]["edges"]
    stays = edges["kinds"].index("not_taken")
    taken = sum(count for m, kind, count in zip(edges["from_module"], edges["kind"], edges["count"])
                if m == module and kind != stays)
    return {"instructions": profile["coverage"]["instructions_profiled"], "taken": taken,
            "lines": hot_lines(profile["tables"], module)}


def share_saved(now, base, full):
    """Of what `full` saves of `base`, if that is more than nothing (half a percent)."""
    if now == base:
        return ""
    return f"{(base - now) / (base - full):.0%}" if base - full > base / 200 else "-"


def print_table(title, counts, times, base, full):
    """`full`: the build whose saving is 100 %. Without a counter there are no cycles."""
    def least(name, what):
        return min(each[what] for each in times[name])

    has_cycles = least(base, CYCLES) > 0
    columns = [title, f"instructions of {base}", "part of instrumented"]
    columns += [f"cycles of {base}", "part of instrumented", "median"] if has_cycles else []
    columns += ["taken branches", "hot lines", f"user s of {base}", "median"]
    print(f"\n| {' | '.join(columns)} |\n|---|{'--:|' * (len(columns) - 1)}")
    for name, mine in times.items():
        now, before, best = counts[name], counts[base], counts[full]
        medians = [statistics.median(a[what] / b[what] for a, b in zip(mine, times[base]) if b[what])
                   if what == USER or has_cycles else 0 for what in (USER, CYCLES)]
        cells = [name, f"{now['instructions'] / before['instructions']:.3f}",
                 share_saved(*(c["instructions"] for c in (now, before, best)))]
        if has_cycles:
            cells += [f"{least(name, CYCLES) / least(base, CYCLES):.3f}",
                      share_saved(*(least(n, CYCLES) for n in (name, base, full))),
                      f"{medians[CYCLES]:.3f}"]
        cells += [f"{now['taken'] / before['taken']:.3f}", str(now["lines"]),
                  f"{least(name, USER) / least(base, USER):.3f}", f"{medians[USER]:.3f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
