#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The queries of docs/fleet.md, as they are printed there, in DuckDB over the rows of 1,000 profiles, say what
`shadowprof merge` makes of the same files.

usage: fleet.py --shadowprof PATH --fleet-doc FILE --script FILE --old PROGRAM --new PROGRAM [--only TEXT]
                --bare PROGRAM...

Most hosts run one of the bare programs in full mode, each a run of its own. Those of the service `shop` were sampled
while they ran its old or its new program, which share the C library.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from gate_cases import Skipped, npm_modules, require, run_in_folder

PROFILES = 1000
RELEASES = 2  # runs of each release of the service


def call(*command, **options):
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, timeout=240, **options)
    require(done.returncode == 0, f"{command[:6]}: status {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


def documented_statements(path):
    """Blocks of SQL, each without what indents it and the semicolon."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    statements = [statement.strip() for block in blocks for statement in block.split(";\n")]
    return [statement for statement in statements if re.match(r"(CREATE|SELECT|WITH|COPY)\b", statement)]


class Fleet:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.script = os.path.abspath(options.script)
        self.dir = pathlib.Path(folder)
        (self.dir / "profiles").mkdir()
        self.statements = documented_statements(options.fleet_doc)
        self.node = shutil.which("node")
        if not self.node:
            raise Skipped("node is not installed")
        self.modules = npm_modules("@duckdb/node-api")
        self.files = []
        self.releases = tuple(os.path.basename(program) for program in (options.old, options.new))
        for program in (options.old, options.new):
            for _ in range(RELEASES):
                self.add("shop", program)
        while len(self.files) < PROFILES:
            bare = options.bare[len(self.files) % len(options.bare)]
            self.add(os.path.basename(bare), bare, "--mode", "full")
        self.sum = self.dir / "sum.json"
        call(self.shadowprof, "merge", "-o", self.sum, *self.files)
        merged = call(self.shadowprof, "export", "--format", "ndjson", "--service", "all", self.sum)
        self.merged = [json.loads(line) for line in merged.decode().splitlines()]

    def add(self, service, program, *mode):
        """One more host, with the run of a program and its rows."""
        name = f"host{len(self.files)}"
        path = self.dir / f"{name}.json"
        call(self.shadowprof, "run", "-q", "-o", path, *mode, "--", os.path.abspath(program))
        call(self.shadowprof, "export", "--format", "ndjson", "--host", name, "--service", service,
             "-o", self.dir / "profiles" / f"{name}.ndjson.zst", path)
        self.files.append(path)

    def ask(self, *statements):
        """The rows of the last one. The documented view is there."""
        view, *_ = [s for s in self.statements if s.startswith("CREATE")]
        answers = call(self.node, self.script, input=json.dumps([view, *statements]).encode(), cwd=self.dir,
                       env={**os.environ, "NODE_PATH": str(self.modules)})
        return json.loads(answers)[-1]

    def documented(self, pattern):
        found = [s for s in self.statements if re.search(pattern, s)]
        require(len(found) == 1, f"{len(found)} statements with {pattern}")
        return found[0]


def summed(rows, kind, keys, *values):
    """What merge says: SELECT keys, sum(values) FROM rows WHERE kind = kind GROUP BY keys"""
    sums = collections.Counter()
    for row in rows:
        if row["kind"] == kind:
            sums[tuple(row[key] for key in keys)] += sum(row[value] or 0 for value in values)
    return sums


def hosts_add_up_to_merge(x):
    rows = x.ask(x.documented(r"any_value\(\"function\"\) AS name"))
    found = {(row["build_id"], int(row["offset"])): int(row["instructions"]) for row in rows}
    wanted = summed(x.merged, "code", ["build_id", "offset"], "instructions")
    require(len(found) == len(rows) > 100, f"{len(rows)} rows")
    odd = [key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)]
    require(not odd, f"{len(odd)} places differ: {odd[:5]}")
    counts = [int(row["instructions"]) for row in rows]
    require(counts == sorted(counts, reverse=True), "not the hottest first")
    hosts = x.ask("SELECT count(DISTINCT host) AS hosts, sum(instructions) AS all FROM profiles WHERE kind = 'run'")
    require(hosts == [{"hosts": str(PROFILES), "all": str(sum(wanted.values()))}], hosts)


def time_of_a_service_is_that_of_merge(x):
    rows = x.ask(x.documented("AS seconds"))
    wanted = summed(x.merged, "time", ["function"], "user_ns", "kernel_ns")
    found = {row["function"]: row for row in rows}
    for (function,), ns in wanted.most_common(3):
        require(abs(float(found[function]["seconds"]) - ns / 1e9) < 1e-6, f"{function}: {ns} ns, {found[function]}")
    require(len(found) == len(wanted) and rows[0]["function"] == wanted.most_common(1)[0][0][0], rows[0])
    require(all(1 <= int(row["hosts"]) <= 2 * RELEASES for row in rows), rows)


def releases_are_told_apart(x):
    of_builds = x.ask("SELECT build_id, sum(user_ns + kernel_ns) AS ns FROM profiles "
                      f"WHERE kind = 'time' AND service = 'shop' AND parse_filename(module) IN {x.releases} "
                      "GROUP BY build_id ORDER BY min(host)")
    require(len(of_builds) == 2, of_builds)
    old, new = [row["build_id"] for row in of_builds]
    rows = x.ask(x.documented("AS change").replace("'OLD'", f"'{old}'").replace("'NEW'", f"'{new}'"))
    changes = [float(row["change"]) for row in rows]
    require(rows and abs(sum(changes)) < 1e-6, f"shares change by {sum(changes)} in all: {rows}")
    require(changes == sorted(changes, key=abs, reverse=True), changes)


def parquet_holds_the_same_rows(x):
    rows = x.ask(x.documented("parquet"), "SELECT count(*) AS rows, sum(instructions) AS all FROM 'profiles.parquet'")
    require(rows == x.ask("SELECT count(*) AS rows, sum(instructions) AS all FROM profiles"), rows)
    require(int(rows[0]["rows"]) > PROFILES, rows)


CASES = [hosts_add_up_to_merge, time_of_a_service_is_that_of_merge, releases_are_told_apart,
         parquet_holds_the_same_rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--shadowprof", "--fleet-doc", "--script", "--old", "--new"):
        parser.add_argument(name, required=True)
    parser.add_argument("--bare", required=True, nargs="+")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    return run_in_folder(CASES, Fleet, options, "shadowprof-fleet-")


if __name__ == "__main__":
    sys.exit(main())
