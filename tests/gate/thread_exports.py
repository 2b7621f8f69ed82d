#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports that say what each thread did, as their readers read them.

usage: thread_exports.py --shadowprof PATH --crew PROGRAM --program PROGRAM [--only TEXT]

CREW (crew.cc) is sampled, so its profile has processor time by thread; PROGRAM is profiled in full
mode, whose profile has instructions only. What an export adds up to is compared with the profile.
"""

import argparse
import collections
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from exports import check_firefox_thread
from gate_cases import require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

UNKNOWN = "[callers unknown]"
MOST_EVENTS = 10_000  # and half as many again, where no stack has a whole number of periods


def call(*command):
    done = subprocess.run(list(map(str, command)), check=False, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=240)
    require(done.returncode == 0, f"{command}: status {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


class Profiled:
    """A profile, and what its tables say."""

    def __init__(self, shadowprof, path, *arguments):
        self.shadowprof, self.path = shadowprof, path
        call(shadowprof, "run", "-q", "-o", path, *arguments)
        self.profile = read_profile(path)
        self.attributed = self.profile["coverage"]["attributed"]
        self.threads = self.profile.get("threads", [])
        self.ns = collections.Counter()  # by thread
        time = self.profile["tables"].get("time")
        if time:
            for thread, user, kernel in zip(time["thread"], time["user_ns"], time["kernel_ns"]):
                self.ns[thread] += user + kernel

    def export(self, form, name, *options):
        path = self.path.with_name(name)
        call(self.shadowprof, "export", "--format", form, *options, "-o", path, self.path)
        return path

    def of_thread(self, numbers):
        """Time by number of thread, where `numbers` has it by thread id."""
        return {number: numbers[thread["tid"]] for number, thread in enumerate(self.threads)
                if numbers[thread["tid"]]}


class Subject:
    def __init__(self, options, folder):
        shadowprof, folder = os.path.abspath(options.shadowprof), pathlib.Path(folder)
        self.crew = Profiled(shadowprof, folder / "crew.json", "--", os.path.abspath(options.crew))
        self.full = Profiled(shadowprof, folder / "full.json", "--mode", "full", "--",
                             os.path.abspath(options.program))


EVENT = re.compile(r"(\S+)  (\d+)/(\d+) (\d+)\.(\d{9}): (\d+) (\S+):")
FRAME = re.compile(r" +[0-9a-f]+ (.+) \((\S+)\)")
Event = collections.namedtuple("Event", "comm pid tid at period kind frames")


def perf_events(path):
    events = []
    for text in path.read_text(encoding="utf-8").split("\n\n"):
        if not text:
            continue
        head, *lines = text.strip("\n").split("\n")
        found = EVENT.fullmatch(head)
        require(found and lines, f"no event: {head!r}")
        frames = [FRAME.fullmatch(line) for line in lines]
        require(all(frames), f"not all are frames: {lines}")
        comm, pid, tid, seconds, nanoseconds, period, kind = found.groups()
        events.append(Event(comm, int(pid), int(tid), int(seconds + nanoseconds), int(period), kind,
                            [(re.sub(r"\+0x[0-9a-f]+$", "", f.group(1)), f.group(2)) for f in frames]))
    return events


def perf_script_has_the_time_of_each_thread(x):
    events = perf_events(x.crew.export("perf-script", "crew.perf"))
    require(len(events) <= MOST_EVENTS * 1.5 + len(x.crew.threads), len(events))
    require({event.kind for event in events} == {"cpu-clock"}, "another event")
    periods = collections.Counter()
    for event in events:
        periods[event.tid] += event.period
    for number, thread in enumerate(x.crew.threads):
        require(periods[thread["tid"]] == x.crew.ns[number], f"{thread}: {periods}")
    names = {event.tid: (event.comm, event.pid) for event in events}
    require(("worker_1", x.crew.profile["run"]["pid"]) in names.values(), names)
    require(len(names) == 2, names)


def readers_of_perf_script_see_the_same(x):
    """Some add up periods, some count events, some take the time between two events."""
    for profiled in (x.crew, x.full):
        events = perf_events(profiled.export("perf-script", "readers.perf"))
        by_thread = collections.defaultdict(list)
        for event in events:
            by_thread[event.tid].append(event)
        whole = sum(event.period for event in events)
        for mine in by_thread.values():
            weights = {kind: collections.Counter() for kind in ("periods", "events", "times")}
            for before, event, after in zip([None] + mine[:-1], mine, mine[1:] + [None]):
                stack = tuple(event.frames)
                weights["periods"][stack] += event.period
                weights["events"][stack] += whole / len(events)
                begin = (before.at + event.at) / 2 if before else event.at
                weights["times"][stack] += ((event.at + after.at) / 2 if after else event.at) - begin
            for stack, periods in weights["periods"].items():
                for kind in ("events", "times"):
                    off = abs(weights[kind][stack] - periods)
                    require(off < 0.6 * periods + 2 * whole / MOST_EVENTS and off < 0.02 * whole,
                            f"{kind}: {weights[kind][stack]} instead of {periods}: {stack}")


def perf_script_has_inlined_calls_below_their_callers(x):
    events = perf_events(x.crew.export("perf-script", "crew.perf"))
    whole = sum(event.period for event in events)
    own = {"crew": ("lead", "follow"), "worker_1": ("follow", "lead")}
    below, mixed = collections.Counter(), 0
    for event in events:
        names = [name for name, _ in event.frames]
        for caller in (*(f"::{mine}(" for mine in own[event.comm]), UNKNOWN):
            below[event.comm, caller] += event.period * any(caller in name for name in names)
        mixed += event.period * any(name.endswith("::mix") and file == "inlined"
                                    for name, file in event.frames)
    require(mixed > 0.5 * whole, f"{mixed} of {whole} in mix")
    for comm, (mine, other) in own.items():
        known = below[comm, f"::{mine}("]
        # Few samples may have met one of the threads only.
        require(known > 0.15 * whole and known + below[comm, UNKNOWN] > 0.3 * whole, f"{comm}: {below} of {whole}")
        # None if there were some 70 ticks of the clock, which a busy machine may have no time for.
        require(below[comm, f"::{other}("] < 0.05 * whole, f"{comm}: {below} of {whole}")


def perf_script_without_time_has_instructions(x):
    events = perf_events(x.full.export("perf-script", "full.perf"))
    require({event.kind for event in events} == {"instructions"}, "another event")
    require(sum(event.period for event in events) == x.full.attributed, "not all instructions")
    require(len(events) <= MOST_EVENTS * 1.5 + 1, len(events))
    require({event.tid for event in events} == {x.full.profile["run"]["pid"]}, "another thread")
    require(any("{anonymous}::parse(" in name for event in events for name, _ in event.frames),
            "no parse")


def stackcollapse_reads_perf_script(x):
    script = shutil.which("stackcollapse-perf.pl")
    if not script:
        print("skip  stackcollapse-perf.pl: it is not in PATH")
        return
    folded = collections.Counter()
    for line in call("perl", script, x.crew.export("perf-script", "crew.perf")).decode().splitlines():
        stack, _, count = line.rpartition(" ")
        folded[stack.split(";")[0]] += int(count)
    require(sorted(folded.values()) == sorted(x.crew.ns.values()), folded)


def decoded(data, proto, message):
    """A message as protoc decodes it: {field: [values]}."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "src" / "report"
    text = subprocess.run(["protoc", f"--proto_path={folder}", f"--decode={message}", proto],
                          input=data, capture_output=True, check=True).stdout.decode()
    whole = collections.defaultdict(list)
    open_messages = [whole]
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if value == "{":
            open_messages.append(collections.defaultdict(list))
            open_messages[-2][name].append(open_messages[-1])
        elif name == "}":
            open_messages.pop()
        else:
            require(not name.rstrip(":").isdigit(), f"a field that {proto} does not have: {line}")
            open_messages[-1][name.rstrip(":")].append(
                value.strip('"') if value.startswith('"') else
                value == "true" if value in ("true", "false") else int(value))
    return whole


def first(message, field, default=0):
    return message[field][0] if message[field] else default


def pprof_has_labels_of_threads(x):
    data = gzip.decompress(x.crew.export("pprof", "crew.pb.gz").read_bytes())
    whole = decoded(data, "pprof.proto", "shadowprof.pprof.Profile")
    strings = whole["string_table"]
    types = [strings[first(kind, "type")] for kind in whole["sample_type"]]
    require(types == ["instructions", "cpu"], types)
    require(strings[first(whole, "default_sample_type")] == "cpu", "another type is shown first")
    ns, names, instructions = collections.Counter(), {}, 0
    for sample in whole["sample"]:
        count, time = sample["value"]
        labels = {strings[first(label, "key")]: strings[first(label, "str")] or first(label, "num")
                  for label in sample["label"]}
        instructions += count
        require(bool(labels) == (count == 0) and (count == 0) != (time == 0), sample)
        if labels:
            require(labels["process_id"] == x.crew.profile["run"]["pid"], labels)
            ns[labels["thread_id"]] += time
            names[labels["thread_id"]] = labels["thread"]
    require(x.crew.of_thread(ns) == dict(x.crew.ns), ns)
    require(names == {t["tid"]: t["name"] for t in x.crew.threads if t["tid"] in names}, names)
    require(instructions == x.crew.profile["coverage"]["instructions_profiled"], instructions)


def otlp_message(path):
    return decoded(path.read_bytes(), "otlp.proto", "shadowprof.otlp.ProfilesData")


def otlp_stacks(message, profile):
    """Names from the leaf on, attributes and value of each sample."""
    tables, = message["dictionary"]
    strings = tables["string_table"]

    def attributes(owner):
        result = {}
        for index in owner["attribute_indices"]:
            attribute = tables["attribute_table"][index]
            value, = attribute["value"]
            name = strings[first(attribute, "key_strindex")]
            require(name not in result, f"{name} twice")
            result[name] = first(value, "string_value", None) or first(value, "int_value")
        return result

    for sample in profile["samples"]:
        names = []
        for index in tables["stack_table"][first(sample, "stack_index")]["location_indices"]:
            location = tables["location_table"][index]
            for line in location["lines"]:
                function = tables["function_table"][first(line, "function_index")]
                names.append(strings[first(function, "name_strindex")])
            mapping = tables["mapping_table"][first(location, "mapping_index")]
            low, high = first(mapping, "memory_start"), first(mapping, "memory_limit")
            require(low <= first(location, "address") <= high, f"{location} is not in {mapping}")
        value, = sample["values"]
        require(names and value > 0, sample)
        yield names, attributes(sample), value


def otlp_profiles(message):
    resource, = message["resource_profiles"]
    scope, = resource["scope_profiles"]
    tables, = message["dictionary"]
    for name in ("mapping", "location", "function", "attribute", "stack"):
        require(not tables[f"{name}_table"][0], f"the first {name} is not empty")
    require(tables["string_table"][0] == "", "the first string is not empty")
    require(len(set(tables["string_table"])) == len(tables["string_table"]), "a string twice")
    kinds = [tables["string_table"][first(first(profile, "sample_type"), "type_strindex")]
             for profile in scope["profiles"]]
    facts = {first(fact, "key"): first(fact, "value") for fact in first(resource, "resource")["attributes"]}
    return facts, dict(zip(kinds, scope["profiles"]))


def otlp_has_time_by_thread_and_instructions(x):
    message = otlp_message(x.crew.export("otlp", "crew.otlp"))
    facts, profiles = otlp_profiles(message)
    require(list(profiles) == ["cpu", "instructions"], list(profiles))
    require(facts["service.name"]["string_value"] == ["crew"] and "host.name" not in facts, facts)
    ns, mixed, foreign = collections.Counter(), 0, 0
    for names, attributes, value in otlp_stacks(message, profiles["cpu"]):
        require(attributes["process.pid"] == x.crew.profile["run"]["pid"], attributes)
        ns[attributes["thread.id"]] += value
        mixed += value * any(name.endswith("::mix") for name in names[:2])
        other = "::lead(" if attributes["thread.name"] == "worker 1" else "::follow("
        foreign += value * any(other in name for name in names)
    require(x.crew.of_thread(ns) == dict(x.crew.ns), ns)
    require(mixed > 0.5 * sum(ns.values()), mixed)
    require(foreign < 0.05 * sum(ns.values()), f"{foreign} below callers of the other thread")
    instructions = sum(value for _, _, value in otlp_stacks(message, profiles["instructions"]))
    require(instructions == x.crew.profile["coverage"]["instructions_profiled"], instructions)


def otlp_without_time_has_instructions(x):
    plain = x.full.export("otlp", "full.otlp", "--host", "h1", "--service", "shop")
    message = otlp_message(plain)
    facts, profiles = otlp_profiles(message)
    require(list(profiles) == ["instructions"], list(profiles))
    require(facts["host.name"]["string_value"] == ["h1"] and
            facts["service.name"]["string_value"] == ["shop"], facts)
    parse, whole = 0, 0
    for names, attributes, value in otlp_stacks(message, profiles["instructions"]):
        require(not attributes, attributes)
        whole += value
        parse += value * ("::parse(" in names[-1])
    require(whole == x.full.attributed, whole)
    known = next(f for f in x.full.profile["functions"] if "::parse(" in f["name"])
    require(parse == known["self_instructions"], parse)
    packed = x.full.export("otlp", "full.otlp.gz", "--host", "h1", "--service", "shop")
    require(gzip.decompress(packed.read_bytes()) == plain.read_bytes(), "not what it is packed")


def firefox_has_the_time_of_each_thread_and_when_samples_were(x):
    data = json.loads(x.crew.export("firefox", "crew.firefox.json").read_text(encoding="utf-8"))
    kernel, = [i for i, kind in enumerate(data["meta"]["categories"]) if kind["name"] == "Kernel"]
    ns, names = collections.Counter(), {}
    for thread in data["threads"]:
        check_firefox_thread(thread, data["libs"])
        require(thread["pid"] == str(x.crew.profile["run"]["pid"]), thread["pid"])
        require(thread["isMainThread"] == (str(thread["tid"]) == thread["pid"]), thread["tid"])
        names[thread["tid"]] = thread["name"]
        samples = thread["samples"]
        require(samples["weightType"] == "tracing-ms", samples["weightType"])
        until = 0
        for at, weight in zip(samples["time"], samples["weight"]):
            require(at > until - 1e-3 and weight > 0, f"{at}, and the one before lasts until {until} ms")
            until = at + weight
            ns[thread["tid"]] += round(weight * 1e6)
        slices = [s for s, t in zip(*(x.crew.profile["tables"]["time_course"][key] for key in ("slice", "thread")))
                  if x.crew.threads[t]["tid"] == thread["tid"]]
        length = x.crew.profile["time"]["slice_us"] / 1000
        require(samples["time"][0] >= length * min(slices), f"it begins at {samples['time'][0]} ms, slices {slices}")
        require(until >= length * max(slices), f"it ends at {until} ms, slices {slices}")
        strings, tables = thread["stringArray"], thread["frameTable"]
        for function, category in zip(tables["func"], tables["category"]):
            name = strings[thread["funcTable"]["name"][function]]
            require((name == "[kernel]") == (category == kernel), name)
    require(x.crew.of_thread(ns) == dict(x.crew.ns), ns)
    require(names == {t["tid"]: t["name"] for t in x.crew.threads if t["tid"] in names}, names)
    timeline = x.crew.profile["overhead"]["timeline"]
    markers = [marker for thread in data["threads"] for marker in zip(
        thread["markers"]["startTime"], thread["markers"]["endTime"], thread["markers"]["data"])]
    require([round(start * 1000) for start, _, _ in markers] == timeline["at_us"], markers)
    require([round((end - start) * 1000) for start, end, _ in markers] == timeline["lived_us"], markers)
    require([data["samples"] for _, _, data in markers] == timeline["samples"], markers)


def speedscope_has_the_time_and_the_instructions(x):
    for run in (x.crew, x.full):
        profiles = json.loads(run.export("speedscope", "x.speedscope.json").read_text())["profiles"]
        sums = {p["name"]: sum(p["weights"]) for p in profiles}
        require(all(p["endValue"] == sum(p["weights"]) and len(p["samples"]) == len(p["weights"]) for p in profiles), sums)
        require(sums["instructions"] > 0 and profiles[0]["name"] == ("processor time" if run.ns else "instructions"), sums)
        require(sums.get("processor time", 0) == sum(run.ns.values()), f"{sums}, not {sum(run.ns.values())} ns")
        require(all(p["unit"] == ("none" if p["name"] == "instructions" else "nanoseconds") for p in profiles), sums)


CASES = [pprof_has_labels_of_threads, otlp_has_time_by_thread_and_instructions,
         otlp_without_time_has_instructions,
         perf_script_has_the_time_of_each_thread, readers_of_perf_script_see_the_same,
         speedscope_has_the_time_and_the_instructions,
         perf_script_has_inlined_calls_below_their_callers,
         perf_script_without_time_has_instructions,
         firefox_has_the_time_of_each_thread_and_when_samples_were, stackcollapse_reads_perf_script]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--crew", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadowprof-threads-") as folder:
        return run_cases(CASES, Subject(options, folder), options.only)


if __name__ == "__main__":
    sys.exit(main())
