#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What profiles of shadowprof are worth to a compiler, next to those of instrumented builds.

usage: pgo.py --shadowprof PATH [--lua DIR] [--sqlite DIR] [--work DIR] [--repeat N]

DIR of Lua is the src folder of its sources; DIR of SQLite holds sqlite3.c and shell.c (see
docs/pgo.md). Each program is built by clang -O2, profiled in full mode with a training input, and
built again with what the exports say; builds are then timed with another, larger input, in turn,
N times each. Printed is user CPU time: the least of each build over the least of -O2, and how often
the build was faster than -O2 in the same turn. Every build must print what -O2 prints.
"""

import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DEBUG = ["-g", "-fdebug-info-for-profiling"]
BOLT_OPTIONS = ["-reorder-blocks=ext-tsp", "-reorder-functions=hfsort", "-split-functions",
                "-split-all-cold", "-dyno-stats"]


def tool(name, versions):
    for version in versions:
        for path in (f"/usr/lib/llvm{version}/bin/{name}", shutil.which(name + version)):
            if path and os.path.exists(path):
                return path
    sys.exit(f"{name} is not installed")


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n"
                 f"{done.stderr.decode(errors='replace')[-3000:]}")
    return done.stdout


class Subject:
    """A program: its sources and how it is run for training and for timing."""

    def __init__(self, name, sources, flags, libraries, train, timed, bolt_skips=""):
        self.name, self.sources, self.flags, self.libraries = name, sources, flags, libraries
        self.train, self.timed, self.bolt_skips = train, timed, bolt_skips


def lua(folder):
    sources = [str(f) for f in sorted(pathlib.Path(folder).glob("*.c")) if f.name != "luac.c"]
    script = str(HERE / "work.lua")
    # BOLT 19 cannot move this function: it jumps through a table of labels (computed goto).
    return Subject("lua", sources, ["-DLUA_USE_LINUX"], ["-lm", "-ldl"],
                   [script, "1", "7"], [script, "30", "42"], bolt_skips="luaV_execute.*")


def sqlite(folder, work):
    for name, rows, seed in (("train", 4000, 7), ("timed", 100000, 42)):
        (work / f"{name}.sql").write_text(
            (HERE / "work.sql").read_text().replace("ROWS", str(rows)).replace("SEED", str(seed)))
    sources = [f"{folder}/sqlite3.c", f"{folder}/shell.c"]
    flags = ["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DHAVE_READLINE=0"]
    return Subject("sqlite3", sources, flags, ["-lm"],
                   [":memory:", f".read {work}/train.sql"], [":memory:", f".read {work}/timed.sql"])


class Builder:
    def __init__(self, subject, shadowprof, work):
        self.s, self.shadowprof, self.work = subject, shadowprof, work
        self.clang = tool("clang", ["-14", "-16", "-19", ""])
        llvm = self.clang.split("/llvm-")[1].split("/")[0]
        self.profdata = tool("llvm-profdata", [f"-{llvm}"])
        self.bolt = tool("llvm-bolt", ["-19", "-16"])
        self.perf2bolt = tool("perf2bolt", ["-19", "-16"])

    def build(self, name, *flags):
        out = self.work / f"{self.s.name}-{name}"
        run(self.clang, "-O2", *DEBUG, *self.s.flags, *flags, "-Wl,--emit-relocs", "-o", out,
            *self.s.sources, *self.s.libraries)
        return out

    def export(self, program, form):
        profile, out = f"{program}.json.zst", f"{program}.{form}"
        run(self.shadowprof, "run", "--mode", "full", "-q", "-o", profile, "--", program, *self.s.train)
        run(self.shadowprof, "export", "--format", form, "-o", out, profile)
        return out

    def bolted(self, program):
        out = pathlib.Path(f"{program}-bolt")
        data = f"{program}.fdata"
        run(self.perf2bolt, "-pa", "-p", self.export(program, "bolt"), "-o", data, program)
        skips = [f"-skip-funcs={self.s.bolt_skips}"] if self.s.bolt_skips else []
        run(self.bolt, program, f"-data={data}", "-o", out, *BOLT_OPTIONS, *skips)
        return out

    def instrumented(self):
        program = self.build("instrumented", "-fprofile-generate")
        raw, data = f"{program}.profraw", f"{program}.profdata"
        run(program, *self.s.train, env={**os.environ, "LLVM_PROFILE_FILE": raw})
        run(self.profdata, "merge", "-o", data, raw)
        return self.build("instrumented-use", f"-fprofile-use={data}")

    def all(self):
        base = self.build("o2")
        sample = self.build("sample", f"-fprofile-sample-use={self.export(base, 'llvm-sample')}")
        return {"-O2": base,
                "sample profile (shadowprof)": sample,
                "BOLT (shadowprof)": self.bolted(base),
                "sample profile, then BOLT (shadowprof)": self.bolted(sample),
                "instrumented PGO": self.instrumented()}


def seconds(program, arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    output = run(program, *arguments)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, output


def measure(subject, builds, repeat):
    times = {name: [] for name in builds}
    expected = None
    for _ in range(repeat):
        for name, program in builds.items():
            spent, output = seconds(program, subject.timed)
            expected = expected or output
            if output != expected:
                sys.exit(f"{name} of {subject.name} prints something else")
            times[name].append(spent)
    base = times["-O2"]
    print(f"\n| {subject.name} | user s | of -O2 | faster than -O2 |\n|---|--:|--:|--:|")
    for name, all_times in times.items():
        wins = sum(mine < other for mine, other in zip(all_times, base))
        print(f"| {name} | {min(all_times):.2f} | {min(all_times) / min(base):.3f} | "
              f"{'' if name == '-O2' else f'{wins} of {repeat}'} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--lua")
    parser.add_argument("--sqlite")
    parser.add_argument("--work")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-pgo-") as folder:
        work = pathlib.Path(options.work or folder)
        work.mkdir(exist_ok=True)
        subjects = []
        if options.lua:
            subjects.append(lua(options.lua))
        if options.sqlite:
            subjects.append(sqlite(os.path.abspath(options.sqlite), work))
        for subject in subjects:
            builder = Builder(subject, os.path.abspath(options.shadowprof), work)
            measure(subject, builder.all(), options.repeat)


main()
