# SPDX-License-Identifier: MIT
"""Builds side by side: their time, and what full mode counts of them."""

import json
import resource
import statistics
import sys

from subjects import run

LINE_BYTES = 64
HOT_SHARE = 0.99


def seconds(program, subject, work):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    output = run(program, *subject.timed, cwd=work)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return spent, subject.writes.read_bytes() if subject.writes else output


def times_in_turn(subject, builds, work, repeat):
    """{name: [seconds]}: in each turn every build once. They must all do the same."""
    times = {name: [] for name in builds}
    expected = None
    for _ in range(repeat):
        for name, program in builds.items():
            spent, output = seconds(program, subject, work)
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


def print_table(title, counts, times, base, full):
    """`full`: the build whose saving is 100 %."""
    saved = counts[base]["instructions"] - counts[full]["instructions"]
    print(f"\n| {title} | instructions of {base} | part of instrumented | taken branches | "
          f"hot lines | least user s | of {base} | median of {base} |\n"
          "|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, mine in times.items():
        now, before = counts[name], counts[base]
        share = (before["instructions"] - now["instructions"]) / saved
        ratios = [a / b for a, b in zip(mine, times[base])]
        print(f"| {name} | {now['instructions'] / before['instructions']:.3f} | "
              f"{'' if name == base else f'{share:.0%}'} | {now['taken'] / before['taken']:.3f} | "
              f"{now['lines']} | {min(mine):.3f} | {min(mine) / min(times[base]):.3f} | "
              f"{statistics.median(ratios):.3f} |", flush=True)
