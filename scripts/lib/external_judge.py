# SPDX-License-Identifier: MIT
"""The verdict on a test: the same in a mode as natively, different, or different now and then.

A test that does not do the same in its native runs says nothing about us, and is only counted. There are two
native runs before the modes and, where a mode differs, three more after them, when the machine is as busy.
"""

import json
from dataclasses import asdict, dataclass, field

from external_compare import difference
from external_runs import IN_FULL_MODE

SAME, DIFFERS, SOMETIMES = "same", "differs", "now and then"
UNSTABLE, TOO_LONG = "unstable", "too long"

NATIVE_RUNS_AFTERWARDS = 3
SHORTEST_LIMIT_S = 10
TIMES_NATIVE = 20
# What seemed to hang was slow if it ends, as it should, when it has this many times as long.
TIMES_AGAIN = 4


@dataclass
class Verdict:
    verdict: str
    what: str = ""  # what differed, in a few words
    notes: list = field(default_factory=list)  # what shadowprof said


@dataclass
class Result:
    suite: str
    test: str
    native: str  # SAME, UNSTABLE, TOO_LONG
    skipped: bool = False  # it says natively that it cannot run here
    modes: dict = field(default_factory=dict)  # mode -> Verdict

    @property
    def full_name(self):
        return f"{self.suite}/{self.test}"

    def to_line(self):
        return json.dumps(asdict(self)) + "\n"

    @staticmethod
    def from_line(line):
        result = Result(**json.loads(line))
        result.modes = {mode: Verdict(**verdict) for mode, verdict in result.modes.items()}
        return result


class Judge:
    """Of one test: its first native run is what all others are compared with."""

    def __init__(self, runner, suite, test, native_limit_s):
        self.runner, self.suite, self.test, self.native_limit_s = runner, suite, test, native_limit_s
        self.native = runner.run(test, "native", native_limit_s)
        self.reader, self.loosely = suite.output, False
        self.limit_s = max(SHORTEST_LIMIT_S, TIMES_NATIVE * self.native.seconds)

    def difference(self, outcome):
        return difference(self.native, outcome, self.reader, self.loosely)

    def is_stable(self):
        """Another native run is as the first; if but for some or all numbers, they do not count from here on."""
        again = self.runner.run(self.test, "native", self.native_limit_s)
        if not self.difference(again):
            return True
        if self.reader == "exact":
            self.reader = "text"
            if not self.difference(again):
                return True
        self.loosely = True
        return not self.difference(again)

    def mode(self, mode):
        """The verdict, before anybody has asked whether the test is stable natively.

        Children are followed. A run would then last until the last one has ended, so those that the test leaves
        behind natively are not. Neither are those that the program wants to trace itself: only full mode leaves
        them to it.
        """
        follow = not self.native.leaves and not (self.test.traces and mode not in IN_FULL_MODE)
        first = self.runner.run(self.test, mode, self.limit_s, follow)
        what = self.difference(first)
        if not what:
            return Verdict(SAME, "", first.notes)
        second = self.runner.run(self.test, mode, self.limit_s * (TIMES_AGAIN if first.hangs else 1), follow)
        again = self.difference(second)
        if first.hangs and not again:
            return Verdict(SAME, "", second.notes)
        return Verdict(DIFFERS if again else SOMETIMES, what, first.notes)


def judge(runner, suite, test, modes, native_limit_s):
    result = Result(suite.name, test.name, SAME)
    one = Judge(runner, suite, test, native_limit_s)
    if one.native.hangs:
        result.native = TOO_LONG
        return result
    result.skipped = one.native.status == suite.skips
    if not one.is_stable():
        result.native = UNSTABLE
        return result
    result.modes = {mode: one.mode(mode) for mode in modes}
    for _ in range(NATIVE_RUNS_AFTERWARDS):
        if all(verdict.verdict == SAME for verdict in result.modes.values()):
            break
        before = (one.reader, one.loosely)
        if not one.is_stable():
            result.native, result.modes = UNSTABLE, {}
        elif (one.reader, one.loosely) != before:
            result.modes = {mode: one.mode(mode) for mode in modes}
    return result
