#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Regions (run --within) hold what is executed inside of them, and nothing else.

usage: within.py --shadowprof PATH --known PROGRAM --regions PROGRAM

KNOWN is within_known.S, whose counts are known by hand; REGIONS is within.cc, whose regions end in every way.
Ends with "N passed, N failed"; status 1 on failure.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from gate_cases import require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402  pylint: disable=wrong-import-position

TIMES = 10
# Of each region its entries and instructions in each of TIMES rounds, and how they are shared out.
KNOWN = {
    "work": (1, 16, {"work": 13, "leaf": 3}),
    "leaf": (7, 7, {"leaf": 7}),
    "down": (1, 28, {"down": 28}),
    "jumps_on": (1, 3, {"jumps_on": 2, "leaf": 1}),
    "leaves_far": (1, 5, {"leaves_far": 3, "throws": 2}),
    "comes_back": (1, 8, {"comes_back": 6, "jumps_back": 2}),
    "changes_stack": (1, 9, {"changes_stack": 4, "swap": 5}),
    "makes_call": (1, 3, {"makes_call": 3}),
    "marks": (1, 9, {"marked": 9}),
}
# From the entry of one function to that of another.
BETWEEN = {
    ("work", "leaf"): (1, 3, {"work": 3}),
    ("down", "leaf"): (1, 31, {"down": 28, "_start": 1, "jumps_on": 2}),
    ("makes_call", "marked"): (1, 4, {"makes_call": 3, "_start": 1}),
}
# Regions of the other program: entries, the functions that run in them alone, and those that never do.
REGIONS = {
    "throws": (50, ["inside_throw"]),
    "jumps": (50, ["inside_jump"]),
    "threads": (4, ["inside_thread"]),
    "interrupted": (100, ["inside_handler"]),
    "switches": (50, ["inside_fiber"]),
    "marks": (50, ["inside_marks"]),
}

# Of outside_work, by what runs on another stack than main's.
FIBER_CALLS = 50


class Within:
    def __init__(self, options, folder):
        self.shadowprof, self.known, self.regions = map(
            os.path.abspath, (options.shadowprof, options.known, options.regions))
        self.dir = pathlib.Path(folder)
        self.whole = None

    def run(self, *arguments, status=0):
        done = subprocess.run([self.shadowprof, *map(str, arguments)], cwd=self.dir, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        require(done.returncode == status,
                f"{arguments}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
        return done

    def profile(self, program, *options, name="profile.json"):
        done = self.run("run", "-q", "--mode", "full", *options, "-o", name, "--", program)
        profile = read_profile(self.dir / name)
        profile["said"] = done.stderr
        return profile

    def all_of_regions(self):
        if self.whole is None:
            self.whole = self.profile(self.regions)
        return self.whole


def self_counts(profile):
    return {f["name"]: f["self_instructions"] for f in profile["functions"]}


def region_of(profile):
    region = profile["run"]["region"]
    blocks = profile["tables"]["blocks"]
    total = sum(n * insns for n, insns in zip(blocks["count"], blocks["insns"]))
    require(profile["coverage"]["instructions_profiled"] == total, f"{profile['coverage']}, not {total}")
    return region["entries"], total


def every_region_of_a_known_program_is_exact(within):
    whole = within.profile(within.known)["coverage"]["instructions_profiled"]
    for name, (entries, instructions, shares) in KNOWN.items():
        profile = within.profile(within.known, "--within", name)
        expected = entries * TIMES, instructions * TIMES
        require(region_of(profile) == expected, f"{name}: {region_of(profile)}, not {expected}")
        found = self_counts(profile)
        require(found == {f: n * TIMES for f, n in shares.items()}, f"{name}: {found}")
        require(profile["confidence"]["exact"], name)
        require(profile["run"]["region"]["program_instructions"] == whole, profile["run"]["region"])


def from_one_entry_to_another_is_exact(within):
    for (first, last), (entries, instructions, shares) in BETWEEN.items():
        for name in (first, f"*within_known!{first[:-1]}?"):
            profile = within.profile(within.known, "--from", name, "--to", last)
            expected = entries * TIMES, instructions * TIMES
            require(region_of(profile) == expected, f"{name}, {last}: {region_of(profile)}, not {expected}")
            require(self_counts(profile) == {f: n * TIMES for f, n in shares.items()}, self_counts(profile))
            region = profile["run"]["region"]
            require((region["from"], region["to"]) == (name, last) and "within" not in region, region)
    text = " ".join(within.run("report", "profile.json").stdout.split())
    require(f"only what is from '*within_known!makes_cal?' to 'marked' (makes_call, marked): entered {TIMES} times"
            in text, text)


def each_entry_may_be_an_end_and_a_beginning(within):
    """Of a function in all threads; what comes before the first entry is outside."""
    region = within.profile(within.known, "--from", "leaf", "--to", "leaf")
    entries, inside = region_of(region)
    require(entries == 7 * TIMES, entries)
    before = 2 + 3  # _start and work
    require(inside == region["run"]["region"]["program_instructions"] - before, inside)
    leaf, = (f for f in region["functions"] if f["name"] == "leaf")
    require(leaf["invocations"] == entries, f"{leaf['invocations']} calls in {entries} regions")
    entries, _ = region_of(within.profile(within.regions, "--from", "inside_thread", "--to", "nothing_of_this_name"))
    require(entries == 4, f"{entries} threads")


def two_regions_are_refused(within):
    for options, sentence in ((["--from", "work"], "option --from needs --to"),
                              (["--to", "work"], "option --to needs --from"),
                              (["--from", "a", "--to", "b", "--within", "c"], "a profile has one")):
        said = within.run("run", "--mode", "full", *options, "--", within.known, status=125).stderr
        require(sentence in said and said.count("\n") == 1, said)
    said = within.run("run", "--from", "a", "--to", "b", "--", within.known, status=125).stderr
    require("option --from is for --mode full" in said, said)


def calls_and_edges_are_those_of_the_region(within):
    profile = within.profile(within.known, "--within", "work")
    calls = [(c["from"]["function"], c["to"]["function"], c["count"])
             for c in profile["hotlists"]["call_pairs"]]
    require(calls == [("work", "leaf", 3 * TIMES)], calls)
    require(sum(profile["tables"]["edges"]["count"]) == (3 + 3 + 3) * TIMES, profile["tables"]["edges"])


def a_region_ends_however_its_function_is_left(within):
    whole = self_counts(within.all_of_regions())
    for name, (entries, inside) in REGIONS.items():
        profile = within.profile(within.regions, "--within", name)
        found = self_counts(profile)
        require(region_of(profile)[0] == entries, f"{name}: {region_of(profile)}, not {entries} entries")
        for function in inside:
            require(found.get(function) == whole[function],
                    f"{name}: {function} {found.get(function)}, not {whole[function]}")
        require("outside_work" not in found, f"{name}: {found.get('outside_work')} of outside_work")


def all_of_main_is_all_that_it_calls(within):
    whole, found = (self_counts(p) for p in
                    (within.all_of_regions(), within.profile(within.regions, "--within", "main")))
    calls = {f["name"]: f["invocations"] for f in within.all_of_regions()["functions"]}
    # The fiber has another stack.
    whole["outside_work"] -= FIBER_CALLS * whole["outside_work"] // calls["outside_work"]
    for name, count in whole.items():
        if name.startswith(("inside_", "outside_", "throws", "jumps", "switches")) and name != "inside_thread":
            require(found.get(name) == count, f"{name}: {found.get(name)}, not {count}")
    require("inside_thread" not in found, "a thread that main starts is no part of it")


def names_may_be_globs_and_have_a_module(within):
    program = pathlib.Path(within.known).name
    for name in (f"{program}!work", "*!work", "wo?k"):
        require(region_of(within.profile(within.known, "--within", name)) == (TIMES, 16 * TIMES), name)
    two = within.profile(within.known, "--within", "*s_*")["run"]["region"]
    require({"jumps_on", "jumps_back", "changes_stack"} <= set(two["functions"]), two)
    require(region_of(within.profile(within.known, "--within", "lib*!work"))[0] == 0, "another module")


def a_region_that_is_not_entered_is_said(within):
    profile = within.profile(within.known, "--within", "wrok", name="empty.json")
    require(profile["run"]["region"]["entries"] == 0, profile["run"]["region"])
    sentence = "'wrok' (--within) was not entered; it may be inlined, or have another name"
    require(sentence in profile["said"] and profile["said"].count("\n") == 1, profile["said"])
    require("was not entered" in within.run("report", "empty.json").stdout, "report")
    said = within.run("check", "empty.json", "empty.json", status=125).stderr
    require("not decidable" in said and "was not entered" in said, said)
    said = within.profile(within.regions, "--within", "marks")["said"]
    require(said == "", said)


def profiles_of_different_regions_are_not_compared(within):
    within.profile(within.known, "--within", "work", name="work.json")
    within.profile(within.known, "--within", "down", name="down.json")
    within.profile(within.known, "--from", "work", "--to", "down", name="between.json")
    within.profile(within.known, name="all.json")
    within.run("check", "work.json", "work.json")
    for command in (["check"], ["diff"], ["merge", "-o", "sum.json"]):
        for base, now in (("work.json", "down.json"), ("work.json", "all.json"), ("all.json", "work.json"),
                          ("work.json", "between.json")):
            said = within.run(*command, base, now, status=125).stderr
            require("what is within 'work'" in said and said.count("\n") == 1, said)
    within.run("merge", "-o", "sum.json", "work.json", "work.json")
    require(read_profile(within.dir / "sum.json")["run"]["region"]["entries"] == 2 * TIMES, "sum")
    text = within.run("report", "work.json").stdout
    require(f"only what is within 'work' (work): entered {TIMES} times" in text, text)


def stat_counts_a_region(within):
    said = within.run("stat", "--within", "makes_call", "--", within.known).stderr
    require("Counts of what is within 'makes_call' of '" in said, said)
    for count in (" 10   entries", " 30   instructions", " 10   system-calls", " 10   branches "):
        require(count in said, said)
    said = within.run("run", "--within", "work", "--", within.known, status=125).stderr
    require("--within is for --mode full" in said, said)


def other_profiles_are_of_the_region_too(within):
    for name in ("work", "down", "jumps_on", "leaves_far", "comes_back", "marks"):
        for scope in ("inter", "intra"):
            profile = within.profile(within.known, "--within", name, "--path-scope", scope, "--profile", "all,address")
            total = region_of(profile)
            require(total == (TIMES, KNOWN[name][1] * TIMES), f"{name}: {total}")
            in_paths = sum(p["instructions"] for p in profile["hotlists"]["paths"])
            # Frames that are left without a return have no path of their own.
            require(in_paths == total[1] or (name in ("leaves_far", "comes_back") and scope == "intra"),
                    f"{name}: {in_paths} instructions in {scope} paths, not {total[1]}")


def a_deterministic_region_is_the_same_in_each_run(within):
    runs = [region_of(within.profile(within.regions, "--deterministic", "--clean-env", "--within", name))
            for name in ("threads", "threads", "interrupted", "interrupted")]
    require(runs[0] == runs[1] and runs[2] == runs[3], runs)


CASES = [every_region_of_a_known_program_is_exact,
         from_one_entry_to_another_is_exact,
         each_entry_may_be_an_end_and_a_beginning,
         two_regions_are_refused,
         calls_and_edges_are_those_of_the_region,
         a_region_ends_however_its_function_is_left,
         all_of_main_is_all_that_it_calls,
         names_may_be_globs_and_have_a_module,
         a_region_that_is_not_entered_is_said,
         profiles_of_different_regions_are_not_compared,
         stat_counts_a_region,
         other_profiles_are_of_the_region_too,
         a_deterministic_region_is_the_same_in_each_run]


def main():
    parser = argparse.ArgumentParser()
    for name in ("shadowprof", "known", "regions"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-within-") as folder:
        return run_cases(CASES, Within(options, folder))


if __name__ == "__main__":
    sys.exit(main())
