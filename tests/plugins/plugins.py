#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Plug-ins on programs whose loads, values and blocks are known; and plug-ins that break, and what is left of the run.

usage: plugins.py --shadowprof PATH --programs FOLDER --plugins FOLDER --examples FOLDER [--only CASE]

FOLDERs: where known_probes and known_strides are, the plug-ins of this folder, and those of examples/plugins. Ends with
"N passed, N failed, N skipped"; status 1 on failure.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "profile"), os.path.join(TESTS, "gate")]
from gate_cases import Skipped, require, run_cases  # noqa: E402  pylint: disable=wrong-import-position
from profile_file import read_profile  # noqa: E402  pylint: disable=wrong-import-position

MARK = "PLUGIN_TEST"
WORDS = 1 << 21  # of known_strides
LOADS = {"by_8": WORDS // 8, "by_1088": (WORDS + 135) // 136, "down_by_64": WORDS // 8 - 1, "at_random": WORDS // 64}
STRIDES = {"by_8": "+8", "by_1088": "+1088", "down_by_64": "-64"}
FULL, SHADOW, BURST = ["--mode", "full"], ["--max-overhead", "20%"], ["--mode", "burst", "--max-overhead", "20%"]
SIGSEGV = "it ended early: it was ended by signal 11 (Segmentation fault)"
HUNG = "it ended early: a call has not returned for 10 seconds"


class Plugins:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.programs = pathlib.Path(options.programs).resolve()
        self.folders = [pathlib.Path(options.plugins).resolve(), pathlib.Path(options.examples).resolve()]
        self.path = os.path.join(folder, "profile.json")
        self.environment = {**os.environ, MARK: folder}

    def plugin(self, name):
        return next(str(folder / f"{name}.so") for folder in self.folders if (folder / f"{name}.so").exists())

    def command(self, plugins, options, *program):
        return [self.shadowprof, "run", *options, "--profile", "edge", "--top", "20000", "-o", self.path,
                *(word for name in plugins for word in ("--plugin", self.plugin(name))), "--", *map(str, program)]

    def run(self, plugins, options, *program, status=0, **environment):
        done = subprocess.run(self.command(plugins, options, *program), check=False, capture_output=True, text=True,
                              timeout=300, env={**self.environment, **environment})
        require(done.returncode == status, done.returncode, done.stderr)
        return read_profile(self.path), done

    def known(self, plugins, options, name, size, **environment):
        profile, done = self.run(plugins, options, self.programs / f"known_{name}", size, **environment)
        return profile, json.loads(done.stdout), done.stderr


def rows_of(profile, name):
    """Cells of a plug-in's rows with their weights; of a place the function's name."""
    rows = {}
    for row in profile["hotlists"]["plugins"]:
        if row["plugin"] == name:
            key = tuple(c["place"].get("function", "?") if "place" in c else c.get("text", c.get("number")) for c in row["cells"])
            rows[key] = rows.get(key, 0) + row["weight"]
    return rows


def info_of(profile, name):
    return next(plugin for plugin in profile["plugins"] if plugin["name"] == name)


def equal(what, found, wanted):
    require(found == wanted, f"{what}: {found}, not {wanted}")


def nearly(what, found, wanted):
    """A profile's counts are weighed, a plug-in's are not. The sum is the same, but for rows that are less than a
    fifty-thousandth of their group of samples, of which some hundreds stay as they are, and for rounding."""
    require(abs(found - wanted) <= 10 + wanted / 1e3, f"{what}: {found}, not about {wanted}")


def known_counts_in_full_mode(p):
    profile, facts, errors = p.known(["kinds"], ["-q", *FULL], "probes", 20000)
    rows = {what: weight for (what, number), weight in rows_of(profile, "kinds").items() if number == 0}
    equal("instructions", rows["instructions"], profile["coverage"]["instructions_profiled"])
    equal("wrong", rows["wrong"], 0)
    equal("latencies", rows["latency"], 0)
    require(rows["load"] > 0 and rows["store"] > 0 and rows["bytes"] > rows["load"], rows)
    values = {number: weight for (what, number), weight in rows_of(profile, "kinds").items() if what == "read_at"}
    for k in range(4):
        equal(f"values {100 + k}", values.get(100 + k), (facts["rounds"] + 3 - k) // 4)
    equal("problems", info_of(profile, "kinds")["problems"], [])
    equal("records", info_of(profile, "kinds")["records"],
          sum(rows[kind] for kind in ("block", "load", "store", "value", "latency")))
    equal("what is said", errors, "")
    counted = subprocess.run([p.shadowprof, "stat", "--json", "--", p.programs / "known_probes", "20000"], check=True,
                             capture_output=True, text=True).stderr
    require('"loads"' in counted, counted)


def latencies(p):
    profile, _, _ = p.known(["kinds"], ["-q", *FULL], "probes", 2000, PLUGIN_LATENCIES="1")
    rows = {what: weight for (what, _), weight in rows_of(profile, "kinds").items()}
    # Loads of the thread's control block are timed, and have no record of their own.
    require(0 < rows["latency"] < 1.1 * rows["load"], rows)
    equal("wrong", rows["wrong"], 0)


def pages_and_strides_in_full_mode(p):
    rounds = 2
    profile, _, _ = p.known(["pages", "strides"], ["-q", *FULL], "strides", rounds)
    pages = rows_of(profile, "pages")
    for function, loads in LOADS.items():
        equal(f"{function}: loads", sum(w for (f, _), w in pages.items() if f == function), rounds * loads)
    strides = rows_of(profile, "strides")
    for function, stride in STRIDES.items():
        equal(f"{function}: strides", strides.get((function, stride)), rounds * (LOADS[function] - 1))
    merged = p.path + ".merged"
    subprocess.run([p.shadowprof, "merge", "-o", merged, p.path, p.path], check=True, capture_output=True)
    both = read_profile(merged)
    for row in STRIDES.items():
        equal(f"merged {row}", rows_of(both, "strides")[row], 2 * strides[row])
    equal("merged", both["tables"]["plugins"]["weight"], [2 * n for n in profile["tables"]["plugins"]["weight"]])


def number_of_pages(p):
    profile, _, _ = p.known(["pages"], ["-q", *FULL], "strides", 1)
    pages = [page for function, page in rows_of(profile, "pages") if function == "by_8"]
    require(512 <= len(pages) <= 513, len(pages))
    require(all(page % 4096 == 0 for page in pages) and max(pages) - min(pages) == 4096 * (len(pages) - 1), "no pages in a row")


def sampled(p, options):
    profile, _, _ = p.known(["kinds", "pages", "strides"], ["-q", *options], "strides", 600)
    kinds = {what: weight for (what, _), weight in rows_of(profile, "kinds").items()}
    if kinds["begin"] < 3:
        raise Skipped(f"the machine was too busy for samples: {kinds['begin']}")
    equal("wrong", kinds["wrong"], 0)
    require(kinds["begin"] >= kinds["end"] > 0, kinds)
    left_out = info_of(profile, "kinds")["samples_left_out"] + info_of(profile, "kinds")["samples_cut"]
    if left_out == 0:
        nearly("instructions", kinds["instructions"], profile["coverage"]["instructions_profiled"])
    strides = rows_of(profile, "strides")
    for function, stride in STRIDES.items():
        mine = {s: weight for (f, s), weight in strides.items() if f == function}
        if mine:
            require(mine[stride] > 0.98 * sum(mine.values()), function, mine)
    pages = {f for f, _ in rows_of(profile, "pages")}
    require(pages & set(LOADS), pages)
    if not {f for f, _ in strides} & set(STRIDES):
        raise Skipped(f"all samples were of other functions: {strides}")
    require(any((f, s) in strides for f, s in STRIDES.items()), strides)


def strides_in_shadow_mode(p):
    sampled(p, SHADOW)


def strides_in_burst_mode(p):
    sampled(p, BURST)


def broken_ones_end_alone(p):
    for does, problem in (("records-crash", SIGSEGV), ("records-exit", "it ended early: it ended itself, with status 3"),
                          ("table-crash", SIGSEGV + " while it made its table"),
                          ("table-exit", "it ended early: it ended itself, with status 3 while it made its table")):
        for options, loop in ((FULL, 1), (SHADOW, 1000000)):
            profile, done = p.run(["broken", "pages"], options, "/bin/sh", "-c",
                                  f"i=0; while [ $i -lt {loop} ]; do i=$((i + 1)); done; echo out; exit 7", status=7, PLUGIN_DOES=does)
            equal("output", done.stdout, "out\n")
            if profile["coverage"]["samples"] == 0:
                raise Skipped("the machine was too busy for samples")
            equal(does, info_of(profile, "broken")["problems"], [problem])
            equal(f"{does}: rows", rows_of(profile, "broken"), {})
            equal("said", sum(problem in line and "broken.so" in line for line in done.stderr.splitlines()), 1)
            equal("the other one", info_of(profile, "pages")["problems"], [])
            if options == FULL:
                require(rows_of(profile, "pages"), "no pages")
    profile, _ = p.run(["broken"], ["-q", *FULL], "/bin/true", PLUGIN_DOES="place")
    equal("places", info_of(profile, "broken")["problems"], ["rows named places that there are not"])


def hanging_ones_end_after_ten_seconds(p):
    for does, options, size in (("records-hang", FULL, 200000), ("table-hang", FULL, 1)):
        begun = time.monotonic()
        profile, _, _ = p.known(["broken", "kinds"], options, "probes", size, PLUGIN_DOES=does)
        took = time.monotonic() - begun
        require(took > 9.5, does, took)
        equal(does, info_of(profile, "broken")["problems"], [HUNG])
        equal("the other one", info_of(profile, "kinds")["problems"], [])


def useless_ones_are_refused(p):
    for does, why in (("version", "it has version 99 of the interface, and this is version 1"),
                      ("load-crash", "it was ended by signal 11 (Segmentation fault)"), ("null", "returns nothing"),
                      ("begin-exit", "it ended itself, with status 3"), ("begin-hang", "a call has not returned for 10 seconds")):
        for options in (FULL, SHADOW) if does != "begin-hang" else (FULL,):
            done = subprocess.run(p.command(["broken"], options, "/bin/echo", "started"), check=False, capture_output=True,
                                  text=True, env={**p.environment, "PLUGIN_DOES": does})
            equal(does, (done.returncode, done.stdout, done.stderr.count("\n")), (125, "", 1))
            require(why in done.stderr, done.stderr)
    done = subprocess.run(p.command(["unrelated"], FULL, "/bin/true"), check=False, capture_output=True, text=True)
    require(done.returncode == 125 and "it has no function shadowprof_collector" in done.stderr, done.stderr)
    done = subprocess.run(p.command(["kinds", "kinds"], FULL, "/bin/true"), check=False, capture_output=True, text=True)
    require(done.returncode == 125 and "two plug-ins have the name kinds" in done.stderr, done.stderr)


def a_slow_one_is_not_given_all_samples(p):
    begun = time.monotonic()
    profile, _, _ = p.known(["kinds"], ["-q", *SHADOW, "--profile", "edge,address"], "strides", 600, PLUGIN_SLOW="300000")
    info = info_of(profile, "kinds")
    if profile["coverage"]["samples"] < 10:
        raise Skipped(f"the machine was too busy for samples: {profile['coverage']['samples']}")
    require(info["samples_left_out"] > 0, info)
    equal("problems", info["problems"], [])
    require(time.monotonic() - begun < 120, "it took too long")


def the_program_sees_nothing_of_it(p):
    script = ("import os, resource, signal\n"
              "print(sorted(os.listdir('/proc/self/fd')), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime)\n"
              "print(signal.getsignal(signal.SIGCHLD), signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
              "try: print(os.waitpid(-1, os.WNOHANG))\n"
              "except ChildProcessError as e: print(e)\n")
    native = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    for options in (FULL, SHADOW, BURST):
        _, done = p.run(["kinds", "broken"], ["-q", *options], sys.executable, "-c", script, PLUGIN_DOES="records-crash")
        equal("seen", done.stdout, native)


def profiles_so_far_and_of_intervals(p):
    with subprocess.Popen([p.programs / "known_strides", "1000000"], stdout=subprocess.DEVNULL) as program, tempfile.TemporaryDirectory() as folder:
        try:
            attach = [p.shadowprof, "attach", "-q", "--max-overhead", "20%", "--profile", "edge", "--plugin", p.plugin("kinds")]
            with subprocess.Popen([*attach, "-d", "6", "-o", p.path, str(program.pid)], env=p.environment) as tracer:
                pathlib.Path(p.path).unlink(missing_ok=True)
                time.sleep(2.5)
                tracer.send_signal(signal.SIGUSR2)
                while not os.path.exists(p.path):
                    require(tracer.poll() is None, "no profile so far")
                    time.sleep(0.05)
                early = rows_of(read_profile(p.path), "kinds")
                equal("status", tracer.wait(timeout=60), 0)
            late = rows_of(read_profile(p.path), "kinds")
            require(early[("begin", 0)] <= late[("begin", 0)], early, late)
            equal("wrong", late[("wrong", 0)], 0)
            subprocess.run([*attach, "-d", "5", "--every", "2s", "-o", folder + "/app.json", str(program.pid)], check=True,
                           env=p.environment, timeout=60)
            files = sorted(pathlib.Path(folder).iterdir())
            require(len(files) >= 2, files)
            for file in files:
                profile = read_profile(file)
                rows, info = rows_of(profile, "kinds"), info_of(profile, "kinds")
                equal("problems", info["problems"], [])
                if info["samples_left_out"] + info["samples_cut"] == 0:
                    nearly(file.name, rows[("instructions", 0)], profile["coverage"]["instructions_profiled"])
        finally:
            program.kill()


def reports_show_it(p):
    p.known(["kinds", "strides"], ["-q", *FULL], "strides", 1)
    text = subprocess.run([p.shadowprof, "report", p.path], check=True, capture_output=True, text=True).stdout
    require("Plug-in kinds" in text and "kinds.so, given" in text and "+1088" in text, text)
    page = p.path + ".html"
    subprocess.run([p.shadowprof, "report", "--html", "-o", page, p.path], check=True)
    require("+1088" in pathlib.Path(page).read_text(encoding="utf-8"), "not on the page")
    for shown in (text, pathlib.Path(page).read_text(encoding="utf-8")):
        require("hostile" in shown and "\x1b[31m" not in shown and "\u202e" not in shown, "not made harmless")
    said = subprocess.run([p.shadowprof, "diff", p.path, p.path], check=True, capture_output=True, text=True).stderr
    require("what plug-ins have made" in said, said)


def nobody_is_left(p):
    """Of all runs before."""
    def left():
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{MARK}={p.environment[MARK]}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "comm").read_text().strip())
        return found
    end = time.monotonic() + 5
    while left() and time.monotonic() < end:
        time.sleep(0.1)
    equal("left", left(), [])


CASES = [known_counts_in_full_mode, latencies, pages_and_strides_in_full_mode, number_of_pages, strides_in_shadow_mode,
         strides_in_burst_mode, broken_ones_end_alone, hanging_ones_end_after_ten_seconds, useless_ones_are_refused,
         a_slow_one_is_not_given_all_samples, the_program_sees_nothing_of_it, profiles_so_far_and_of_intervals,
         reports_show_it, nobody_is_left]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--shadowprof", "--programs", "--plugins", "--examples"):
        parser.add_argument(name, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-plugins-") as folder:
        return run_cases(CASES, Plugins(options, folder), options.only)


if __name__ == "__main__":
    sys.exit(main())
