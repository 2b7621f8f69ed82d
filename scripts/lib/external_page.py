# SPDX-License-Identifier: MIT
"""The part of docs/compatibility.md that is made of results, and the reasons that are kept by hand.

The page has two marks; what stands between them is replaced, and all else is for people to write.
"""

import fnmatch
import os
import re
from dataclasses import dataclass

from external_judge import DIFFERS, SAME, SOMETIMES, TOO_LONG, UNSTABLE
from external_suites import SUITES

BEGIN, END = "<!-- results: made by scripts/external -->\n", "<!-- end of results -->\n"
REASONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "external_reasons.txt")
UNKNOWN = "**not known yet**"


@dataclass(frozen=True)
class Reason:
    pattern: str  # of suite/test
    modes: tuple  # or ("*",)
    text: str

    def explains(self, result, mode):
        return fnmatch.fnmatchcase(result.full_name, self.pattern) and (mode in self.modes or "*" in self.modes)


def read_reasons(path=REASONS):
    """Lines of three columns; the first that fits a test and a mode is its reason."""
    reasons = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            columns = line.split(None, 2)
            if len(columns) < 3:
                raise ValueError(f"{path}:{number}: a line is `SUITE/TEST MODES REASON`")
            reasons.append(Reason(columns[0], tuple(columns[1].split(",")), columns[2].strip()))
    return reasons


def reason_of(reasons, result, mode):
    return next((reason.text for reason in reasons if reason.explains(result, mode)), None)


def differing(results):
    """(result, mode, verdict) for each difference, in the order of the tests."""
    for result in results:
        for mode, verdict in result.modes.items():
            if verdict.verdict != SAME:
                yield result, mode, verdict


def unexplained(results, reasons):
    return [f"{result.full_name} ({mode})" for result, mode, _ in differing(results)
            if not reason_of(reasons, result, mode)]


def row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def counts_of(results, mode):
    verdicts = [result.modes[mode].verdict for result in results if mode in result.modes]
    counts = [verdicts.count(word) for word in (SAME, SOMETIMES, DIFFERS)]
    return " / ".join(map(str, counts)) if verdicts else "not run"


def summary(results, modes):
    lines = [row(["suite", "tests", "unstable natively", "too long", "say that they cannot run", *modes]),
             row(["---"] * (5 + len(modes)))]
    for suite in SUITES:
        own = [result for result in results if result.suite == suite.name]
        if own:
            natives = [result.native for result in own]
            skipped = sum(result.skipped and result.native == SAME for result in own)
            lines.append(row([suite.title, len(own), natives.count(UNSTABLE), natives.count(TOO_LONG), skipped,
                              *(counts_of(own, mode) for mode in modes)]))
    return "".join(lines)


def in_a_cell(text):
    """Output of tests is shown as it is, but must not end the cell or its quotes."""
    return text.replace("|", "/").replace("`", "'")


def differences(results, reasons):
    """A row for each test and, if its modes differ in different ways, for each way."""
    lines = [row(["test", "mode", "differs in", "reason"]), row(["---"] * 4)]
    for result in results:
        ways = {}
        for _, mode, verdict in differing([result]):
            key = (verdict.verdict, verdict.what, reason_of(reasons, result, mode))
            ways.setdefault(key, []).append(mode)
        for (verdict, what, reason), modes in ways.items():
            when = "now and then: " if verdict == SOMETIMES else ""
            lines.append(row([f"`{result.full_name}`", ", ".join(modes), f"{when}`{in_a_cell(what)}`",
                              reason or UNKNOWN]))
    return "".join(lines) if len(lines) > 2 else "Nothing differs.\n"


def versions(suites, directory):
    """What the user says of each suite, in version.txt of its folder: one line."""
    for suite in suites:
        try:
            with open(os.path.join(directory, suite.name, "version.txt"), encoding="utf-8") as file:
                yield f"{suite.title}: {file.readline().strip()}"
        except FileNotFoundError:
            continue


def text_of(results, modes, reasons, directory):
    kernel = re.match(r"\d+\.\d+", os.uname().release)[0]
    facts = [f"Linux {kernel}", *versions(SUITES, directory)]
    return ("\n" + ";\n".join(facts) + ".\n\nA column of a mode has: the same as natively / differs now and then / "
            "differs.\n\n" + summary(results, modes) + "\n" + differences(results, reasons) + "\n")


def write(path, text):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    if BEGIN not in page or END not in page:
        raise ValueError(f"{path} has not the lines {BEGIN.strip()} and {END.strip()}")
    head, _, rest = page.partition(BEGIN)
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + text + END + rest.partition(END)[2])
