#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each export is read by the program that it is made for.

usage: exports.py --shadowprof PATH --program PROGRAM --source FILE [--only TEXT]

PROGRAM is profiled and its profile exported in every format. Where a consumer is not installed, the
rest of the format is still checked, and the reason is said. Ends with "N passed, N failed, N
skipped"; status 1 on failure.
"""

import argparse
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

from gate_cases import Skipped, npm_modules, require, run_in_folder

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

LLVM_VERSIONS = ["-19", "-18", "-17", "-16", "-15", "-14", ""]


def tool(*names):
    for name in names:
        for version in LLVM_VERSIONS:
            # Some programs look at the name that they are called by: it must have no version then.
            found = shutil.which(f"/usr/lib/llvm{version}/bin/{name}") or \
                shutil.which(name + version)
            if found:
                return found
    raise Skipped(f"{' or '.join(names)} is not installed")


def call(*command, text=True):
    done = subprocess.run(list(map(str, command)), check=False, stdin=subprocess.DEVNULL,
                          capture_output=True, text=text, timeout=120)
    require(done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Exports:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.program = os.path.abspath(options.program)
        self.source = os.path.abspath(options.source)
        self.dir = pathlib.Path(folder)
        self.file = self.dir / "profile.json"
        call(self.shadowprof, "run", "--mode", "full", "-q", "--deterministic", "-o", self.file, "--", self.program)
        self.profile = read_profile(self.file)
        self.attributed = self.profile["coverage"]["attributed"]
        self.parse = next(f for f in self.profile["functions"] if "parse(" in f["name"])

    def export(self, form, name):
        path = self.dir / name
        call(self.shadowprof, "export", "--format", form, "-o", path, self.file)
        return path


def folded_adds_up(x):
    lines = x.export("folded", "x.folded").read_text().splitlines()
    counts = {}
    for line in lines:
        stack, _, count = line.rpartition(" ")
        counts[stack] = int(count)
    require(len(counts) == len(lines), "a stack appears twice")
    require(sum(counts.values()) == x.attributed, "not all instructions are there")
    parse = sum(n for stack, n in counts.items() if "parse(" in stack.split(";")[1])
    require(parse == x.parse["self_instructions"], parse)


def flamegraph_draws_folded(x):
    script = pathlib.Path("/usr/share/perl5/Devel/NYTProf/flamegraph.pl")
    if not script.exists():
        raise Skipped("flamegraph.pl (of libdevel-nytprof-perl) is not installed")
    done = call("perl", script, "--minwidth=0", x.export("folded", "x.folded"))
    require(done.stderr == "", done.stderr)
    picture = xml.etree.ElementTree.fromstring(done.stdout)
    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    require(f"all ({x.attributed:,} samples, 100%)" in titles, titles[:20])
    own = f"({x.parse['self_instructions']:,} samples, "
    require(any("parse(" in title and own in title for title in titles), own)


def callgrind_annotate_reads_callgrind(x):
    path = x.export("callgrind", "callgrind.out.x")
    text = path.read_text()
    after_calls = False
    own = 0
    for line in text.splitlines():
        if re.match(r"0x[0-9a-f]+ \d+ \d+$", line) and not after_calls:
            own += int(line.split()[2])
        after_calls = line.startswith("calls=")
    require(own == x.attributed, f"{own} instructions instead of {x.attributed}")
    shown = call(tool("callgrind_annotate"), "--threshold=100", path).stdout
    require(f"{x.attributed:,} (100.0%)  PROGRAM TOTALS" in shown, shown[:2000])
    require(re.search(rf"{x.parse['self_instructions']:,} .*words\.cc:.*parse\(", shown), shown)
    shown = call(tool("callgrind_annotate"), "--tree=calling", "--inclusive=yes", path).stdout
    require("next_random" in shown, shown[:2000])


def pprof_reads_pprof(x):
    path = x.export("pprof", "x.pb.gz")
    data = gzip.decompress(path.read_bytes())
    require(not data.startswith(b"\x1f\x8b"), "compressed twice")
    require(gzip.decompress(x.export("pprof", "x.pb").read_bytes()) == data, "not always gzipped")
    if shutil.which("protoc"):
        folder = pathlib.Path(__file__).parent.parent.parent / "src" / "report"
        done = subprocess.run(["protoc", f"--proto_path={folder}",
                               "--decode=shadowprof.pprof.Profile", "pprof.proto"],
                              input=data, capture_output=True, check=True)
        values = re.findall(r"^  value: (\d+)$", done.stdout.decode(), re.M)
        require(sum(map(int, values)) == x.attributed, "values do not add up")
    go = shutil.which("go")
    if not go:
        raise Skipped("go (with its pprof) is not installed")
    os.environ["HOME"] = str(x.dir)
    shown = call(go, "tool", "pprof", "-top", "-nodecount=500", "-nodefraction=0", path).stdout
    require(re.search(r"Type: instructions", shown), shown[:500])
    require(re.search(r"\d.*parse", shown), shown[:2000])
    raw = call(go, "tool", "pprof", "-raw", path).stdout
    require("words.cc" in raw, raw[:2000])


def speedscope_is_consistent(x):
    data = json.loads(x.export("speedscope", "x.speedscope.json").read_text())
    require(data["$schema"] == "https://www.speedscope.app/file-format-schema.json", "no schema")
    profile, = data["profiles"]
    require(profile["type"] == "sampled" and profile["unit"] == "none", profile["type"])
    require(len(profile["samples"]) == len(profile["weights"]), "columns differ")
    require(sum(profile["weights"]) == x.attributed == profile["endValue"], "weights do not add up")
    frames = data["shared"]["frames"]
    for sample in profile["samples"]:
        require(sample and all(0 <= i < len(frames) for i in sample), sample)
    require(any("parse(" in f["name"] and f["file"].endswith("words.cc") for f in frames), frames)


def speedscope_schema_holds(x):
    try:
        import jsonschema  # pylint: disable=import-outside-toplevel
    except ImportError as missing:
        raise Skipped("python3-jsonschema is not installed") from missing
    path = x.export("speedscope", "x.speedscope.json")
    schema, *_ = (npm_modules("speedscope") / "speedscope").glob("**/file-format-schema.json")
    jsonschema.validate(json.loads(path.read_text()), json.loads(schema.read_text()))


# Of version 47 of the processed profile (that project's src/types/profile.js and its
# docs-developer/CHANGELOG-formats.md), whose reader upgrades older versions step by step: each
# column with what its values may be.
FIREFOX_COLUMNS = {
    "samples": {"stack": "index", "time": "number", "weight": "number"},
    "markers": {"data": "any", "name": "index", "startTime": "number", "endTime": "number",
                "phase": "number", "category": "index"},
    "stackTable": {"prefix": "index or null", "frame": "index", "category": "index",
                   "subcategory": "index"},
    "frameTable": {"address": "number", "inlineDepth": "number", "category": "index or null",
                   "subcategory": "index or null", "func": "index", "nativeSymbol": "index or null",
                   "innerWindowID": "number", "implementation": "index or null",
                   "line": "number or null", "column": "number or null"},
    "funcTable": {"name": "index", "isJS": "bool", "relevantForJS": "bool", "resource": "number",
                  "fileName": "index or null", "lineNumber": "number or null",
                  "columnNumber": "number or null"},
    "resourceTable": {"lib": "index or null", "name": "index", "host": "index or null",
                      "type": "number"},
    "nativeSymbols": {"libIndex": "index", "address": "number", "name": "index",
                      "functionSize": "number or null"}}
FIREFOX_THREAD = {"processType": str, "processStartupTime": int, "registerTime": int,
                  "pausedRanges": list, "name": str, "isMainThread": bool, "pid": str, "tid": int,
                  "stringArray": list}
FIREFOX_LIB = {"arch": str, "name": str, "path": str, "debugName": str, "debugPath": str,
               "breakpadId": str}


def fits(value, kind):
    if value is None:
        return kind.endswith("or null") or kind == "any"
    if kind == "bool" or isinstance(value, bool):
        return kind == "bool" and isinstance(value, bool)
    if kind.startswith("index"):
        return isinstance(value, int) and value >= 0
    return kind == "any" or isinstance(value, (int, float))


def firefox_profile_has_the_published_columns(x):
    data = json.loads(x.export("firefox", "x.firefox.json").read_text())
    require(data["meta"]["preprocessedProfileVersion"] == 47, data["meta"])
    require("grey" in [category["color"] for category in data["meta"]["categories"]], data["meta"])
    thread, = data["threads"]
    check_firefox_thread(thread, data["libs"])
    require(thread["samples"]["weightType"] == "samples", thread["samples"]["weightType"])
    for lib in data["libs"]:
        for name, kind in FIREFOX_LIB.items():
            require(type(lib[name]) is kind, lib)
    require({lib for lib in thread["resourceTable"]["lib"]} == set(range(len(data["libs"]))),
            "a file is listed that no resource names")
    require(sum(thread["samples"]["weight"]) == x.attributed, "weights do not add up")


def check_firefox_thread(thread, libs):
    """It has the published columns, and what they refer to."""
    for name, kind in FIREFOX_THREAD.items():
        require(type(thread[name]) is kind, f"{name} is {thread[name]!r}")
    for name, columns in FIREFOX_COLUMNS.items():
        table = thread[name]
        found = {column for column, values in table.items() if isinstance(values, list)}
        require(found == set(columns), f"{name} has the columns {sorted(found)}")
        for column, kind in columns.items():
            require(len(table[column]) == table["length"], f"{name}.{column}")
            odd = [value for value in table[column] if not fits(value, kind)]
            require(not odd, f"{name}.{column} has {odd[:5]}, which is no {kind}")
    stacks, frames, functions = (thread[n] for n in ("stackTable", "frameTable", "funcTable"))
    for i, prefix in enumerate(stacks["prefix"]):
        require(prefix is None or prefix < i, "a stack comes before its prefix")
    require(all(f < frames["length"] for f in stacks["frame"]), "frames")
    require(all(f < functions["length"] for f in frames["func"]), "functions")
    require(all(n < len(thread["stringArray"]) for n in functions["name"]), "names")
    require(all(-1 <= r < thread["resourceTable"]["length"] for r in functions["resource"]), "resources")
    require(all(r < len(libs) for r in thread["resourceTable"]["lib"]), "libs")


def chrome_trace_has_the_run(x):
    event, = json.loads(x.export("chrome", "x.trace.json").read_text())["traceEvents"]
    require(event["ph"] == "X" and event["dur"] > 0 and event["ts"] > 1_700_000_000_000_000, event)
    require(event["args"]["instructions"] == x.attributed, event)


def chrome_trace_has_samples_and_pauses(x):
    profile = json.loads(json.dumps(x.profile))
    profile["overhead"]["timeline"] = {"at_us": [1000, 250000], "samples": [1, 2], "instructions": [500, 100],
                                       "paused_us": [80, 0], "lived_us": [3000, 1000]}
    sampled = x.dir / "sampled.json"
    sampled.write_text(json.dumps(profile), encoding="utf-8")
    path = x.dir / "sampled.trace.json"
    call(x.shadowprof, "export", "--format", "chrome", "-o", path, sampled)
    run, *events = json.loads(path.read_text())["traceEvents"]
    seen = [(e["ph"], e["name"], e["ts"] - run["ts"], e.get("dur"), e.get("id")) for e in events]
    require(seen == [("X", "pause", 1000, 80, None), ("b", "sample", 1000, None, 1), ("e", "sample", 4000, None, 1),
                     ("b", "sample", 250000, None, 2), ("e", "sample", 251000, None, 2)], seen)


def llvm_reads_the_sample_profile(x):
    path = x.export("llvm-sample", "x.prof")
    text = path.read_text()
    head = re.search(r"^(\S*parse\S*):(\d+):(\d+)$", text, re.M)
    require(head and head.group(3) == "1", text[:1000])
    shown = call(tool("llvm-profdata"), "show", "--sample", "--all-functions", path).stdout
    require("parse" in shown, shown[:1000])
    call(tool("llvm-profdata"), "merge", "--sample", "-o", x.dir / "x.profdata", path)
    clang = tool("clang++")
    done = call(clang, "-O2", "-g", f"-fprofile-sample-use={path}", "-S", "-emit-llvm", "-o",
                x.dir / "x.ll", x.source)
    require(done.stderr == "", done.stderr)
    weights = (x.dir / "x.ll").read_text()
    require("function_entry_count" in weights and "branch_weights" in weights, "no weights in the IR")


def what_did_not_run_has_count_zero(x):
    source = x.dir / "cold.c"
    source.write_text("""
extern int puts(const char *);
__attribute__((noinline)) int never(int n) { return n * 3; }
static inline int step(int n) {
  if (n == -7)
    puts("inlined, and never there");
  return n * 5 + 1;
}
__attribute__((noinline)) int hot(int n, int rare) {
  int sum = 0;
  for (int i = 0; i < n; i++) {
    if (i == rare)
      sum += puts("never there");
    sum ^= step(sum);
  }
  return sum;
}
int main(int argc, char **argv) { return argc > 5 ? never(argc) : hot(1000, -argc) == 7; }
""")
    program, profile = x.dir / "cold", x.dir / "cold.json"
    call(tool("clang"), "-O1", "-g", "-o", program, source)
    call(x.shadowprof, "run", "--mode", "full", "-q", "-o", profile, "--", program)
    text = call(x.shadowprof, "export", "--format", "llvm-sample", profile).stdout
    hot = re.search(r"^hot:\d+:1\n((?: .*\n)*)", text, re.M)
    require(hot and "never:" not in text, text)
    require(re.search(r"^ 4: 0( |$)", hot[1], re.M), "the call in hot() is not known to be cold")
    require(re.search(r"^ 5(\.\d+)?: step:\d+\n((?:  .*\n)*)", hot[1], re.M), text)
    require(re.search(r"^  2: 0( |$)", hot[1], re.M), "the call in step() is not known to be cold")
    require(re.search(r"^  3: 1000$", hot[1], re.M), text)


def counts_fit_into_32_bits(x):
    path = x.dir / "large.json"
    call(x.shadowprof, "merge", "-o", path, f"{x.file}:{1 << 24}")
    text = call(x.shadowprof, "export", "--format", "llvm-sample", path).stdout
    small = x.export("llvm-sample", "x.prof").read_text()
    counts = [int(n) for n in re.findall(r"(?<=: )\d+", text)]
    require(max(counts) < 1 << 32, max(counts))
    before = [int(n) for n in re.findall(r"(?<=: )\d+", small)]
    require([n == 0 for n in counts] == [n == 0 for n in before], "a count became 0, or was")
    highest = before.index(max(before))
    require(max(counts) > 1 << 31 and counts[highest] == max(counts), "scaled by too much")


def llvm_profgen_reads_the_unsymbolized_profile(x):
    path = x.export("llvm-unsymbolized", "x.unsymbolized")
    out = x.dir / "x.profgen"
    call(tool("llvm-profgen"), f"--unsymbolized-profile={path}", f"--binary={x.program}", "-o", out,
         "--format=text")
    ours = sample_counts(x.export("llvm-sample", "x.prof").read_text())
    theirs = sample_counts(out.read_text())
    for name in ("parse", "make_text", "hash"):
        their, our = ([lines for function, lines in counts.items() if name in function]
                      for counts in (theirs, ours))
        require(len(our) == 1 and their == our, f"llvm-profgen says {their}, we say {our}")


def sample_counts(text):
    """{function: {line: count}} of the lines that are not inlined."""
    functions = {}
    for line in text.splitlines():
        head = re.match(r"(\S+):\d+:\d+$", line)
        body = re.match(r" ([\d.]+): (\d+)( .*)?$", line)
        if head:
            current = functions.setdefault(head.group(1), {})
        elif body:
            current[body.group(1)] = int(body.group(2))
    return functions


def perf2bolt_reads_branches(x):
    path = x.export("bolt", "x.preagg")
    out = x.dir / "x.fdata"
    done = call(tool("perf2bolt"), "-pa", "-p", path, "-o", out, x.program)
    said = done.stdout + done.stderr
    require("traces mismatching disassembled function contents: 0 (0.0%)" in said, said)
    require(re.search(r"parse.* 1 [^\n]*parse", out.read_text()), out.read_text()[:2000])


def create_llvm_prof_reads_autofdo(x):
    path = x.export("autofdo", "x.afdo")
    sections = path.read_text().split("\n")
    ranges = int(sections[0])
    require(sections[1 + ranges] == "0", "the section of addresses is not empty")
    require(int(sections[2 + ranges]) == len(sections) - 4 - ranges, "branches are not counted")
    reader = tool("create_llvm_prof")
    if not shutil.which("c++"):
        raise Skipped("c++ is not installed")
    program, out = x.dir / "words4", x.dir / "x.afdo.prof"
    call("c++", "-O1", "-gdwarf-4", "-o", program, x.source)  # it knows no later version
    call(x.shadowprof, "run", "--mode", "full", "-q", "-o", x.dir / "words4.json", "--", program)
    call(x.shadowprof, "export", "--format", "autofdo", "-o", path, x.dir / "words4.json")
    call(reader, "--profiler=text", f"--profile={path}", f"--binary={program}",
         f"--out={out}", "--format=text")
    text = out.read_text(errors="replace")
    require("parse" in text, text[:1000])


def prefetch_hints_are_of_the_load_that_strides_over_memory(x):
    source = x.dir / "stride.c"
    source.write_text("""
#include <stdlib.h>
enum { LINES = 1 << 14, STRIDE = 2112 };
__attribute__((noinline)) long stride(const char *p) {
  long sum = 0;
  for (int i = 0; i < LINES; i++) sum += p[i * (long)STRIDE];
  return sum;
}
int main(void) {
  char *p = malloc(LINES * (long)STRIDE);
  for (long i = 0; i < LINES * (long)STRIDE; i += 64) p[i] = (char)i;
  return stride(p) == 1;
}
""")
    program = x.dir / "stride"
    call("cc", "-O1", "-gdwarf-4", "-o", program, source)  # create_llvm_prof knows no later version
    profile = x.dir / "stride.json"
    call(x.shadowprof, "run", "--mode", "full", "--profile", "latency", "-q", "-o", profile, "--",
         program)
    # Processors foresee such loads; as if this one did not.
    content = read_profile(profile)
    loads = content["tables"]["latencies"]
    row = loads["stride"].index(2112)
    loads["dram"][row] += loads["l1"][row] + loads["l2"][row]
    loads["l1"][row] = loads["l2"][row] = 0
    profile.write_text(json.dumps(content))
    lines = call(x.shadowprof, "export", "--format", "prefetch", profile).stdout.splitlines()
    symbols = {}
    for line in call("nm", program).stdout.splitlines():
        if len(line.split()) == 3:
            symbols[line.split()[2]] = int(line.split()[0], 16)
    for line in lines:
        require(re.fullmatch(r"[0-9a-f]+,-?[0-9]+,(nta|t0|t1|t2)", line), line)
    pc, delta, _ = lines[0].split(",")
    require(symbols["stride"] <= int(pc, 16) < symbols["stride"] + 64, lines[0])
    require(int(delta) % 2112 == 0 and int(delta) > 0, lines[0])
    hints, out = x.dir / "hints.csv", x.dir / "hints.prof"
    call(x.shadowprof, "export", "--format", "prefetch", "-o", hints, profile)
    call(tool("create_llvm_prof"), "--profiler=prefetch", f"--profile={hints}",
         f"--binary={program}", f"--out={out}", "--format=text")
    require(f"__prefetch_t0_0:{delta}" in out.read_text(), out.read_text())


def what_cannot_be_exported_is_one_sentence(x):
    listed = call(x.shadowprof, "export", "--list").stdout.splitlines()
    require([line.split()[0] for line in listed] == sorted(
        ["autofdo", "bolt", "callgrind", "chrome", "firefox", "folded", "llvm-sample",
         "llvm-unsymbolized", "ndjson", "otlp", "perf-script", "pprof", "prefetch", "speedscope"]), listed)
    for arguments in (["--format", "prefetch"], ["--format", "gif"], [],
                      ["--format", "bolt", "--module", "nothing"],
                      ["--format", "folded", "--module", "words_base"],
                      ["--format", "folded", "--host", "h"]):
        done = subprocess.run([x.shadowprof, "export", *arguments, x.file], capture_output=True,
                              text=True, check=False)
        require(done.returncode == 125 and done.stderr.count("\n") == 1 and not done.stdout, done)


CASES = [folded_adds_up, flamegraph_draws_folded, callgrind_annotate_reads_callgrind, pprof_reads_pprof,
         speedscope_is_consistent, speedscope_schema_holds, firefox_profile_has_the_published_columns, chrome_trace_has_the_run,
         chrome_trace_has_samples_and_pauses,
         llvm_reads_the_sample_profile, what_did_not_run_has_count_zero, counts_fit_into_32_bits,
         llvm_profgen_reads_the_unsymbolized_profile,
         perf2bolt_reads_branches, prefetch_hints_are_of_the_load_that_strides_over_memory, create_llvm_prof_reads_autofdo,
         what_cannot_be_exported_is_one_sentence]


def main():
    parser = argparse.ArgumentParser()
    for name in ("--shadowprof", "--program", "--source"):
        parser.add_argument(name, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    return run_in_folder(CASES, Exports, options, "shadowprof-exports-")


if __name__ == "__main__":
    sys.exit(main())
