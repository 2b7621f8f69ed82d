#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What full mode keeps for later runs saves them stops, and changes nothing of their profiles.

usage: kept_files.py --shadowprof SHADOWPROF --guest-dir DIR [--only NAME]

Each program is run without a folder for what is kept, with an empty one, and again; then with files that are
damaged, another program's, of another state of the program, or somebody else's. All profiles must be equal but
for times and what concerns the tracer. Shells write process ids down: they are left out where these are not the
program's own (docs/deterministic.md).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

# Two threads, and the time that each has then.
CLOCKS = "import threading, time; print(time.monotonic_ns(), flush=True); " \
         "t = threading.Thread(target=lambda: print(time.monotonic_ns(), flush=True)); t.start(); t.join(); " \
         "print(time.monotonic_ns())"
SHELL = ["sh", "-c", "for i in 1 2 3; do echo $i; done"]
# Name, options, command; G/NAME is a guest.
PROGRAMS = [
    ("true", [], ["true"]),
    ("sh", [], SHELL),
    ("perl", [], ["perl", "-e", "print join(',', map { $_ * $_ } 1 .. 9), qq(\\n)"]),
    ("python3", ["--env", "PYTHONHASHSEED=0"], ["/usr/bin/python3", "-c", "pass"]),
    ("gzip", [], ["gzip", "-c", "input"]),
    ("bc", [], ["bc", "-q", "sums"]),
    ("sqlite3", [], ["sqlite3", ":memory:", "create table t(a); insert into t values(1), (2); select sum(a) from t"]),
    ("signals", [], ["G/sig_kinds.O2"]),
    ("handlers that change contexts", [], ["G/sig_context.O2"]),
    ("exceptions", [], ["G/flow_exceptions.O2"]),
    ("code that changes itself", [], ["G/jit_self"]),
    ("code that is written anew", [], ["G/jit_rewrite"]),
    ("libraries that come and go", [], ["G/jit_dlopen"]),
    ("exec", [], ["sh", "-c", "exec echo done"]),
    ("processes", [], ["G/proc_exec.O2"]),
    ("fork", ["-f"], ["G/proc_fork.O2"]),
    ("threads", [], ["G/thr_life.O2"]),
    ("clocks of threads", [], ["/usr/bin/python3", "-I", "-c", CLOCKS]),
    ("a pipeline", ["-f"], ["sh", "-c", "echo 1 2 3 | cat"]),
]
# What children do natively they do at their own time, and orphans see when their parents end.
DIFFER = ("processes", "fork")
TRACED = ["--profile", "edge,call,path,value"]
NOBODY = 65534


class Run:
    """A deterministic run: its profile without times, and how often the program was stopped."""

    def __init__(self, bench, cache, options, command):
        path = os.path.join(bench.directory, "profile.json")
        environment = {"PATH": os.environ["PATH"]}
        if cache:
            environment["XDG_CACHE_HOME"] = cache
        done = subprocess.run(
            [bench.shadowprof, "run", "-q", "--mode", "full", "--deterministic", "--clean-env", "-o", path, *options, "--",
             *command], env=environment, timeout=120, cwd=bench.directory, capture_output=True)
        self.end = (done.returncode, done.stdout, done.stderr)
        with open(path, encoding="utf-8") as file:
            self.profile = json.load(file)
        os.remove(path)
        self.has_own_ids = self.profile["run"]["options"]["ids"] == "own"
        stops = self.profile.pop("overhead")["stops"]
        self.misses = stops["miss"] + stops["indirect_miss"]
        for key in "started", "duration_s", "pid":
            del self.profile["run"][key]
        for image in self.profile["run"].get("images", []):
            image.pop("at_s", None)
        for thread in self.profile.get("threads", []):
            del thread["tid"], thread["process"]

    def differs_from(self, other):
        if self.end != other.end:
            return f"ended with {self.end}, and not with {other.end}"
        parts = [key for key in other.profile if self.profile.get(key) != other.profile[key]]
        if "tables" in parts:
            parts += [f"tables.{key}" for key, table in other.profile["tables"].items()
                      if self.profile["tables"].get(key) != table]
        return f"other {', '.join(parts)}" if parts else ""


def kept_in(cache):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(cache) for name in names)


def rewrite(path, how):
    """In place, as it is: the same file with other bytes, and no newer."""
    times = os.stat(path)
    with open(path, "rb") as file:
        whole = file.read()
    with open(path, "wb") as file:
        file.write(how(whole))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def flipped(whole):
    middle = len(whole) // 2
    return whole[:middle] + bytes([whole[middle] ^ 0x55]) + whole[middle + 1:]


DAMAGES = {
    "empty": lambda whole: b"",
    "cut off": lambda whole: whole[:len(whole) // 2],
    "longer": lambda whole: whole + b"\0",
    "changed": flipped,
    "something else": lambda whole: b"\xff" * len(whole),
}


class Bench:
    def __init__(self, shadowprof, guests, directory):
        self.shadowprof, self.guests, self.directory = shadowprof, guests, directory
        self.failed = 0
        with open(os.path.join(directory, "input"), "w", encoding="ascii") as file:
            file.write("".join(f"{i * i} line\n" for i in range(300)))
        with open(os.path.join(directory, "sums"), "w", encoding="ascii") as file:
            file.write("2 ^ 100\n1 / 7\nquit\n")

    def check(self, what, wrong):
        self.failed += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '}  {what}" + (f": {wrong}" if wrong else ""), flush=True)

    def new_cache(self):
        return tempfile.mkdtemp(prefix="cache-", dir=self.directory)

    def command_of(self, words):
        return [os.path.join(self.guests, word[2:]) if word.startswith("G/") else word for word in words]

    def is_there(self, command):
        return shutil.which(command[0], path=os.environ["PATH"]) is not None


def programs_are_profiled_alike(bench, only):
    for name, options, words in PROGRAMS:
        command = bench.command_of(words)
        if only and only != name:
            continue
        if not bench.is_there(command):
            print(f"skip  {name}: {command[0]} is not here")
            continue
        cache = bench.new_cache()
        without = Run(bench, None, options, command)
        if command[0] == "sh" and not without.has_own_ids:
            print(f"skip  {name}: process ids are real here")
            continue
        empty = Run(bench, cache, options, command)
        warm = Run(bench, cache, options, command)
        if name in DIFFER:
            bench.check(f"{name}: it ends as it does", (warm.end != without.end) and f"{warm.end}")
        else:
            bench.check(f"{name}: an empty folder changes nothing", empty.differs_from(without))
            bench.check(f"{name}: what is in it changes nothing", warm.differs_from(without))
        bench.check(f"{name}: and saves stops", warm.misses >= empty.misses and f"{warm.misses} of {empty.misses}")


def traces_have_no_use_for_them(bench):
    """What is translated decides which arguments functions are seen to have."""
    cache = bench.new_cache()
    Run(bench, cache, [], SHELL)
    before = Run(bench, None, TRACED, SHELL)
    run = Run(bench, cache, TRACED, SHELL)
    bench.check("traces have no use for what is kept", run.misses != before.misses and f"{run.misses}, {before.misses}")


def damaged_files_are_none(bench):
    cache = bench.new_cache()
    without = Run(bench, None, [], SHELL)
    first = Run(bench, cache, [], SHELL)
    kept = kept_in(cache)
    folders = {os.path.basename(os.path.dirname(path)) for path in kept}
    bench.check("names and code are kept", folders != {"names", "code"} and f"there is {kept}")
    bench.check("only their owner may read them",
                next((path for path in kept + [os.path.dirname(p) for p in kept] if os.stat(path).st_mode & 0o077), ""))
    again = Run(bench, cache, [], SHELL)
    bench.check("most stops are saved", 2 * again.misses > first.misses and f"{again.misses} of {first.misses}")

    def expect(what, run, misses):
        wrong = run.differs_from(without)
        bench.check(what, wrong or (run.misses != misses and f"{run.misses} stops, and not {misses}"))

    for name, how in DAMAGES.items():
        for path in kept:
            rewrite(path, how)
        expect(f"files that are {name} are ignored", Run(bench, cache, [], SHELL), first.misses)
        expect("and made anew", Run(bench, cache, [], SHELL), again.misses)
    for path in kept:
        os.chmod(path, 0o666)
    expect("files that others may write to are ignored", Run(bench, cache, [], SHELL), first.misses)
    if os.geteuid() == 0:
        for path in kept:
            os.chown(path, NOBODY, NOBODY)
        expect("so are files that somebody else owns", Run(bench, cache, [], SHELL), first.misses)
        os.chown(os.path.join(cache, "shadowprof"), NOBODY, NOBODY)
        expect("and a folder that somebody else owns", Run(bench, cache, [], SHELL), first.misses)
        bench.check("which is left as it is", kept_in(cache) != kept and "it has other files")
    else:
        print("skip  files that somebody else owns: only root can give files away")
    os.chmod(cache, 0o777)
    expect("a folder that others may write to is ignored", Run(bench, cache, [], SHELL), first.misses)
    expect("a folder that cannot be made does not matter", Run(bench, "/proc/none", [], SHELL), first.misses)


def another_program_s_file_is_none(bench):
    cache = bench.new_cache()
    Run(bench, cache, [], ["true"])
    (of_true,) = kept_in(os.path.join(cache, "shadowprof", "code"))
    Run(bench, cache, [], SHELL)
    (of_shell,) = [path for path in kept_in(os.path.join(cache, "shadowprof", "code")) if path != of_true]
    shutil.copyfile(of_true, of_shell)
    without = Run(bench, None, [], SHELL)
    run = Run(bench, cache, [], SHELL)
    bench.check("another program's file is ignored", run.differs_from(without) or
                (run.misses != without.misses and f"{run.misses} stops, and not {without.misses}"))


def a_program_that_was_built_anew_is_another(bench):
    program = os.path.join(bench.directory, "program")
    builds = [bench.command_of([name])[0] for name in ("G/exact_loops.bare", "G/exact_calls.bare")]
    wholes = []
    for build in builds:
        with open(build, "rb") as file:
            wholes.append(file.read())
    size = max(map(len, wholes)) + 1
    cache = bench.new_cache()

    def install(whole):
        with open(program, "wb") as file:
            file.write(whole)
        os.chmod(program, 0o755)

    install(wholes[0])
    Run(bench, cache, [], [program])
    install(wholes[1])
    without = Run(bench, None, [], [program])
    bench.check("a program that was built anew is another", Run(bench, cache, [], [program]).differs_from(without))
    # The worst: nothing but the bytes says that it is another one, so that what is expected is wrong.
    padded = [whole + bytes(size - len(whole)) for whole in wholes]
    install(padded[0])
    Run(bench, cache, [], [program])
    rewrite(program, lambda _: padded[1])
    without = Run(bench, None, [], [program])
    bench.check("what is expected wrongly changes nothing", Run(bench, cache, [], [program]).differs_from(without))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--guest-dir", required=True)
    parser.add_argument("--only", metavar="NAME", help="only this program, compared with itself")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-kept-") as directory:
        bench = Bench(os.path.abspath(options.shadowprof), os.path.abspath(options.guest_dir), directory)
        programs_are_profiled_alike(bench, options.only)
        if not options.only:
            traces_have_no_use_for_them(bench)
            damaged_files_are_none(bench)
            another_program_s_file_is_none(bench)
            a_program_that_was_built_anew_is_another(bench)
        return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
