#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""diff, check and merge on profiles of real runs.

usage: gate.py --shadowprof PATH --base PROGRAM --slower PROGRAM --one-more PROGRAM --seeded-base PROGRAM
               --seeded PROGRAM --processor PROGRAM [--runs N]

Deterministic runs have equal counts; N unchanged runs raise no alarm; a function that executes about
5 % more instructions is found, with its file and line, and nothing else is; nor is anything else but
a slower function, a path that is taken more often and a load that now misses. Ends with
"N passed, N failed"; status 1 on failure.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from gate_cases import require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

OK, REGRESSION, OWN = 0, 3, 125
# Not the caller's: what fills freshly allocated memory (MALLOC_PERTURB_) changes the values read.
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}


class Gate:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.base_program = os.path.abspath(options.base)
        self.slower_program = os.path.abspath(options.slower)
        self.one_more_program = os.path.abspath(options.one_more)
        self.processor_program = os.path.abspath(options.processor)
        self.runs = options.runs
        self.dir = pathlib.Path(folder)
        self.seeded_programs = (os.path.abspath(options.seeded_base), os.path.abspath(options.seeded))
        self.base = self.profile(self.base_program, "base.json")
        self.slower = self.profile(self.slower_program, "slower.json")

    def run(self, *arguments, status=OK):
        done = subprocess.run([self.shadowprof, *map(str, arguments)], cwd=self.dir, check=False,
                              env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        require(done.returncode == status,
                f"{arguments}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
        return done

    def profile(self, program, name, *options):
        self.run("run", "--mode", "full", "-q", "--deterministic", *options, "-o", name, "--", program)
        return self.dir / name

    def tables(self, path):
        return read_profile(path)["tables"]


def unchanged_runs_have_equal_counts_and_raise_no_alarm(gate):
    expected = gate.tables(gate.base)
    for number in range(gate.runs):
        again = gate.profile(gate.base_program, "again.json")
        require(gate.tables(again) == expected, f"run {number} has other counts")
        found = gate.run("check", gate.base, again, "--limit", "instructions<=+0",
                         "--limit", "function:*:instructions<=+0",
                         "--limit", "function:*:calls<=+0", "--limit", "calls:*<=+0")
        require("0 regressions, 0 warnings" in found.stdout, found.stdout)
        differences = json.loads(gate.run("diff", "--json", gate.base, again).stdout)
        for name in ("functions", "lines", "call_pairs", "edges", "syscall_names"):
            require(differences[name] == [], f"diff shows {name} of an unchanged run")


def a_slower_function_is_found_with_file_and_line_and_nothing_else_is(gate):
    found = gate.run("check", gate.base, gate.slower, status=REGRESSION).stdout
    errors = [line for line in found.splitlines() if line.startswith("  ")]
    require(len(errors) == 1, found)
    match = re.match(r"  error: \S*words\.cc:(\d+): instructions of .*parse\(.*: "
                     r"(\d+) before, (\d+) now", errors[0])
    require(match, errors[0])
    line, before, now = map(int, match.groups())
    source = (pathlib.Path(__file__).parent / "words.cc").read_text().splitlines()
    require("parse(" in source[line - 1], f"line {line} is not where parse() begins")
    require(1.04 < now / before < 1.06, f"{before} to {now} are not the 5 % that were seeded")


def one_instruction_is_found_with_function_line_and_reason(gate):
    """One of four million, executed once."""
    more = gate.profile(gate.one_more_program, "more.json")
    found = gate.run("check", gate.base, more, "--limit", "function:*:instructions<=+0", status=REGRESSION).stdout
    match = re.search(r"words\.cc:(\d+): instructions of .*mix\(.*: (\d+) before, (\d+) now \(\+0\.00%\): (.*), limit", found)
    require(match and "1 regression, 0 warnings" in found, found)
    line, before, now = map(int, match.groups()[:3])
    source = (pathlib.Path(__file__).parent / "words.cc").read_text().splitlines()
    require("mix(" in source[line - 1] and now == before + 1, found)
    nop = next(number for number, text in enumerate(source, 1) if "nop" in text and number > line)
    require(match[4] == f"new code at words.cc:{nop}", found)


def regressions_of_a_function_a_path_and_a_load_are_found_and_nothing_else_is(gate):
    everything = ("--profile", "edge,call,path,value,latency", "--condition", "values=all")
    base, again, seeded = (gate.profile(program, name, *everything) for program, name in
                           zip((gate.seeded_programs[0], *gate.seeded_programs),
                               ("seeded_base.json", "seeded_again.json", "seeded_new.json")))
    unchanged = gate.run("check", base, again).stdout
    require("0 regressions" in unchanged, unchanged)
    found = gate.run("check", base, seeded, status=REGRESSION).stdout
    source = (pathlib.Path(__file__).parent / "seeded.cc").read_text().splitlines()
    begins = {name: next(i + 1 for i, line in enumerate(source)
                         if line.startswith("NOINLINE") and f" {name}(" in line)
              for name in ("parse", "classify", "look_up")}
    kinds = {}
    for line in found.splitlines():
        match = re.match(r"  (error|warning): \S*seeded\.cc:(\d+): (.*?) of ", line)
        if not match:
            # What the dynamic loader finds in caches depends on what else runs.
            require(not line.startswith("  ") or "misses of" in line, line)
            continue
        place = int(match[2])
        function = max((n for n in begins if begins[n] <= place), key=begins.get, default="")
        require(place < begins["look_up"] + 8, line)
        kinds.setdefault(match[3], set()).add(function)
    require(kinds.get("instructions") == {"parse"}, found)
    require("classify" in kinds.get("share", ()), found)
    require(kinds.get("misses") == {"look_up"}, found)
    require(kinds["share"] <= {"parse", "classify"}, found)
    require(re.search(r"of .*parse\(.*\): new code at seeded\.cc:\d+, limit function:", found), found)
    require(re.search(r"of path .*classify\(.*: another path: the branch at seeded\.cc:\d+ taken in ",
                      found), found)
    load = next(line for line in found.splitlines() if "misses of" in line)
    require("table[" in source[int(re.search(r":(\d+): ", load)[1]) - 1], load)
    differences = json.loads(gate.run("diff", "--json", base, seeded).stdout)
    require("look_up" in differences["loads"][0]["function"], differences["loads"][0])
    require(differences["paths"] and differences["values"], "a list is empty")
    text = gate.run("diff", base, seeded).stdout
    for heading in ("Paths (", "Values (", "Loads ("):
        require(heading in text, text)
    gate.run("check", base, seeded, "--limit", "path-share:classify<=+2%", status=REGRESSION)
    gate.run("check", base, seeded, "--limit", "path-share:mix<=+1%")
    gate.run("check", base, seeded, "--limit", "load:look_up:misses<=+20%", status=REGRESSION)
    values = gate.run("check", base, seeded, "--limit", "value:*:invariance>=-30%@0.5%",
                      status=REGRESSION).stdout
    require("1 regression," in values and "look_up" in values and "of value 0x0" in values, values)
    gate.run("check", base, again, "--limit", "value:*:invariance>=-30%@0.5%")
    for form in ("markdown", "github", "sarif", "junit"):
        done = gate.run("check", base, seeded, "--format", form, status=REGRESSION)
        require("look_up" in done.stdout.replace("\\", ""), done.stdout)
    gate.run("check", gate.base, gate.slower, "--limit", "path-share:*<=+1%", status=OWN)


def a_baseline_processor_is_what_the_program_is_told_of(gate):
    def told(*options):
        return gate.run("run", "--mode", "full", "-q", "--deterministic", *options, "-o",
                        "processor.json", "--", gate.processor_program).stdout

    native = subprocess.run([gate.processor_program], check=True, capture_output=True, text=True)
    require(told() == native.stdout, "without --cpu-features the processor is another one")
    for profiles in ("edge,call", "edge,call,path,value"):
        baseline = told("--cpu-features", "baseline", "--profile", profiles)
        require(baseline == "ssse3 1, sse4.2 1, popcnt 1, avx 0, avx2 0, avx512f 0, bmi2 0\n"
                            "x86-64-v2 baseline\n", baseline)
    first, second = (gate.tables(gate.profile(gate.base_program, "base_v2.json", "--cpu-features",
                                              "baseline")) for _ in range(2))
    require(first == second, "counts differ")
    gate.run("run", "--cpu-features", "baseline", "--", gate.processor_program, status=OWN)
    gate.run("run", "--mode", "full", "--cpu-features", "v9", "--", gate.processor_program,
             status=OWN)


def the_environment_may_be_cleaned_and_added_to(gate):
    def seen(*options):
        return gate.run("run", "--mode", "full", "-q", *options, "-o", "env.json", "--",
                        "/usr/bin/env").stdout.splitlines()

    paths = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    clean = seen("--clean-env", "--env", "A=b=c", "--env", "LANG=C.UTF-8", "--env", "A=2")
    require(clean == [f"PATH={paths}", "HOME=/", "LANG=C.UTF-8", "A=2"], clean)
    ours = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    require(seen() == ours, seen())
    added = seen("--env", "EMPTY=", "--env", "PATH=/bin")
    require(added == [line if not line.startswith("PATH=") else "PATH=/bin" for line in ours] + ["EMPTY="], added)
    for wrong in ("A", "=b"):
        said = gate.run("run", "--env", wrong, "--", "env", status=OWN).stderr
        require(said == f"shadowprof: option --env needs NAME=VALUE, not '{wrong}'\n", said)


def diff_names_the_function_and_the_line_that_changed(gate):
    differences = json.loads(gate.run("diff", "--json", gate.base, gate.slower).stdout)
    functions = [f for f in differences["functions"] if f["self_instructions"]["delta"] != 0]
    require(len(functions) == 1 and "parse(" in functions[0]["function"], functions)
    require(functions[0]["presence"] == "both", functions[0])
    delta = differences["instructions"]["delta"]
    require(functions[0]["self_instructions"]["delta"] == delta, "the total is another")
    require(sum(line["instructions"]["delta"] for line in differences["lines"]) == delta,
            "lines do not add up to the change")
    source = (pathlib.Path(__file__).parent / "words.cc").read_text().splitlines()
    named = "\n".join(source[line["line"] - 1] for line in differences["lines"]
                      if line["file"].endswith("words.cc"))
    require("asm volatile" in named, named)
    text = gate.run("diff", gate.base, gate.slower).stdout
    require("parse words.cc:" in text, text)
    reason = functions[0]["reason"]
    require(reason["kind"] == "code" and re.match(r"new code at words\.cc:\d+$", reason["text"]), reason)
    require(f"            {reason['text']}\n" in text, text)


def limits_are_judged_as_documented(gate):
    def check(rule, status):
        gate.run("check", gate.base, gate.slower, "--limit", rule, status=status)

    check("function:parse:instructions<=+3%", REGRESSION)
    check("function:parse:instructions<=+8%", OK)
    check("function:*parse*:instructions<=+3%@5%", OK)
    check("warn:function:parse:instructions<=+3%", OK)
    check("function:parse:share<=+0.1%", REGRESSION)
    check("function:parse:share<=90%", OK)
    check("function:parse:instructions<=1K", REGRESSION)
    check("function:hash:instructions>=1K", OK)
    check("calls:next_random<=+0", OK)
    check("calls:make_text->next_random<=10", REGRESSION)
    check("module:words_*:instructions<=+0.1%", REGRESSION)
    check("syscalls<=+0", OK)
    for bad in ("", "instructions", "instructions<=", "instructions<=+x%", "speed<=+1%",
                "function:parse<=+1%", "instructions<=5%", "function:prase:instructions<=+3%"):
        done = gate.run("check", gate.base, gate.slower, "--limit", bad, status=OWN)
        require(done.stderr.count("\n") == 1 and done.stdout == "", done)


def every_format_names_function_file_and_line(gate):
    def check(form):
        return gate.run("check", gate.base, gate.slower, "--format", form, "--source-root",
                        pathlib.Path(__file__).parent, status=REGRESSION).stdout

    for form in ("text", "markdown", "github", "sarif", "junit"):
        text = check(form)
        require("words.cc" in text.replace("\\", "") and "parse" in text, text)
    line = check("github").splitlines()[0]
    require(re.match(r"::error file=\S*words\.cc,line=\d+,title=[^:,]*(%3A|%2C|[^:,])*::", line),
            line)
    sarif = json.loads(check("sarif"))
    require(sarif["version"] == "2.1.0", sarif["version"])
    require(re.match(r"\d+\.", sarif["runs"][0]["tool"]["driver"]["version"]), sarif["runs"])
    run, = sarif["runs"]
    result, = run["results"]
    require(result["ruleId"] in [rule["id"] for rule in run["tool"]["driver"]["rules"]], result)
    require(result["level"] == "error" and result["message"]["text"], result)
    place = result["locations"][0]
    # The build names the file by way of its own folder; a service knows the repository only.
    require(place["physicalLocation"]["artifactLocation"]["uri"] == "words.cc", place)
    require(place["physicalLocation"]["region"]["startLine"] > 1, place)
    require("parse" in place["logicalLocations"][0]["fullyQualifiedName"], place)
    suites = xml.etree.ElementTree.fromstring(check("junit"))
    require(suites.tag == "testsuites" and suites.get("failures") == "1", suites.attrib)
    cases = suites.findall("./testsuite/testcase")
    require(len(cases) == int(suites.get("tests")) == 5, suites.attrib)
    failures = [case for case in cases if case.find("failure") is not None]
    require(len(failures) == 1 and "words.cc" in failures[0].find("failure").get("message"),
            [case.attrib for case in failures])
    gate.run("check", gate.base, gate.slower, "--format", "sarif", "-o", "out.sarif",
             status=REGRESSION)
    require(json.loads((gate.dir / "out.sarif").read_text())["runs"], "nothing in the file")


def baselines_have_names(gate):
    for folder, first in (("baselines", gate.base), ("new", gate.slower)):
        (gate.dir / folder).mkdir()
        (gate.dir / folder / "words.json").write_bytes(first.read_bytes())
        (gate.dir / folder / "same.json").write_bytes(gate.base.read_bytes())
    text = gate.run("check", "baselines", "new", status=REGRESSION).stdout
    require("words: instructions +" in text and "same: instructions 0%" in text, text)
    gate.run("check", "baselines", f"same={gate.base}")
    gate.run("check", "baselines", f"words={gate.slower}", status=REGRESSION)
    require("nightly: " in gate.run("check", f"nightly={gate.base}", gate.base).stdout, "no name")
    gate.run("check", "baselines", gate.slower, status=OWN)
    (gate.dir / "new" / "same.json").unlink()
    gate.run("check", "baselines", "new", status=OWN)


def merging_adds_up_and_keeps_what_was_merged(gate):
    one = read_profile(gate.base)
    gate.run("merge", "-o", "sum.json.gz", f"{gate.base}:2", gate.base)
    gate.run("merge", "-o", "sum.json", "--weight", "3", gate.base)
    whole = read_profile(gate.dir / "sum.json")
    require(whole["coverage"]["attributed"] == 3 * one["coverage"]["attributed"], "not the sum")
    require(whole["tables"]["blocks"]["count"] ==
            [3 * count for count in one["tables"]["blocks"]["count"]] or
            sum(whole["tables"]["edges"]["count"]) == 3 * sum(one["tables"]["edges"]["count"]),
            "tables are not the sum")
    require([run["weight"] for run in whole["run"]["merged"]] == [3], whole["run"]["merged"])
    gate.run("check", "sum.json", "sum.json.gz", "--limit", "instructions<=+0",
             "--limit", "function:*:instructions<=+0")
    gate.run("report", "sum.json.gz")


def what_cannot_be_read_is_named_and_nothing_is_written(gate):
    (gate.dir / "cut.json").write_bytes(gate.base.read_bytes()[:5000])
    (gate.dir / "foreign.json").write_text('{"traceEvents": []}')
    for bad in ("cut.json", "foreign.json", "absent.json"):
        for command in (("merge", "-o", "never.json", gate.base, bad), ("diff", gate.base, bad),
                        ("check", gate.base, bad), ("export", "--format", "folded", bad)):
            done = gate.run(*command, status=OWN)
            require(done.stderr.count("\n") == 1 and bad in done.stderr and done.stdout == "",
                    f"{command}: {done}")
        require(not (gate.dir / "never.json").exists(), "something was written")
    (gate.dir / "mine.txt").write_text("precious")
    gate.run("merge", "-o", "mine.txt", gate.base, status=OWN)
    require((gate.dir / "mine.txt").read_text() == "precious", "a foreign file was overwritten")


CASES = [unchanged_runs_have_equal_counts_and_raise_no_alarm,
         a_slower_function_is_found_with_file_and_line_and_nothing_else_is,
         one_instruction_is_found_with_function_line_and_reason,
         regressions_of_a_function_a_path_and_a_load_are_found_and_nothing_else_is,
         a_baseline_processor_is_what_the_program_is_told_of,
         the_environment_may_be_cleaned_and_added_to,
    diff_names_the_function_and_the_line_that_changed,
         limits_are_judged_as_documented,
         every_format_names_function_file_and_line,
         baselines_have_names,
         merging_adds_up_and_keeps_what_was_merged,
         what_cannot_be_read_is_named_and_nothing_is_written]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--base", required=True)
    parser.add_argument("--slower", required=True)
    parser.add_argument("--one-more", required=True)
    parser.add_argument("--seeded-base", required=True)
    parser.add_argument("--seeded", required=True)
    parser.add_argument("--processor", required=True)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-gate-") as folder:
        return run_cases(CASES, Gate(options, folder))


if __name__ == "__main__":
    sys.exit(main())
