#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Programs that say what is true of them, compared with their profiles in full, shadow and burst mode.

A program prints facts as JSON, of these kinds:
    calls       [caller, callee, count]: how often which function called which
    entered     {function: count}: how often it was entered, by calls, jumps or the kernel
    arguments   [callee, register, count, {value: count}]
    sizes       the same of functions of the C library, which have several names
    values      [function, operation, count, {value: count}]: what the instruction left
    targets     {function, counts}: how often its indirect branch went to each place
    strides     {function: bytes}: of the load of its loop; 0: of no stride
    served      {function: {l1, l2, near, far: share}}: which caches serve the load of its loop; near: the
                first two, far: others
    loads       {function: kind}: a load that is listed by this kind
    memory      [kind, function, later function, count, executions]: hazards and waste (docs/hazards.md);
                kinds: if given, others are not looked at
    sharing     [kind, function, other function, bytes, bytes]: lines that two threads share, with `instructions` of
                each function's loop; unshared: functions that share none
    generated   instructions of code that is of no file, and calls_of_it
Counts of full mode have to be exact. What is sampled has to be right within twice its own 95 % interval,
which chance leaves about once in 10,000 times. Where there were too few samples to see a row, that is no
error, but a row that says something wrong is one.
"""
import sys

from known_driver import Driver, ONLY_AND_MODES, drive

SAMPLED = {"shadow": ["--mode", "shadow", "--max-overhead", "20%"],
           "burst": ["--mode", "burst", "--max-overhead", "20%"]}
FULL = ["--mode", "full", "--profile", "edge,call,method,path,value", "--condition", "values=all"]
LATENCY = ["--mode", "full", "--profile", "latency"]
# Rounds in full mode, in full mode with latencies, and so many, or more, that it runs for two seconds.
PROGRAMS = {
    "recursion": ("300", None, "3000000"),
    "opcodes": ("100000", None, "150000000"),
    "divisors": ("100000", None, "280000000"),
    "flags": ("3", None, "7000"),
    "sizes": ("50000", None, "250000000"),
    "strides": (None, "3", "1800"),
    "hits": (None, "100", "25000"),
    "tails": ("5000", None, None),
    "throws": ("5000", None, None),
    "threads": ("30000", None, "200000000"),
    "generated": ("3000", None, None),
    "atomics": ("50000", "50000", "450000000"),
}
# Rounds in full mode, and so many, or more, that it runs for two seconds: with hazards and waste.
MEMORY = {"hazards": ("20000", "12000000"), "silent": ("12000", "24000000")}
SHARING = {"sharing": ("20000", "150000000")}
VISIT = 256  # instructions, of collect/loads/line_sharing.h
CACHES = 0.9  # of the loads that a cache serves come from it, whatever neighbours and interrupts do
LEAST_TIMED = 300


class FactDriver(Driver):
    """Says with each expectation which program and mode it is about."""

    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.what = ""

    def begin(self, program, rounds, options, exact):
        self.what = f"{program} {options[1]}"
        sizes = [rounds] if exact else self.lasting(program, [rounds])
        return self.run(program, sizes, "--top", "1000", *options)

    def expect(self, what, condition, found=""):
        super().expect(f"{self.what}: {what}", condition, found)

    def near(self, what, found, true, error):
        self.expect(f"{what}: {100 * found:.2f} % of {100 * true:.2f} +- {100 * error:.2f}", abs(found - true) <= 2 * error + 1e-9)


def function_of(place):
    """Without the parameters of C++."""
    return place.get("function", "").split("(")[0]


def calls_of(profile):
    """By caller and callee: how often, share of all calls, half of its interval."""
    pairs = {}
    for row in profile["hotlists"]["call_pairs"]:
        pair = function_of(row["from"]), function_of(row["to"])
        count, share, error = pairs.get(pair, (0, 0.0, 0.0))
        pairs[pair] = count + row["count"], share + row["share"], error + row.get("share_error", 1)
    return pairs


def check_calls(d, profile, facts, exact):
    pairs, wanted = calls_of(profile), {(caller, callee): n for caller, callee, n in facts}
    if exact:
        for pair, n in wanted.items():
            d.expect(f"{pair[0]} calls {pair[1]} {n} times", pairs.get(pair, (0,))[0] == n, pairs.get(pair))
        return
    seen = sum(pairs[pair][1] for pair in wanted if pair in pairs)
    for pair, n in wanted.items():
        if pair in pairs and seen > 0.5:
            d.near(f"{pair[0]} calls {pair[1]}", pairs[pair][1] / seen, n / sum(wanted.values()), pairs[pair][2] / seen + 0.0005)


def check_counted(d, what, rows, fact, exact):
    """`rows` have values: the fact's that is most frequent, and in full mode all."""
    of, place, n, values = fact
    if not rows:
        d.expect(f"{what} of {of} in {place} is seen", not exact, "no row")
        return
    row = max(rows, key=lambda r: r["count"])
    found = {v["value"]: v for v in row["values"]}
    if exact:
        d.expect(f"{what} of {of} in {place}: all are counted", sum(r["count"] for r in rows) == n, (row["count"], n))
        if len(rows) == 1:
            counts = {value: found[int(value)]["count"] if int(value) in found else 0 for value in values}
            d.expect(f"{what} of {of} in {place}: how often which", counts == values, (counts, values))
        return
    for value, count in values.items():
        share = found[int(value)]["share"] if int(value) in found else 0.0
        d.near(f"{what} of {of} in {place}: {value}", share, count / n, row.get("invariance_error", 1))


def check_arguments(d, profile, facts, exact, what):
    for fact in facts:
        names = fact[0].split("|")
        rows = [row for row in profile["hotlists"]["arguments"] if row["register"] == fact[1] and
                function_of(row["from"]) == "main" and any(name in row["to"].get("function", "") for name in names)]
        check_counted(d, what, rows, fact, exact)


def check_values(d, profile, facts, exact):
    for fact in facts:
        rows = [row for row in profile["hotlists"]["values"] if row.get("function") == fact[0] and
                row["part"] == "result" and row.get("disassembly", "").split(" ")[0] == fact[1]]
        check_counted(d, "value", rows, fact, exact)


def check_targets(d, profile, fact, exact):
    rows = [row for row in profile["hotlists"]["targets"] if row.get("function") == fact["function"]]
    if not rows:
        d.expect(f"targets of {fact['function']} are seen", not exact, "no row")
        return
    found = sorted((t["count"] for t in rows[0]["targets"]), reverse=True)
    if exact:
        d.expect(f"targets of {fact['function']}", found == sorted(fact["counts"], reverse=True), (found, fact))
    else:
        d.expect(f"targets of {fact['function']}: how many", rows[0]["distinct"] == len(fact["counts"]), rows[0]["distinct"])


def check_entered(d, profile, facts):
    entered = {}
    for row in profile["hotlists"]["methods"]:
        entered[function_of(row)] = entered.get(function_of(row), 0) + row["invocations"]
        if row["inclusive_instructions"] < row["self_instructions"]:
            d.expect("no function has less with its callees than by itself", False, row)
    for function, n in facts.items():
        d.expect(f"{function} is entered {n} times", entered.get(function) == n, entered.get(function))


def check_generated(d, profile, truth):
    module_of = [m["path"] for m in profile["modules"]]
    blocks = profile["tables"]["blocks"]
    own = [i for i, module in enumerate(blocks["module"]) if not module_of[module] or module_of[module].startswith("[")]
    d.expect("code without a file is counted", own, sorted(blocks))


def loop_load(profile, function):
    """The load of the function's loop is the one that executes most."""
    rows = [row for row in profile["hotlists"]["load_latency"] if row.get("function") == function]
    return max(rows, key=lambda row: row["executions"], default=None)


def check_loads(d, profile, truth, exact):
    for function, stride in truth.get("strides", {}).items():
        row = loop_load(profile, function)
        if exact or row:
            d.expect(f"{function} has a stride of {stride} bytes", row and row["stride"] == stride, row)
    for function, kind in truth.get("loads", {}).items():
        rows = [row for row in profile["hotlists"]["load_latency"] if row.get("function") == function]
        if exact or rows:
            d.expect(f"{function} has a load that is {kind}", any(row["instruction"] == kind for row in rows), rows)
    for function, shares in truth.get("served", {}).items():
        row = loop_load(profile, function)
        if not row or row["timed"] < LEAST_TIMED:
            d.expect(f"{function}'s loads are timed", not exact, row)
            continue
        classes = row["classes"]
        found = {**classes, "near": classes["l1"] + classes["l2"], "far": classes["l3"] + classes["dram"] + classes["beyond"]}
        # One in ten may be elsewhere, and chance does its part.
        errors = {level: (1 - CACHES) / 2 + (share * (1 - share) / row["timed"]) ** 0.5 + row.get("cold_error", 0) / 400
                  for level, share in shares.items()}
        clock = profile["run"]["host"]["latency"]
        if clock["l2"] - clock["l1"] < 4 * clock["resolution"]:  # docs/latencies.md: these two are not told apart
            shares = {{"l1": "near", "l2": "near"}.get(level, level): share for level, share in shares.items()}
            errors = {level: max(errors.values()) for level in shares}
        if is_driven_out(clock, row, shares, errors):
            print(f"skip  {d.what}: {function}'s loads were driven out of the caches: {row['mean_cycles']:.1f} cycles, {classes}")
            continue
        for level, share in shares.items():
            # A line is loaded eight times, and may be gone before the first, as another virtual machine may use the
            # core's caches, too.
            error = max(errors[level], 0.15) if level == "l1" else errors[level]
            d.near(f"{function}'s loads from {level}", found[level], share, error)
            if level == "l1":
                d.near(f"{function}'s loads from near caches", found["near"], share, errors[level])


def is_driven_out(clock, row, shares, errors):
    """What else uses the caches makes loads slower: then more come from farther, and their mean says so, too."""
    classes = row["classes"]
    least = {"l1": "l1", "near": "l1", "l2": "l2", "far": "l3"}
    order = ["l1", "l2", "l3", "dram", "beyond"]
    nearest = min(order.index(least[level]) for level in shares)
    if sum(classes[level] for level in order[:nearest]) > 0.02:
        return False
    far = sum(classes[level] for level in order[2:])
    if far <= shares.get("far", 0) + max(errors.values()):
        return False
    told = sum(classes[level] * clock[level] for level in order[:4])
    return row["mean_cycles"] > 0.7 * told


def check_memory(d, program, rounds, options, exact):
    profile, truth = d.begin(program, rounds, [*options, "--profile", "hazard,waste"], exact)
    if not exact and profile["coverage"]["samples"] <= 2:
        print(f"skip  {d.what}: the machine was too busy for samples: {profile['coverage']['samples']}")
        return
    found = {(row["kind"], row.get("from", row["to"]).get("function"), row["to"].get("function")): row
             for name in ("hazards", "waste") for row in profile["hotlists"][name]
             if "main" not in (row.get("from", row["to"]).get("function", "main"), row["to"].get("function", "main"))
             and row["kind"] in truth.get("kinds", [row["kind"]])}
    for kind, function, later, count, executions in truth["memory"]:
        row = found.get((kind, function, later))
        what = f"{kind} of {function} and {later}"
        if exact:
            d.expect(what, row and (row["count"], row["executions"]) == (count, executions), (row, count, executions))
        elif row:
            d.near(what, row["share"], count / executions, row.get("share_error", 1) + 0.0005)
    wanted = {tuple(fact[:3]) for fact in truth["memory"]}
    own = {name for fact in truth["memory"] for name in fact[1:3]}
    d.expect("nothing else is found", not [key for key in found if own.issuperset(key[1:]) and key not in wanted], found.keys())


def check_sharing(d, program, rounds, options, exact):
    """In full mode each loop is one stretch, or a few: each may be off by a visit on either side."""
    profile, truth = d.begin(program, rounds, [*options, "--profile", "hazard"], exact)
    if not exact and profile["coverage"]["samples"] <= 2:
        print(f"skip  {d.what}: the machine was too busy for samples: {profile['coverage']['samples']}")
        return
    rows = profile["hotlists"]["sharing"]
    found = {(row["kind"], row["from"].get("function"), row["to"].get("function")): row for row in rows}
    most = 2 * truth["instructions"] / VISIT
    for kind, function, other, bytes_, other_bytes in truth["sharing"]:
        row = found.get((kind, function, other))
        what = f"{kind} of {function} and {other}"
        if row is None:
            d.expect(what, not exact, found.keys())
            continue
        d.expect(f"{what}: bytes", (row["from_bytes"], row["to_bytes"]) == (list(range(*bytes_)), list(range(*other_bytes))), row)
        d.expect(f"{what}: one line", row["lines"] == 1, row)
        if exact:
            d.expect(what, abs(row["count"] - most) <= 4 * (row["stretches"] + 1), (row, most))
        else:
            d.expect(what, row["count"] <= most, (row, most))
    wanted = {tuple(fact[:3]) for fact in truth["sharing"]}
    loops = {name for fact in wanted for name in fact[1:]}
    own = loops.union(truth["unshared"])
    others = {key: row for key, row in found.items() if own.issuperset(key[1:]) and key not in wanted}
    d.expect("nothing else is found", not others, others)


def check(d, program, rounds, options, exact):
    profile, truth = d.begin(program, rounds, options, exact)
    if not exact and profile["coverage"]["samples"] <= 2:
        print(f"skip  {d.what}: the machine was too busy for samples: {profile['coverage']['samples']}")
        return
    kinds = profile["run"]["options"]["profile"].split(",")
    if "latency" in kinds:
        check_loads(d, profile, truth, exact)
    if kinds == ["latency"]:
        return
    check_calls(d, profile, truth.get("calls", []), exact)
    check_arguments(d, profile, truth.get("arguments", []), exact, "argument")
    check_arguments(d, profile, truth.get("sizes", []), exact, "size")
    check_values(d, profile, truth.get("values", []), exact)
    if "targets" in truth:
        check_targets(d, profile, truth["targets"], exact)
    if exact:
        check_entered(d, profile, truth.get("entered", {}))
        if "generated" in truth:
            check_generated(d, profile, truth)


def check_all(driver, options):
    modes = options.modes.split(",")
    for program, (counted, timed, sampled) in PROGRAMS.items():
        if options.only and program not in options.only.split(","):
            continue
        if counted and "full" in modes:
            check(driver, program, counted, FULL, True)
        if timed and "full" in modes:
            check(driver, program, timed, LATENCY, True)
        for mode in modes:
            if sampled and mode in SAMPLED:
                check(driver, program, sampled, SAMPLED[mode], False)
    for program, (counted, sampled) in MEMORY.items():
        if options.only and program not in options.only.split(","):
            continue
        for mode in modes:
            rounds, how = (counted, ["--mode", "full"]) if mode == "full" else (sampled, SAMPLED[mode])
            check_memory(driver, program, rounds, how, mode == "full")
    for program, (counted, sampled) in SHARING.items():
        if options.only and program not in options.only.split(","):
            continue
        for mode in modes:
            rounds, how = (counted, ["--mode", "full"]) if mode == "full" else (sampled, SAMPLED[mode])
            check_sharing(driver, program, rounds, how, mode == "full")


sys.exit(drive(__doc__, check_all, ONLY_AND_MODES, driver=FactDriver))
