#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What profiles of shadowprof are worth to a compiler, next to those of instrumented builds.

usage: pgo.py --shadowprof PATH [--lua DIR] [--sqlite DIR] [--tcc DIR] [--xz DIR] [--zstd DIR]
              [--work DIR] [--repeat N] [--mode full|shadow] [--runs N] [--llvm VERSION]
              [--builds NAME,...]

DIR of Lua is the src folder of its sources; DIR of SQLite holds sqlite3.c and shell.c (see
docs/pgo.md); the others hold sources that are configured, if they need it. Each program is built by
clang -O2, profiled with a training input (for the compiler a build with PROFILED is), built again with
what the exports say, and once more with the profile of that build added to the first one; bolt works
on the first and the second build. With --builds, only these (o2 and instrumented always). Profiles are
of full mode; with --mode shadow as in production: N runs of shadow mode with its default settings and
an input that is long enough for samples, merged.

Builds are compared on another input. Counted in full mode: executed instructions, and which part of
what instrumented PGO saves of them is saved; taken branches; and how many cache lines of code 99 % of
the instructions are in. Run in turn, --repeat times each: cycles in user mode, where perf can count
them, and user CPU time; of each the least over the least of -O2, and the median over all turns of its
ratio to -O2 in the same turn. Every build must print what -O2 prints.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile

import measure
import subjects
from subjects import run

DEBUG = ["-g", "-fdebug-info-for-profiling"]
PROBES = ["-g", "-fpseudo-probe-for-profiling"]
BOLT_OPTIONS = ["-reorder-blocks=ext-tsp", "-reorder-functions=hfsort", "-split-functions",
                "-split-all-cold", "-dyno-stats"]
# Counts of lines are made counts of blocks by the flow between blocks, as a whole.
SAMPLE_USE = ["-mllvm", "-sample-profile-use-profi"]
# Calls through pointers that are made one call have no line afterwards: the profiled build keeps them.
PROFILED = ["-mllvm", "-simplifycfg-sink-common=false", "-mllvm", "-enable-tail-merge=false"]
O2, INSTRUMENTED = "-O2", "instrumented PGO"


def tool(name, versions):
    for version in versions:
        for path in (f"/usr/lib/llvm{version}/bin/{name}", shutil.which(name + version)):
            if path and os.path.exists(path):
                return path
    sys.exit(f"{name} is not installed")


class Builder:
    def __init__(self, subject, work, options):
        self.s, self.work, self.mode, self.runs = subject, work, options.mode, options.runs
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.profiles = {}
        self.clang = tool("clang", [f"-{options.llvm}"])
        self.profdata = tool("llvm-profdata", [f"-{options.llvm}"])

    def build(self, name, *flags, debug=tuple(DEBUG)):
        out = self.work / f"{self.s.name}-{name}"
        self.s.compile(self.clang, ["-O2", *debug, *flags], ["-Wl,--emit-relocs"], out)
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

    def sample_build(self, name, *profiled):
        """Of the profiles of these builds, added up."""
        data = f"{self.work}/{self.s.name}-{name}.prof"
        run(self.profdata, "merge", "--sample", "-o", data,
            *(self.export(program, "llvm-sample") for program in profiled))
        return self.build(name, f"-fprofile-sample-use={data}", *SAMPLE_USE)

    def probe_build(self, name):
        """Blocks are found by probes, and not by lines: by llvm-profgen, of what executed."""
        program = self.build("probes", debug=PROBES)
        data = f"{program}.prof"
        run(tool("llvm-profgen", ["-19", "-18", "-17", "-16"]), f"--binary={program}", "-o", data,
            f"--unsymbolized-profile={self.export(program, 'llvm-unsymbolized')}")
        return self.build(name, f"-fprofile-sample-use={data}", *SAMPLE_USE, debug=PROBES)

    def bolted(self, program):
        out = pathlib.Path(f"{program}-bolt")
        data = f"{program}.fdata"
        versions = ["-19", "-16"]
        run(tool("perf2bolt", versions), "-pa", "-p", self.export(program, "bolt"), "-o", data,
            program)
        skips = [f"-skip-funcs={self.s.bolt_skips}"] if self.s.bolt_skips else []
        said = run(tool("llvm-bolt", versions), program, f"-data={data}", "-o", out, *BOLT_OPTIONS,
                   *skips)
        pathlib.Path(f"{out}.log").write_bytes(said)
        return out

    def instrumented(self):
        program = self.build("instrumented", "-fprofile-generate")
        raw, data = f"{program}.profraw", f"{program}.profdata"
        run(program, *self.s.train, cwd=self.work, env={**os.environ, "LLVM_PROFILE_FILE": raw})
        run(self.profdata, "merge", "-o", data, raw)
        return self.build("instrumented-use", f"-fprofile-use={data}")

    def all(self, wanted):
        builds = {O2: self.build("o2")}
        base = builds[O2]
        if "bolt" in wanted:
            builds["BOLT"] = self.bolted(base)
        profiled = first = None
        if {"sample", "sample-bolt", "sample2"} & wanted:
            profiled = self.build("profiled", *PROFILED)
            first = builds["sample profile"] = self.sample_build("sample", profiled)
        if "sample-bolt" in wanted:
            builds["sample profile, then BOLT"] = self.bolted(first)
        if "sample2" in wanted:
            builds["sample profile, both builds'"] = self.sample_build("sample2", profiled, first)
        if "probes" in wanted:
            builds["sample profile by probes"] = self.probe_build("probes-use")
        return {**builds, INSTRUMENTED: self.instrumented()}


def chosen_subjects(options, work):
    def given(name):
        return getattr(options, name) and os.path.abspath(getattr(options, name))

    if options.lua:
        yield subjects.lua(given("lua"))
    if options.sqlite:
        yield subjects.sqlite(given("sqlite"), work)
    if options.tcc:
        yield subjects.tcc(given("tcc"), work, given("sqlite"))
    if options.xz:
        yield subjects.xz(given("xz"), work, given("sqlite"))
    if options.zstd:
        yield subjects.zstd(given("zstd"), work, given("sqlite"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    for name in ("lua", "sqlite", "tcc", "xz", "zstd", "work"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--only", default="", help="of the programs that are given")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--mode", choices=["full", "shadow"], default="full")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--llvm", default="14", help="of clang")
    parser.add_argument("--builds", default="bolt,sample,sample-bolt,sample2")
    options = parser.parse_args()
    if (options.tcc or options.xz or options.zstd) and not options.sqlite:
        parser.error("the others work on SQLite's sources: --sqlite says where they are")
    with tempfile.TemporaryDirectory(prefix="shadowprof-pgo-") as folder:
        work = pathlib.Path(options.work or folder).absolute()
        work.mkdir(exist_ok=True)
        for subject in chosen_subjects(options, work):
            if options.only and subject.name not in options.only.split(","):
                continue
            builder = Builder(subject, work, options)
            builds = builder.all(set(options.builds.split(",")))
            times = measure.times_in_turn(subject, builds, work, options.repeat)
            counts = {name: measure.counted(builder.shadowprof, program, subject, work)
                      for name, program in builds.items()}
            measure.print_table(f"{subject.name}, {options.mode} mode", counts, times, O2,
                                INSTRUMENTED)


main()
