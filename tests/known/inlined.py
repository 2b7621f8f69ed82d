#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Inlined functions whose instructions are known: rows of profiles, merged ones, limits, annotate.

Full mode has to be exact. Shadow mode has to be right within twice its own 95 % interval, which chance
leaves about once in 10,000 times.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402
from known_driver import Driver, drive  # noqa: E402

ROUNDS = 1000
SHADOW = ["--mode", "shadow", "--profile", "edge,call,method", "--max-overhead", "50%", "--load", "0.9",
          "--sample-size", "200K"]
MANY = 60_000  # thousands of rounds


class InlinedDriver(Driver):
    """Keeps all profiles, by name."""

    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.folder = folder

    def named(self, name):
        return os.path.join(self.folder, name + ".json")

    def call(self, *arguments):
        return subprocess.run([self.shadowprof, *arguments], check=False, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, capture_output=True)

    def keep(self, name, program, thousands, *options):
        """The profile, which is then in named(name), and what the program says of itself."""
        done = self.call("run", "-q", *options, "-o", self.named(name), "--",
                         os.path.join(self.programs, "known_" + program), str(thousands))
        assert done.returncode == 0, done.stderr
        return read_profile(self.named(name)), json.loads(done.stdout)


def program_of(profile):
    return next(i for i, m in enumerate(profile["modules"]) if "known_inlined" in m["path"])


def rows_of(profile):
    """Of the program itself, by name."""
    return {row["name"]: row for row in profile["inlined"] if row["module"] == program_of(profile)}


def functions_at(profile):
    return {row["offset"]: row["name"] for row in profile["functions"]
            if row["module"] == program_of(profile)}


def check_c(d):
    profile, truth = d.keep("c", "inlined", 1, "--mode", "full")
    rows = rows_of(profile)
    own = {name: row["self_instructions"] for name, row in rows.items()}
    d.expect("full: the program's inlined functions", set(own) == {"small", "large", "calling", "both"}, own)
    d.expect("full: small", own["small"] == truth["small"], (own, truth))
    d.expect("full: large", own["large"] == truth["large"], (own, truth))
    # The call itself is one of its instructions.
    d.expect("full: what is called elsewhere", own["both"] == truth["both"], (own, truth))
    d.expect("full: calling", own["calling"] == truth["calling"], (own, truth))
    d.expect("full: with what was inlined into it",
             rows["large"]["inclusive_instructions"] == truth["large"] + truth["in_large"], rows["large"])
    d.expect("full: with what it calls",
             rows["calling"]["inclusive_instructions"] == truth["calling"] + truth["leaf"], rows["calling"])
    names = functions_at(profile)
    places = sorted((names[p["function"]], p["self_instructions"]) for p in rows["small"]["places"])
    d.expect("full: each place has its own",
             places == [("first", 10 * ROUNDS), ("second", 10 * ROUNDS), ("second", 40 * ROUNDS)], places)
    d.expect("full: places name their calls",
             len({p["line"] for p in rows["small"]["places"]}) == 2, rows["small"]["places"])
    whole = {row["name"]: row["self_instructions"] for row in profile["functions"]}
    d.expect("full: functions keep what was inlined into them", whole["first"] >= 22 * ROUNDS, whole["first"])
    module = profile["modules"][program_of(profile)]
    d.expect("full: what is known of inlining is said",
             module.get("inlining_known", 0) >= whole["first"] + whole["second"], module)
    d.expect("full: the hotlist has the same",
             [r["self_instructions"] for r in profile["hotlists"]["inlined"] if r["function"] == "small"]
             == [truth["small"]], profile["hotlists"]["inlined"])
    shown = d.call("report", d.named("c")).stdout
    d.expect("report lists them", "Inlined functions (by instructions of their own)" in shown
             and "small" in shown.split("Inlined functions")[1].split("\n\n")[0], shown)


def check_annotate(d):
    """Of the profile that check_c leaves behind."""
    done = d.call("annotate", "--json", d.named("c"), "small")
    shown = json.loads(done.stdout) if done.returncode == 0 else {}
    d.expect("annotate: an inlined function is found", shown.get("inlined") is True, done.stderr)
    whole = 10 * 6 * ROUNDS
    d.expect("annotate: its instructions are summed over all places",
             shown.get("instructions_executed") == whole
             and sum(row["instructions"] for row in shown["lines"]) == whole, shown)
    d.expect("annotate: a line is executed as often as in all places",
             max(row["executions"] for row in shown["lines"]) == 6 * ROUNDS, shown["lines"])
    d.expect("annotate: places, the hottest first",
             [p["instructions"] for p in shown["places"]] == [40 * ROUNDS, 10 * ROUNDS, 10 * ROUNDS]
             and shown["places"][0]["function"] == "second"
             and {p["function"] for p in shown["places"][1:]} == {"first", "second"}, shown["places"])
    shown = json.loads(d.call("annotate", "--json", d.named("c"), "large").stdout)
    d.expect("annotate: with what was inlined into it",
             (shown["instructions_executed"], shown["self_instructions"]) == (22 * 2 * ROUNDS, 12 * 2 * ROUNDS), shown)
    shown = json.loads(d.call("annotate", "--json", d.named("c"), "both").stdout)
    d.expect("annotate: a function with code of its own shows this", "inlined" not in shown
             and shown["instructions_executed"] == 7 and "--inlined" in "".join(shown["notes"]), shown)
    shown = json.loads(d.call("annotate", "--inlined", "--json", d.named("c"), "both").stdout)
    d.expect("annotate: --inlined shows the others", shown["instructions_executed"] == 6 * ROUNDS, shown)
    text = d.call("annotate", d.named("c"), "small").stdout
    d.expect("annotate: text", "in 3 places of 2 functions\n" in text, text)
    d.expect("annotate: fits its columns", all(len(line) <= 80 for line in text.splitlines()), text)
    refused = d.call("annotate", d.named("c"), "smal")
    d.expect("annotate: a misspelt name lists it", refused.returncode == 125 and "small (inlined.c:" in refused.stderr,
             refused.stderr)
    refused = d.call("annotate", "--inlined", d.named("c"), "leaf")
    d.expect("annotate: what was not inlined", refused.returncode == 125 and "was inlined" in refused.stderr,
             refused.stderr)


def check_merged(d):
    one, truth = d.keep("one", "inlined", 1, "--mode", "full")
    d.keep("three", "inlined", 3, "--mode", "full")
    done = d.call("merge", "-o", d.named("sum"), d.named("one"), d.named("three"))
    assert done.returncode == 0, done.stderr
    merged = read_profile(d.named("sum"))
    own = {name: row["self_instructions"] for name, row in rows_of(merged).items()}
    wanted = {name: 4 * truth[name] for name in ("small", "large", "calling", "both")}
    d.expect("merge: adds up", own == wanted, (own, wanted))
    known = [p["modules"][program_of(p)]["inlining_known"] for p in (one, merged)]
    d.expect("merge: what is known adds up", known[1] > 3 * known[0], known)


def check_limits(d):
    """Of the profiles that check_merged leaves behind."""
    def status(rule):
        done = d.call("check", d.named("one"), d.named("three"), "--limit", rule)
        return done.returncode, done.stdout + done.stderr

    code, text = status("inlined:small:instructions<=+150%")
    d.expect("check: fails above the limit", code == 3 and "instructions of small" in text, (code, text))
    code, text = status("inlined:small:instructions<=+200%")
    d.expect("check: passes at the limit", code == 0, (code, text))
    code, text = status("function:small:instructions<=+1%")
    d.expect("check: says how to name it", code == 125 and "inlined:small:instructions" in text, (code, text))
    code, text = status("inlined:smal:instructions<=+1%")
    d.expect("check: a misspelt name is an error", code == 125, (code, text))
    shown = json.loads(d.call("diff", "--json", d.named("one"), d.named("three")).stdout)
    changes = {row["function"]: row["self_instructions"] for row in shown["inlined"]}
    d.expect("diff: has them", changes.get("small", {}).get("delta") == 2 * 60 * ROUNDS, shown["inlined"])
    text = d.call("diff", d.named("one"), d.named("three")).stdout
    d.expect("diff: text", "Inlined functions (" in text, text)


def check_shadow(d):
    """Shares of the sampled program are those of the same program profiled exactly."""
    exact, truth = d.keep("exact", "inlined", 1000, "--mode", "full")
    profile, _ = d.keep("shadow", "inlined", MANY, *SHADOW)
    d.expect("shadow: there are samples", profile["coverage"]["samples"] > 2, profile["coverage"])
    rows = {r["function"]: r for r in profile["hotlists"]["inlined"]}
    for name in ("small", "large", "calling"):
        true = truth[name] / exact["coverage"]["instructions_total"]
        row = rows.get(name, {})
        found, error = row.get("self_share", 0), row.get("self_share_error", 1)
        d.expect(f"shadow: {name} has an error", 0 < error < 1, row)
        d.expect(f"shadow: {name}", abs(found - true) <= 2 * error, (found, true, row))
    own = rows_of(profile)
    if "time" in profile:
        whole = {row["name"]: row.get("user_ns", 0) for row in profile["functions"]}
        inlined = {name: row.get("user_ns", 0) for name, row in own.items()}
        d.expect("shadow: time of inlined functions is a part of that of the functions they are in",
                 0 < inlined["small"] + inlined["large"] <= whole["first"] + whole["second"], (inlined, whole))


def check_cc(d):
    profile, truth = d.keep("cc", "inlined_cc", 1, "--mode", "full")
    own = {name: row["self_instructions"] for name, row in rows_of(profile).items()}
    for name, key in (("known::Counter::add(int)", "add(int)"), ("known::Counter::add(double)", "add(double)"),
                      ("void known::Counter::widen<2>()", "widen"), ("known::(anonymous namespace)::hidden", "hidden")):
        found = sum(n for row, n in own.items() if row.startswith(name))
        d.expect(f"full: {name}", found == truth[key], (own, truth))
    found = sum(n for row, n in own.items() if "lambda" in row)
    d.expect("full: a lambda", found == truth["lambda"], (own, truth))


def check_all(driver, _):
    check_c(driver)
    check_annotate(driver)
    check_cc(driver)
    check_merged(driver)
    check_limits(driver)
    check_shadow(driver)


sys.exit(drive(__doc__, check_all, driver=InlinedDriver))
