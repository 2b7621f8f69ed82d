#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Path and value profiles of guests whose answers were worked out by hand.

usage: answers.py --shadowprof SHADOWPROF --guest-dir DIR
"""

import argparse
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

FAILED = []


def expect(what, found, wanted):
    if found != wanted:
        FAILED.append(what)
        print(f"FAIL  {what}: {found!r}, not {wanted!r}")
    else:
        print(f"ok    {what}")


class Guest:
    """A static guest, named instructions of it, and profiles of it."""

    def __init__(self, options, name, directory):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.path = os.path.join(os.path.abspath(options.guest_dir), name + ".bare")
        self.directory = directory
        self.labels = {}
        self.from_code = {}  # the same as profiles name data: as far from the code as it is in memory
        listing = subprocess.run(["nm", "--defined-only", self.path], capture_output=True, text=True, check=True).stdout
        headers = subprocess.run(["readelf", "-lW", self.path], capture_output=True, text=True,
                                 check=True).stdout
        loads = [line.split() for line in headers.splitlines() if line.strip().startswith("LOAD")]
        code = next(load for load in loads if "E" in load[6:-1])
        for line in listing.splitlines():
            address, _, label = line.split()
            self.from_code[label] = int(address, 16) - int(code[2], 16) + int(code[1], 16)
            for load in loads:
                offset, start, size = int(load[1], 16), int(load[2], 16), int(load[4], 16)
                if start <= int(address, 16) < start + size:
                    self.labels[label] = int(address, 16) - start + offset

    def profile(self, what, *arguments):
        out = os.path.join(self.directory, "profile.json")
        subprocess.run([self.shadowprof, "run", "--mode", "full", "-q", "--profile", what, *arguments, "-o", out, "--",
                        self.path], check=True, timeout=60)
        profile = read_profile(out)
        os.unlink(out)
        return profile

    def paths(self, profile):
        """{labels of its blocks: count}, for blocks that begin at a label."""
        names = {offset: label for label, offset in self.labels.items()}
        columns = profile["tables"]["path_blocks"]
        blocks = [[] for _ in profile["tables"]["paths"]["count"]]
        for path, offset in zip(columns["path"], columns["offset"]):
            blocks[path].append(names.get(offset, "?"))
        return {" ".join(b): n for b, n in zip(blocks, profile["tables"]["paths"]["count"])}

    def values(self, profile, part=0):
        """{label: row with its values}, of one of the values that an instruction has."""
        table, entries = profile["tables"]["values"], profile["tables"]["value_entries"]
        rows = {}
        for label, offset in self.labels.items():
            places = list(zip(table["offset"], table["part"]))
            if (offset, part) not in places:
                continue
            i = places.index((offset, part))
            rows[label] = {key: column[i] for key, column in table.items()}
            rows[label]["values"] = {v: c for r, v, c in zip(entries["row"], entries["value"],
                                                             entries["count"]) if r == i}
        return rows


def check_paths(options, directory):
    guest = Guest(options, "exact_paths", directory)
    profile = guest.profile("path")
    # 40 iterations; the first begins at _start and is even, the last is odd and ends with the program.
    expect("paths through calls", guest.paths(profile), {
        "_start even callee even_back join": 1,
        "loop even callee even_back join": 19,
        "loop odd callee odd_back join": 19})
    counts = profile["coverage"]["paths"]
    expect("executions of paths", counts["executions"], 39)
    expect("partial paths", counts["dropped"], 1)
    expect("nothing is pruned", (counts["pruned"], counts["error_bound"]), (0, 0))

    profile = guest.profile("path", "--path-scope", "intra")
    expect("paths of each function", guest.paths(profile), {
        "_start even even_back join": 1,
        "loop even even_back join": 19,
        "loop odd odd_back join": 19,
        "callee": 40})


def check_signal_calls(options, directory):
    """A program may set the actions of signals as often as it likes: few of these calls stop it."""
    out = os.path.join(directory, "profile.json")
    guest = os.path.join(os.path.abspath(options.guest_dir), "sig_actions.O2")
    subprocess.run([os.path.abspath(options.shadowprof), "run", "--mode", "full", "-q", "-o", out, "--", guest],
                   check=True, timeout=60, stdout=subprocess.DEVNULL)
    profile = read_profile(out)
    os.unlink(out)
    calls = {name: row["count"] for name, row in profile["syscalls"]["by_name"].items()}
    expect("calls about signals are many", min(calls["rt_sigaction"], calls["rt_sigprocmask"]) >= 2000, True)
    expect("and few stop", profile["overhead"]["stops"]["syscall"] < 500, True)


def check_cache_lines(options, directory):
    """Counts of lines do not depend on which records a trace has."""
    for name in ("exact_paths", "exact_values", "exact_parts"):
        guest = Guest(options, name, directory)
        alone = guest.profile("address", "--deterministic")
        recorded = guest.profile("address,path", "--deterministic")
        for profile in (alone, recorded):
            profile["tables"]["cache_lines"].pop("module")
        expect(f"cache lines of {name}", alone["tables"]["cache_lines"],
               recorded["tables"]["cache_lines"])
        expect(f"accesses of {name}", alone["coverage"]["accesses"],
               recorded["coverage"]["accesses"])
        expect(f"{name} accesses memory", alone["coverage"]["accesses"]["known"] > 0, True)


def check_values(options, directory):
    guest = Guest(options, "exact_values", directory)
    profile = guest.profile("value")
    rows = guest.values(profile)
    n = 1000
    for label in ("counter", "counter_copy", "constant", "low_bits_and", "narrow", "immediate"):
        expect(f"executions of {label}", rows[label]["count"], n)
    expect("a constant's values", rows["constant"]["values"], {7: n})
    expect("a constant repeats itself", rows["constant"]["same"], n - 1)
    expect("a constant's stride is 0 from the third value on", rows["constant"]["strided"], n - 2)
    expect("a loaded constant is not one by its encoding", rows["constant"]["constant"], 0)
    expect("an immediate is", rows["immediate"]["constant"], 1)
    expect("a counter strides from the third value on", rows["counter"]["strided"], n - 2)
    expect("a counter never repeats itself", rows["counter"]["same"], 0)
    expect("a counter is zero once", rows["counter"]["zero"], 1)
    low = {i: 125 for i in range(8)}
    expect("the low bits' values", rows["low_bits_and"]["values"], low)
    expect("a narrow result is its own bits only", rows["narrow"]["values"], low)
    expect("the low bits are zero in 125", rows["low_bits_and"]["zero"], 125)
    # 999 differences: -1, but for 125 jumps from 0 to 7, the first of which is the first difference.
    # Not foretold are the first difference, the 124 other jumps, and what follows each jump.
    expect("the low bits stride while they fall", rows["low_bits_and"]["strided"], 999 - 1 - 124 - 125)

    hot = profile["hotlists"]
    semi = {(row["offset"], row["part"]) for row in hot["values"] if row["semi_invariant"]}
    expect("semi-invariant instructions", semi,
           {(guest.labels["constant"], "result"), (guest.labels["divide"], "divisor")})
    listed = [row["offset"] for row in hot["values"]]
    expect("immediates are not listed", guest.labels["immediate"] in listed, False)
    targets = [(t["to"]["function"], t["count"]) for t in hot["targets"][0]["targets"]]
    expect("targets of the indirect call", targets, [("often", 900), ("rarely", 100)])
    sevens = {(a["to"]["function"], a["count"]): a["invariance"] for a in hot["arguments"]
              if a["register"] == "rsi"}
    expect("an argument that is always the same", sevens, {("often", 900): 1, ("rarely", 100): 1})
    expect("arguments are registers that the callee reads", {a["register"] for a in hot["arguments"]}, {"rdi", "rsi"})
    expect("nothing is an estimate where all is looked at in a table that holds it",
           [row["offset"] for row in hot["values"] if row.get("estimated") and row["distinct"] <= 16], [])

    rows = guest.values(guest.profile("value", "--hotlist", "tnv"))
    expect("top-n tables agree where there are few values", rows["low_bits_and"]["values"], low)


def check_parts(options, directory):
    guest = Guest(options, "exact_parts", directory)
    profile = guest.profile("value")
    first, second, compared = (guest.values(profile, part) for part in range(3))
    counts = range(1, 101)

    def histogram(values):
        values = list(values)
        return {v: values.count(v) for v in values}

    def top(row):
        return row["distinct"], dict(list(row["values"].items())[:10])

    expect("lower halves of products", first["multiply"]["values"], {0: 50, 1 << 63: 50})
    # 50, 49, 49, ... 1, 1, 0
    expect("upper halves of products", (second["multiply"]["zero"], second["multiply"]["same"]), (1, 49))
    expect("quotients", histogram(c // 10 for c in counts).items() >= first["divide"]["values"].items(), True)
    expect("remainders", second["divide"]["values"], histogram(c % 10 for c in counts))
    expect("a compare leaves no register", "compare" in first, False)
    expect("differences of a compare", (compared["compare"]["count"], compared["compare"]["zero"]), (100, 1))
    expect("they stride", compared["compare"]["strided"], 98)
    expect("differences to memory", (compared["compare_memory"]["zero"], compared["compare_memory"]["bits"]),
           (1, 32))
    expect("bits in common", top(compared["common"]), (4, histogram(c & 3 for c in counts)))

    doubles = {}
    for row in profile["hotlists"]["arguments"]:
        if row["register"].startswith("xmm"):
            key = row["to"]["function"], row["register"]
            doubles.setdefault(key, []).append((row["count"], row["distinct"], row["values"][0].get("as_double")))
    expect("functions called with doubles", sorted(doubles), [("power", "xmm0"), ("power", "xmm1")])
    expect("exponents, at both call sites", doubles[("power", "xmm1")], [(100, 1, 2.0)] * 2)
    expect("bases", [row[0] for row in doubles[("power", "xmm0")]], [100, 100])


def check_numbers(options, directory):
    guest = Guest(options, "exact_numbers", directory)
    profile = guest.profile("value", "--top", "1000")
    rows = guest.values(profile)
    counts = range(1, 101)

    def as_double(numbers):
        return {struct.unpack("<Q", struct.pack("<d", n))[0] for n in numbers}

    def as_float(number):
        return struct.unpack("<I", struct.pack("<f", number))[0]

    def kind(label):
        row = rows[label]
        return row["type"], row["bits"], row["elements"], row["constant"], row["count"]

    integer, f32, f64 = 0, 1, 2
    expect("an integer as a double", kind("number"), (f64, 64, 0, 0, 100))
    expect("a product", kind("halved"), (f64, 64, 0, 0, 100))
    expect("its values", rows["halved"]["values"].keys() <= as_double(c / 2 for c in counts), True)
    expect("a root", (*kind("root"), set(rows["root"]["values"])), (f64, 64, 0, 0, 100, as_double([2.5])))
    expect("what is loaded from memory for reading", kind("fixed"), (f64, 64, 0, 1, 100))
    expect("and from memory for writing", kind("variable"), (f64, 64, 0, 0, 100))
    expect("a cleared register", kind("cleared"), (integer, 64, 2, 1, 100))
    expect("a float", (*kind("single"), rows["single"]["zero"]), (f32, 32, 0, 0, 100, 25))
    expect("its values", rows["single"]["values"], {as_float(n): 25 for n in (0.0, 1.0, 2.0, 3.0)})
    expect("a moved integer", kind("moved"), (integer, 32, 0, 0, 100))
    expect("packed integers", (*kind("words"), rows["words"]["values"].keys() <= {c + 1000 for c in counts}),
           (integer, 32, 4, 0, 100, True))
    expect("they stride", rows["words"]["strided"], 98)
    expect("packed bytes", (*kind("bytes"), rows["bytes"]["values"].keys() <= {2 * c for c in counts}),
           (integer, 8, 16, 0, 100, True))
    expect("a copy", (kind("copied"), rows["copied"]["values"].keys() <= as_double(counts)),
           ((integer, 64, 2, 0, 100), True))
    expect("a double as an integer", kind("back"), (integer, 64, 0, 0, 100))

    listed = {row.get("disassembly", "?").split()[0]: row for row in profile["hotlists"]["values"]}
    expect("the root in the list", [(v["as_double"], v["count"]) for v in listed["sqrtsd"]["values"]], [(2.5, 100)])
    expect("it is semi-invariant", (listed["sqrtsd"]["semi_invariant"], listed["sqrtsd"]["type"]), (True, "f64"))
    expect("the float in the list", sorted(v["as_double"] for v in listed["cvtsi2ss"]["values"]), [0, 1, 2, 3])
    expect("packed ones in the list", (listed["paddd"]["type"], listed["paddd"]["elements"]), ("int", 4))
    expect("no stride of doubles", listed["cvtsi2sd"]["stride_share"], 0)


def check_lines(options, directory):
    guest = Guest(options, "exact_parts", directory)
    profile = guest.profile("address")
    hottest = profile["hotlists"]["cache_lines"][0]
    # In each iteration: two reads of 2.0, the seven, the stub's pointer; all in one line.
    line = guest.from_code["two"] // 64 * 64
    accesses = [(row["loads"], row["stores"]) for row in profile["hotlists"]["cache_lines"]
                if row.get("offset") == line]
    expect("accesses of the line of data", accesses, [(400, 0)])
    # Three calls and returns.
    expect("accesses of the stack", (hottest["loads"], hottest["stores"], "module" in hottest), (300, 300, False))
    counts = profile["coverage"]["accesses"]
    expect("all accesses", (counts["known"], counts["unknown"], counts["pruned"], counts["lines"]), (1000, 0, 0, 2))


def check_memory(options, directory):
    guest = Guest(options, "exact_memory", directory)
    profile = guest.profile("hazard,waste")
    names = {offset: label for label, offset in guest.labels.items()}

    def rows(name):
        return {(row["kind"], names.get(row["from"]["offset"]) if "from" in row else None, names.get(row["to"]["offset"])):
                (row["count"], row["executions"], row["mean_distance"]) for row in profile["hotlists"][name]}

    n = 100
    expect("hazards", rows("hazards"), {
        ("forwarding", "narrow", "wide"): (n, n, 1),
        ("aliasing", "page", "other_page"): (n, n, 1),
        ("load_line_split", None, "split"): (n, n, 0)})
    expect("waste", rows("waste"), {
        ("dead_store", "page", "page"): (n - 1, n, 14),
        ("dead_store", "dead", "over"): (n, n, 1),
        ("redundant_load", "other_page", "other_page"): (n - 1, n, 14),
        ("redundant_load", "split", "split"): (n - 1, n, 14),
        ("redundant_load", "first", "again"): (n, n, 1),
        ("redundant_load", "again", "first"): (n - 1, n, 13)})
    expect("instructions of a pair", {row["to_instruction"] for row in profile["hotlists"]["hazards"]
                                      if row["kind"] == "forwarding"}, {"mov eax, [rbx]"})
    expect("the last store is not known to be dead", [row["unknown"] for row in profile["hotlists"]["waste"]
                                                      if row["kind"] == "dead_store"], [0, 1])
    expect("all is known", [event for event in profile["coverage"]["events"] if event.startswith(("hazard", "waste"))], [])
    for kind, wanted in (("hazard", "hazards"), ("waste", "waste")):
        alone = guest.profile(kind)
        expect(f"{kind} alone says the same", alone["hotlists"][wanted], profile["hotlists"][wanted])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--guest-dir", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-answers-") as directory:
        check_paths(options, directory)
        check_values(options, directory)
        check_parts(options, directory)
        check_numbers(options, directory)
        check_lines(options, directory)
        check_memory(options, directory)
        check_signal_calls(options, directory)
        check_cache_lines(options, directory)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
