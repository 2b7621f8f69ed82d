#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Values and arguments of programs for which they are known, in full, shadow and burst mode.

What a profile calls exact has to be; what it estimates has to be right within twice its own 95 %
interval, which chance leaves about once in 10,000 times.
"""
import sys

from known_driver import drive

MODES = {"shadow": ["--top", "1000", "--mode", "shadow", "--max-overhead", "50%", "--load", "0.9", "--sample-size", "200K"],
         "burst": ["--top", "1000", "--mode", "burst", "--max-overhead", "50%", "--burst", "1ms/5ms"]}
# Calls, and how many of them are of another kind, first.
CALLS = {"full": ["400000000", "80000000"], "all": ["200000", "40000"], "shadow": ["40000000"], "burst": ["40000000"]}


def rows_of(profile, callee):
    return {row["register"]: row for row in profile["hotlists"]["arguments"]
            if row["to"].get("function") == callee and row["from"].get("function") == "main"}


def method(profile, name):
    return next((row for row in profile["hotlists"]["methods"] if row["function"] == name), None)


def share(row, value):
    return sum(v["share"] for v in row["values"] if v["value"] == value)


def check_share(d, mode, row, truth):
    """The share of y = 2 is right within what the row says of itself."""
    found, true = share(row, 2), truth["2"] / truth["calls"]
    allowed = 2 * row.get("invariance_error", 1)
    d.expect(f"{mode}: the share of the most frequent argument", abs(found - true) <= allowed + 1e-9,
             (found, true, row))


def check_full_mode(d):
    profile, truth = d.run("arguments", CALLS["all"], "--mode", "full", "--profile", "edge,call,method,value", "--top", "1000",
                           "--condition", "values=all", "--deterministic")
    rows = rows_of(profile, "combine")
    d.expect("all: arguments are the registers that the function reads", sorted(rows) == ["rdi", "rsi"], sorted(rows))
    y = rows["rsi"]
    d.expect("all: every call counts", y["count"] == truth["calls"], y)
    d.expect("all: nothing is estimated", "estimated" not in y and y["invariance_error"] == 0, y)
    values = {v["value"]: v["count"] for v in y["values"]}
    d.expect("all: the counts are exact", values == {k: truth[str(k)] for k in (2, 3, 5)}, (values, truth))

    profile, truth = d.run("arguments", CALLS["full"], "--mode", "full", "--profile", "edge,call,method,value", "--top", "1000",
                           "--deterministic")
    rows = rows_of(profile, "combine")
    d.expect("full: arguments are the registers that the function reads", sorted(rows) == ["rdi", "rsi"], sorted(rows))
    y = rows["rsi"]
    d.expect("full: every call counts", y["count"] == truth["calls"], y)
    d.expect("full: an estimate says that it is one", y.get("estimated") and y["invariance_error"] > 0, y)
    d.expect("full: and is of use", abs(share(y, 2) - truth["2"] / truth["calls"]) < 0.25, y)
    check_share(d, "full", y, truth)
    x = rows["rdi"]
    d.expect("full: distinct values", abs(x["distinct"] - truth["calls"]) <= 2 * x.get("distinct_error", 0), x)
    d.expect("full: main was called once", method(profile, "main")["invocations"] == 1, method(profile, "main"))
    for row in profile["functions"]:
        if row["inclusive_instructions"] < row["self_instructions"]:
            d.expect("full: no function has less with its callees than by itself", False, row)


def without_values(rows):
    """What of rows is the same where their values are hidden."""
    return sorted([row["count"], row["distinct"], sorted([v["count"], v["share"]] for v in row["values"])] for row in rows)


def check_redacted(d):
    """Nothing but the values themselves is missing."""
    options = ["--mode", "full", "--profile", "edge,call,method,value", "--condition", "values=all", "--deterministic",
               "--top", "1000", "--probe", "seen: on entry combine capture arg0, arg1"]
    plain, _ = d.run("arguments", CALLS["all"], *options)
    hidden, _ = d.run("arguments", CALLS["all"], *options, "--redact-values")
    d.expect("redacted: the profile says so", hidden["run"]["options"].get("values") == "hidden", hidden["run"]["options"])
    for what in ("values", "arguments"):
        lists = [without_values(profile["hotlists"][what]) for profile in (plain, hidden)]
        d.expect(f"redacted: counts and shares of {what} are as they were", lists[0] == lists[1])
    left = [v["value"] for what in ("values", "arguments") for row in hidden["hotlists"][what] for v in row["values"]
            if v["value"] < 1 << 40]
    d.expect("redacted: no value is left in the lists", not left, left)
    for table, column in (("value_entries", "value"), ("argument_entries", "value"), ("probe_numbers", "number")):
        left = [number for number in hidden["tables"][table][column] if number < 1 << 40]
        d.expect(f"redacted: no value is left in {table}", hidden["tables"][table][column] and not left, left)


def check_sampled(d, mode):
    profile, truth = d.run("arguments", d.lasting("arguments", CALLS[mode]), "--profile", "edge,call,method,value", *MODES[mode])
    if profile["coverage"]["samples"] <= 2:
        print(f"skip  {mode}: the machine was too busy for samples: {profile['coverage']['samples']}")
        return
    main = method(profile, "main")
    d.expect(f"{mode}: main was called at most once", main and main["invocations"] <= 1, main)
    less = [row for row in profile["functions"] if row["inclusive_instructions"] < row["self_instructions"]]
    d.expect(f"{mode}: no function has less with its callees than by itself", not less, less)
    rows = rows_of(profile, "combine")
    d.expect(f"{mode}: arguments are the registers that the function reads", set(rows) <= {"rdi", "rsi"}, sorted(rows))
    if "rsi" in rows:
        check_share(d, mode, rows["rsi"], truth)


# Functions of numbers.c: what their results are, and how often they are the first one.
RESULTS = {"scale": ("f64", None, "twos", 2.0), "shift": ("f32", None, "halves", 1.5), "step": ("int", 4, "sevens", 7)}


def check_numbers(d, mode, sizes, *options):
    profile, truth = d.run("numbers", sizes, "--profile", "edge,call,method,value", *options)
    rows = {}
    for row in profile["hotlists"]["values"]:
        operation = row["disassembly"].split()[0].lstrip("v")
        if row["function"] in RESULTS and operation in ("mulsd", "addss", "paddd"):
            rows[row["function"]] = row
    seen = mode in ("full", "all")
    d.expect(f"{mode}: results in vector registers", sorted(rows) == sorted(RESULTS) if seen else rows, sorted(rows))
    for function, row in rows.items():
        kind, elements, count, value = RESULTS[function]
        d.expect(f"{mode}: the type of {function}", (row["type"], row.get("elements")) == (kind, elements), row)
        found = sum(v["share"] for v in row["values"] if v.get("as_double", v["value"]) == value)
        true, allowed = truth[count] / truth["calls"], 2 * row.get("invariance_error", 1)
        d.expect(f"{mode}: the share of the most frequent result of {function}", abs(found - true) <= allowed + 1e-9,
                 (found, true, row))
        if mode == "all":
            first = row["values"][0]
            d.expect(f"all: the results of {function} are counted", (row["count"], first["count"]) ==
                     (truth["calls"], truth[count]), row)
    # The compiler may have made a call of its own for 3.0.
    arguments = [row for row in profile["hotlists"]["arguments"] if row["to"].get("function") == "scale"]
    if seen:
        by = [row for row in arguments if row["register"] == "xmm1"]
        d.expect(f"{mode}: arguments that are doubles", {row["register"] for row in arguments} == {"xmm0", "xmm1"} and
                 max(by, key=lambda row: row["count"])["values"][0]["as_double"] == 2.0, arguments)


def check_divisors(d):
    """What is divided by, in a register or in memory: each of them is a value."""
    profile, truth = d.run("divisors", ["100000"], "--mode", "full", "--profile", "edge,call,method,value", "--top", "1000",
                           "--condition", "values=all")
    rows = {row["function"]: row for row in profile["hotlists"]["values"] if row.get("part") == "divisor"}
    by = {name: counts for name, _, _, counts in truth["arguments"]}
    for function, wanted in {"divide": by["divide"], "by_memory": by["divide"], "by_one": by["by_one"]}.items():
        found = {str(v["value"]): v["count"] for v in rows.get(function, {"values": []})["values"]}
        d.expect(f"all: the divisors of {function}", found == wanted, (found, wanted))
    memory = rows.get("by_memory", {"disassembly": ""})
    d.expect("all: one is in memory", "[" in memory["disassembly"], memory)


def way_of(path):
    """Which way a path goes through step(), and through twice(): their blocks."""
    return [tuple(b["offset"] for b in path["blocks"] if b.get("function") == function) for function in ("step", "twice")]


def check_calls(d, mode, profile, truth):
    calls = {(row["from"].get("function"), row["to"].get("function")): row for row in profile["hotlists"]["call_pairs"]}
    wanted = {("main", name): truth["rounds"] for name in ("step", "apply", "twice", "scaled")}
    wanted.update({("apply", name): n for name, n in zip(("plus", "shifted", "inverse"), truth["called"])})
    if mode in ("full", "all"):
        found = {pair: calls[pair]["count"] for pair in wanted if pair in calls}
        d.expect(f"{mode}: calls, also indirect ones, are counted", found == wanted, (found, wanted))
        return
    for pair, n in wanted.items():
        row = calls.get(pair, {"share": 0})
        true, allowed = n / (5 * truth["rounds"]), 2 * row.get("share_error", 1)
        d.expect(f"{mode}: the share of calls of {pair[1]}", abs(row["share"] - true) <= allowed + 0.001, (true, row))


def check_paths(d, mode, profile, truth):
    """What goes each of the three ways through step(), and that twice() is gone through in two ways only."""
    paths = [row for row in profile["hotlists"]["paths"] if row["blocks"][0].get("function") == "main"]
    rows, through_twice = {}, set()
    for path in paths:
        step, twice = way_of(path)
        if step and twice:
            rows.setdefault(step, []).append(path)
            through_twice.add(twice)
    if mode in MODES and sum(path["count"] for way in rows.values() for path in way) < 1000:
        print("skip  paths: there were hardly any samples")
        return
    d.expect(f"{mode}: the second of two branches that agree leaves two paths", len(through_twice) == 2, through_twice)
    by_count = sorted(rows.values(), key=lambda way: -sum(row["count"] for row in way))
    d.expect(f"{mode}: three ways", len(by_count) == 3, len(by_count))
    for way, true in zip(by_count, sorted(truth["ways"], reverse=True)):
        if mode in ("full", "all"):
            count = sum(row["count"] for row in way)
            d.expect(f"{mode}: a way is taken {true} times", 0 <= true - count <= 1, count)
            continue
        flow, allowed = sum(row["flow"] for row in way), 2 * sum(row.get("share_error", 1) for row in way)
        share = true / truth["rounds"]
        d.expect(f"{mode}: the share of a way", abs(flow - share) <= allowed + 0.002, (flow, share, allowed))


def check_mixed(d, mode, sizes, *options):
    profile, truth = d.run("mixed", sizes, "--profile", "edge,call,method,path,value", *options)
    check_calls(d, mode, profile, truth)
    if mode in ("full", "all") or sizes[1] == "1":
        check_paths(d, mode, profile, truth)
    row = rows_of(profile, "scaled").get("rsi")
    seen = mode in ("full", "all")
    d.expect(f"{mode}: the argument of scaled is seen", not seen or row, sorted(rows_of(profile, "scaled")))
    if not row:
        return
    if seen:
        d.expect(f"{mode}: every call of scaled counts", row["count"] == truth["rounds"], row)
    found, fours = row["values"][0], truth["fours"] / truth["rounds"]
    true, allowed = fours if found["value"] == 4 else 1 - fours, 2 * row.get("invariance_error", 1)
    d.expect(f"{mode}: the share of the most frequent factor", abs(found["share"] - true) <= allowed + 1e-9, (true, row))


def check_all(driver, options):
    if options.only in (None, "full"):
        check_full_mode(driver)
        check_redacted(driver)
        check_numbers(driver, "all", ["200000"], "--mode", "full", "--top", "1000", "--condition", "values=all")
        check_numbers(driver, "full", ["40000000"], "--mode", "full", "--top", "1000")
        check_divisors(driver)
        check_mixed(driver, "all", ["200000", "1"], "--mode", "full", "--top", "1000", "--condition", "values=all")
        check_mixed(driver, "full", ["200000", "1"], "--mode", "full", "--top", "1000")
        check_mixed(driver, "full", ["4000000", "8"], "--mode", "full", "--top", "1000")
    for mode in MODES:
        if options.only in (None, mode):
            check_sampled(driver, mode)
            check_numbers(driver, mode, driver.lasting("numbers", CALLS[mode]), *MODES[mode])
            check_mixed(driver, mode, ["30000000", "1"], *MODES[mode])
            check_mixed(driver, mode, ["30000000", "8"], *MODES[mode])


sys.exit(drive(__doc__, check_all, {"--only": {"choices": ["full", *MODES]}}))
