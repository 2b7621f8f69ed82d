#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What profiles of shadowprof are worth to a compiler, next to those of instrumented builds.

usage: pgo.py --shadowprof PATH [--lua DIR] [--sqlite DIR] [--tcc DIR] [--work DIR] [--repeat N]
              [--mode full|shadow] [--runs N]

DIR of Lua is the src folder of its sources; DIR of SQLite holds sqlite3.c and shell.c (see
docs/pgo.md); DIR of tcc holds its configured sources. Each program is built by clang -O2, profiled
with a training input, built again with what the exports say, and once more with a profile of that
build. Profiles are of full mode; with --mode shadow as in production: N runs of shadow mode with
its default settings and an input that is long enough for samples, merged. Builds are timed with
another input, in turn, N times each. Printed are user CPU time: the least of each build over the
least of -O2, and how often the build was faster than -O2 in the same turn; executed instructions,
counted in full mode on the same input; and of both, which part of what instrumented PGO saves is
saved. Every build must print what -O2 prints.
"""

import argparse
import json
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
# Counts of lines are made counts of blocks by the flow between blocks, as a whole.
SAMPLE_USE = ["-mllvm", "-sample-profile-use-profi"]
O2, INSTRUMENTED = "-O2", "instrumented PGO"


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

    def __init__(self, name, sources, flags, libraries, *, train, sampled, timed, bolt_skips="",
                 writes=None):
        self.name, self.sources, self.flags, self.libraries = name, sources, flags, libraries
        self.train, self.sampled, self.timed = train, sampled, timed
        self.bolt_skips, self.writes = bolt_skips, writes


def lua(folder):
    sources = [str(f) for f in sorted(pathlib.Path(folder).glob("*.c")) if f.name != "luac.c"]
    script = str(HERE / "work.lua")
    # BOLT 19 cannot move this function: it jumps through a table of labels (computed goto).
    return Subject("lua", sources, ["-DLUA_USE_LINUX"], ["-lm", "-ldl"],
                   train=[script, "1", "7"], sampled=[script, "60", "7"],
                   timed=[script, "12", "42"], bolt_skips="luaV_execute.*")


def sqlite(folder, work):
    for name, rows, seed in (("train", 4000, 7), ("sampled", 200000, 7), ("timed", 40000, 42)):
        (work / f"{name}.sql").write_text(
            (HERE / "work.sql").read_text().replace("ROWS", str(rows)).replace("SEED", str(seed)))
    sources = [f"{folder}/sqlite3.c", f"{folder}/shell.c"]
    flags = ["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DHAVE_READLINE=0"]
    arguments = {name: [":memory:", f".read {work}/{name}.sql"]
                 for name in ("train", "sampled", "timed")}
    return Subject("sqlite3", sources, flags, ["-lm"], **arguments)


def tcc(folder, work, sqlite_folder):
    """A compiler: of SQLite's shell in training, of SQLite itself when timed, many times over."""
    flags = ["-DTCC_TARGET_X86_64", "-DONE_SOURCE=1", f"-I{folder}", "-w"]
    options = [f"-I{folder}/include", "-I/usr/include", "-I/usr/include/x86_64-linux-gnu", "-w",
               "-DSQLITE_THREADSAFE=0", "-c"]
    shell, library = f"{sqlite_folder}/shell.c", f"{sqlite_folder}/sqlite3.c"
    return Subject("tcc", [f"{folder}/tcc.c"], flags, ["-lm", "-ldl", "-lpthread"],
                   train=[*options, shell], sampled=[*options, *[shell] * 350],
                   timed=[*options, *[library] * 10], writes=work / "sqlite3.o")


class Builder:
    def __init__(self, subject, shadowprof, work, mode, runs):
        self.s, self.shadowprof, self.work, self.mode = subject, shadowprof, work, mode
        self.runs = runs
        self.profiles = {}
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

    def profile(self, program):
        """Of the training input; taken once for each program."""
        if program in self.profiles:
            return self.profiles[program]
        profile = self.profiles[program] = pathlib.Path(f"{program}.json")
        if self.mode == "full":
            run(self.shadowprof, "run", "--mode", "full", "-q", "-o", profile, "--", program,
                *self.s.train, cwd=self.work)
            return profile
        parts = [f"{program}.{i}.json.zst" for i in range(self.runs)]
        for part in parts:
            run(self.shadowprof, "run", "-q", "-o", part, "--", program, *self.s.sampled,
                cwd=self.work)
        run(self.shadowprof, "merge", "-o", profile, *parts)
        self.describe(program, parts)
        return profile

    @staticmethod
    def describe(program, parts):
        samples = profiled = cpu_s = cost_s = 0
        for part in parts:
            one = json.loads(run("zstdcat", part))
            overhead = one["overhead"]
            samples += one["coverage"]["samples"]
            profiled += one["coverage"]["instructions_profiled"]
            cpu_s += overhead["program_cpu_s"]
            cost_s += overhead["estimated_share"] * overhead["program_cpu_s"]
        print(f"{program.name}: {samples} samples, {profiled / 1e6:.0f} M instructions in "
              f"{cpu_s:.0f} s of CPU time, estimated cost {100 * cost_s / cpu_s:.2f} %", flush=True)

    def export(self, program, form):
        out = f"{program}.{form}"
        run(self.shadowprof, "export", "--format", form, "-o", out, self.profile(program))
        return out

    def sample_build(self, name, profiled):
        return self.build(name, f"-fprofile-sample-use={self.export(profiled, 'llvm-sample')}",
                          *SAMPLE_USE)

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
        run(program, *self.s.train, cwd=self.work, env={**os.environ, "LLVM_PROFILE_FILE": raw})
        run(self.profdata, "merge", "-o", data, raw)
        return self.build("instrumented-use", f"-fprofile-use={data}")

    def instructions(self, program):
        profile = f"{program}.timed.json"
        run(self.shadowprof, "run", "--mode", "full", "-q", "-o", profile, "--", program,
            *self.s.timed, cwd=self.work)
        with open(profile, encoding="utf-8") as file:
            return json.load(file)["coverage"]["instructions_profiled"]

    def all(self):
        base = self.build("o2")
        first = self.sample_build("sample", base)
        second = self.sample_build("sample2", first)
        return {O2: base,
                "BOLT": self.bolted(base),
                "sample profile": first,
                "sample profile of that build": second,
                "the same, then BOLT": self.bolted(second),
                INSTRUMENTED: self.instrumented()}


def seconds(program, subject, work):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    output = run(program, *subject.timed, cwd=work)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return spent, subject.writes.read_bytes() if subject.writes else output


def measure(builder, builds, repeat):
    subject = builder.s
    times = {name: [] for name in builds}
    expected = None
    for _ in range(repeat):
        for name, program in builds.items():
            spent, output = seconds(program, subject, builder.work)
            expected = expected or output
            if output != expected:
                sys.exit(f"{name} of {subject.name} prints something else")
            times[name].append(spent)
    least = {name: min(all_times) for name, all_times in times.items()}
    executed = {name: builder.instructions(program) for name, program in builds.items()}

    def of_instrumented(figures, name):
        return (figures[O2] - figures[name]) / (figures[O2] - figures[INSTRUMENTED])

    print(f"\n| {subject.name}, {builder.mode} mode | instructions of -O2 | part of instrumented | "
          "user s | of -O2 | part of instrumented | faster than -O2 |\n|---|--:|--:|--:|--:|--:|--:|")
    for name, all_times in times.items():
        if name == O2:
            print(f"| {name} | 1.000 | | {least[name]:.2f} | 1.000 | | |")
            continue
        wins = sum(mine < other for mine, other in zip(all_times, times[O2]))
        print(f"| {name} | {executed[name] / executed[O2]:.3f} | "
              f"{of_instrumented(executed, name):.0%} | {least[name]:.2f} | "
              f"{least[name] / least[O2]:.3f} | {of_instrumented(least, name):.0%} | "
              f"{wins} of {repeat} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--lua")
    parser.add_argument("--sqlite")
    parser.add_argument("--tcc")
    parser.add_argument("--work")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--mode", choices=["full", "shadow"], default="full")
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    if options.tcc and not options.sqlite:
        parser.error("tcc compiles SQLite: --sqlite says where it is")
    with tempfile.TemporaryDirectory(prefix="shadowprof-pgo-") as folder:
        work = pathlib.Path(options.work or folder).absolute()
        work.mkdir(exist_ok=True)
        subjects = []
        if options.lua:
            subjects.append(lua(os.path.abspath(options.lua)))
        if options.sqlite:
            subjects.append(sqlite(os.path.abspath(options.sqlite), work))
        if options.tcc:
            subjects.append(tcc(os.path.abspath(options.tcc), work,
                                os.path.abspath(options.sqlite)))
        for subject in subjects:
            builder = Builder(subject, os.path.abspath(options.shadowprof), work, options.mode,
                              options.runs)
            measure(builder, builder.all(), options.repeat)


main()
