#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts/external says of tests that are the same, different, unstable, or hang under a profiler.

usage: suites_test.py ROOT

The suite is a toy of shell scripts, and the profiler a script that sets a variable: what differs is known.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import external_compare  # noqa: E402
import external_judge  # noqa: E402
import external_page  # noqa: E402
import external_runs  # noqa: E402
import external_suites  # noqa: E402

PROFILER = """#!/bin/sh
while [ "$1" != -- ]; do
  if [ "$1" = -f ]; then export FOLLOWED=yes; fi
  if [ "$1" = -o ]; then profile=$2; fi
  shift
done
shift
echo "shadowprof: a line of its own" >&2
if [ ! -e "$0.silent" ]; then echo {} >"$profile"; fi
PROFILED=yes exec "$@"
"""
COUNT = 'count=$(readlink -f "$0").count; echo x >>"$count"; runs=$(grep -c x "$count")\n'
TOYS = {
    "same": "echo $$; echo one; echo two >&2",
    "status": 'if [ "$PROFILED" ]; then exit 3; fi',
    "signal": 'if [ "$PROFILED" ]; then kill -SEGV $$; fi',
    "line": 'if [ "$PROFILED" ]; then echo here; else echo there; fi',
    "result": 'echo "TAP version 13"; if [ "$PROFILED" ]; then echo "not ok 1 open"; else echo "ok 1 open"; fi',
    "once": COUNT + 'if [ "$PROFILED" ] && [ $runs = 3 ]; then exit 3; fi',
    "unstable": COUNT + "if [ $runs = 1 ]; then echo first; fi",
    "counts": COUNT + "echo run $runs",
    "late": COUNT + "[ $runs -le 4 ] || exit 1; [ ! \"$PROFILED\" ] || exit 2",
    "slow": 'if [ "$PROFILED" ]; then sleep 2; fi',
    "hang": 'if [ "$PROFILED" ]; then sleep 100; fi',
    "long": "sleep 100",
    "leaves": 'setsid sleep 100 & if [ "$FOLLOWED" ]; then wait; fi',
    "skips": "exit 4",
}


class ToySuite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        toys = self.top / "kselftest" / "toy"
        toys.mkdir(parents=True)
        for name, body in TOYS.items():
            self.script(toys / name, f"#!/bin/sh\n{body}\n")
        (toys.parent / "kselftest-list.txt").write_text("".join(f"toy:{name}\n" for name in TOYS))
        self.profiler = self.top / "profiler"
        self.script(self.profiler, PROFILER)
        self.suite = next(suite for suite in external_suites.SUITES if suite.name == "kselftest")
        root = self.top / "root"
        root.mkdir()
        self.runner = external_runs.Runner(str(root), str(self.profiler), isolate=False)
        external_judge.SHORTEST_LIMIT_S = 1.5

    @staticmethod
    def script(path, text):
        path.write_text(text)
        path.chmod(0o755)

    def judged(self, name):
        tests = {test.name: test for test in self.suite.tests(str(self.top / "kselftest"))}
        return external_judge.judge(self.runner, self.suite, tests[f"toy/{name}"], ["full"], 1.5)

    def check(self, name, verdict, what):
        result = self.judged(name)
        self.assertEqual(result.native, "same")
        self.assertEqual((result.modes["full"].verdict, result.modes["full"].what), (verdict, what))

    def test_what_differs_is_said(self):
        self.check("hang", "differs", "hangs, natively status 0")
        self.check("slow", "same", "")
        external_judge.SHORTEST_LIMIT_S = 15
        self.check("same", "same", "")
        self.check("counts", "same", "")
        self.check("status", "differs", "status 3, natively status 0")
        self.check("signal", "differs", "SIGSEGV, natively status 0")
        self.check("line", "differs", "here")
        self.check("result", "differs", "not ok open")
        self.check("once", "now and then", "status 3, natively status 0")

    def exactly(self, body):
        suite = next(suite for suite in external_suites.SUITES if suite.output == "exact")
        self.script(self.top / "kselftest" / "toy" / "number", f"#!/bin/sh\n{body}\n")
        test = external_suites.Test("kselftest", "number", ("./number",), str(self.top / "kselftest" / "toy"))
        return external_judge.judge(self.runner, suite, test, ["full"], 1.5).modes["full"].what

    def test_numbers_count_in_a_suite_that_is_read_exactly(self):
        self.assertEqual(self.exactly('if [ "$PROFILED" ]; then echo 0x1234567a; else echo 0x1234567b; fi'),
                         "0x1234567a")

    def test_they_do_not_where_native_runs_differ_in_some(self):
        self.assertEqual(self.exactly('echo 0x1234$$; if [ "$PROFILED" ]; then echo 1234; else echo 1235; fi'), "")

    def test_a_run_without_a_profile_differs(self):
        (self.top / "profiler.silent").touch()
        self.check("same", "differs", "no profile")

    def test_what_is_not_the_same_natively_says_nothing(self):
        for name, native in (("unstable", "unstable"), ("late", "unstable"), ("long", "too long")):
            result = self.judged(name)
            self.assertEqual((name, result.native, result.modes), (name, native, {}))

    def test_a_test_that_cannot_run_is_told_apart(self):
        self.assertTrue(self.judged("skips").skipped)
        self.assertFalse(self.judged("same").skipped)

    def test_nobody_is_left(self):
        external_judge.SHORTEST_LIMIT_S = 15  # nothing hangs, however busy the machine is
        self.check("leaves", "same", "")
        mark = f"{os.getpid()}.1"
        self.assertEqual(list(external_runs.processes_marked(mark)), [])

    def test_who_executes_a_program_is_seen(self):
        again = self.top / "again"
        self.script(again, '#!/bin/sh\n[ $1 = 0 ] || exec "$0" $(($1 - 1))\n')
        with subprocess.Popen([again, "300"], env={**os.environ, external_runs.MARK: "again.1"}) as process:
            while True:
                seen = list(external_runs.processes_marked("again.1"))
                if process.poll() is not None:
                    break
                self.assertIn(process.pid, seen)

    def test_results_are_kept_and_read_again(self):
        result = self.judged("status")
        self.assertEqual(external_judge.Result.from_line(result.to_line()), result)


class Page(unittest.TestCase):
    RESULT = external_judge.Result("rr", "chew", "same", False, {
        "full": external_judge.Verdict("differs", "a | b"), "shadow": external_judge.Verdict("differs", "a | b"),
        "burst": external_judge.Verdict("same")})

    def test_a_difference_has_its_reason(self):
        reasons = [external_page.Reason("rr/c*", ("full",), "too fast")]
        self.assertEqual(external_page.unexplained([self.RESULT], reasons), ["rr/chew (shadow)"])
        text = external_page.differences([self.RESULT], reasons)
        self.assertIn("| `rr/chew` | full | `a / b` | too fast |", text)
        self.assertIn("| `rr/chew` | shadow | `a / b` | **not known yet** |", text)

    def test_one_reason_for_several_modes_is_one_row(self):
        text = external_page.differences([self.RESULT], [external_page.Reason("rr/*", ("*",), "so it is")])
        self.assertIn("| `rr/chew` | full, shadow | `a / b` | so it is |", text)

    def test_the_reasons_file_can_be_read(self):
        self.assertIsInstance(external_page.read_reasons(), list)

    def test_only_what_is_between_the_marks_is_replaced(self):
        with tempfile.NamedTemporaryFile("w+", suffix=".md") as file:
            for words in ("old", "new"):
                file.seek(0)
                file.truncate()
                file.write(f"head\n{external_page.BEGIN}{words}\n{external_page.END}tail\n")
                file.flush()
                external_page.write(file.name, "made\n")
                self.assertEqual(pathlib.Path(file.name).read_text(),
                                 f"head\n{external_page.BEGIN}made\n{external_page.END}tail\n")


class Valgrind(unittest.TestCase):
    def test_each_program_is_taken_once_with_its_arguments_and_in_its_own_folder(self):
        with tempfile.TemporaryDirectory() as top:
            files = {"none/tests/amd64/one.vgtest": "prog: one\nargs: -r 'a b' < one.c\nvgopts: -q\n",
                     "memcheck/tests/again.vgtest": "prog: ../../none/tests/amd64/one\nargs: -r 'a b'\n",
                     "memcheck/tests/other.vgtest": "prog: ../../none/tests/amd64/one\nargs: `pwd`/x | less\n",
                     "memcheck/tests/missing.vgtest": "prog: missing\n"}
            for name, text in files.items():
                path = pathlib.Path(top, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            home = os.path.join(top, "none/tests/amd64")
            shutil.copy("/bin/true", os.path.join(home, "one"))
            self.assertEqual([(test.name, test.command, test.links) for test in external_suites.valgrind(top)],
                             [("none/amd64/one", ("./one", "-r", "a b"), home),
                              ("memcheck/other", ("./one", "./x"), home)])


class Normalisation(unittest.TestCase):
    def test_numbers_of_processes_addresses_and_times_are_equal(self):
        self.assertEqual(external_compare.read_text("pid 12345 at 0x7ffe12 after 1.25 s\n"),
                         external_compare.read_text("pid 678 at 0x55aa after 13.5 s\n"))

    def test_small_numbers_and_words_are_not(self):
        self.assertNotEqual(external_compare.read_text("errno 4"), external_compare.read_text("errno 11"))

    def test_ltp_words_are_counted(self):
        self.assertEqual(external_compare.read_ltp("a.c:1: TPASS: x\na.c:2: TPASS: y\na.c:3: TFAIL: z\n"),
                         ["TFAIL 1", "TPASS 2"])


class Command(unittest.TestCase):
    def test_a_missing_suite_is_named_with_how_it_is_had(self):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([ROOT / "scripts" / "external", "--suites", empty], stderr=subprocess.PIPE,
                                  text=True, check=False)
        self.assertEqual(done.returncode, 2)
        for suite in external_suites.SUITES:
            self.assertIn(f"{suite.name} is missing: {suite.how}", done.stderr)


if __name__ == "__main__":
    unittest.main()
