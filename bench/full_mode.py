#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What full mode costs: CPU time of program and profiler together, over native CPU time.

usage: bench/full_mode.py SHADOWPROF [--repeat N] [--only NAME,...] [--latency] [--scale X]

For each program, in turn and interleaved: native; the engine alone (block trace recorded and
discarded, --profile none); edges and calls collected (the default); paths; values; loads timed
(with --latency, as it is slow). The figure of a program is the
ratio of the smallest CPU times of N repeats; the last line is the geometric mean. All programs come
from Debian's packages; their inputs are made here, the same each time.
"""

import argparse
import itertools
import math
import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile

PERL = "my %h; for (1..12000000) { $h{$_ % 7777} += $_; $s .= chr(97 + $_ % 26) if $_ % 50 == 0 } " \
       "my $n = () = $s =~ /a[b-d]+e/g; print join(',', $n, map { $h{$_} } (sort keys %h)[0..9])"
PYTHON = """
import json, re
class Point:
    def __init__(self, x, y): self.x, self.y = x, y
    def norm(self): return self.x * self.x + self.y * self.y
total = 0
for i in range(6000000):
    total += Point(i, i + 1).norm() % 7
words = [str(i * 7919 % 10007) for i in range(200000)]
words.sort()
print(total, len(json.dumps(words)), len(re.findall('1[0-5]+', ' '.join(words))))
"""
SQL = "create table t(a integer primary key, b text, c integer);" \
      "with recursive n(x) as (select 1 union all select x+1 from n where x<1000000)" \
      " insert into t select x, 'row ' || (x * 7919 % 100003), x % 1000 from n;" \
      "create index i on t(b); select c, count(*), max(b) from t group by c order by 2, 3 limit 5;" \
      "select sum(length(b)) from t where b like '%77%'; select count(*) from t x join t y on x.b=y.b;"


def make_text(path, size):
    """Text that compresses about as well as prose does."""
    rng = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20000)]
    weights = list(itertools.accumulate(1 / (i + 3) for i in range(len(words))))
    with path.open("w", encoding="ascii") as out:
        written = 0
        while written < size:
            line = " ".join(rng.choices(words, cum_weights=weights, k=12)) + "\n"
            out.write(line)
            written += len(line)


def make_cpp(path):
    """A preprocessed C++ file of the standard library's heavier headers, with code that uses them."""
    source = "#include <algorithm>\n#include <functional>\n#include <map>\n#include <regex>\n" \
             "#include <string>\n#include <unordered_map>\n#include <vector>\n#include <iostream>\n"
    for i in range(40):
        source += f"""
struct S{i} {{ std::string name; int value; bool operator<(const S{i}& o) const {{ return value < o.value; }} }};
int f{i}(std::vector<S{i}> v, std::map<std::string, S{i}> m) {{
  std::sort(v.begin(), v.end());
  std::unordered_map<std::string, std::vector<S{i}>> groups;
  for (auto& s : v) groups[s.name].push_back(s);
  std::regex r("a+b{i}");
  int n = 0;
  for (auto& [k, g] : groups) n += std::regex_search(k, r) ? int(g.size()) : m[k].value;
  return n;
}}
"""
    subprocess.run(["g++", "-E", "-x", "c++", "-o", path, "-"], input=source.encode(), check=True)


def cases(folder, scale):
    text = folder / "text"
    make_text(text, int(40_000_000 * scale))
    small = folder / "small"
    make_text(small, int(12_000_000 * scale))
    yield "gzip", ["gzip", "-c", text]
    yield "bzip2", ["bzip2", "-c", small]
    yield "xz", ["xz", "-2", "-T1", "-c", small]
    yield "sqlite3", ["sqlite3", ":memory:", SQL]
    yield "perl", ["perl", "-e", PERL]
    yield "python3", ["/usr/bin/python3", "-c", PYTHON]
    cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True,
                             check=True).stdout.strip()
    preprocessed = folder / "big.ii"
    make_cpp(preprocessed)
    yield "cc1plus", [cc1plus, "-quiet", "-fpreprocessed", "-O2", preprocessed, "-o", "/dev/null"]


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--latency", action="store_true", help="time loads, too")
    parser.add_argument("--scale", type=float, default=1, help="of the inputs of gzip, bzip2 and xz")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="full-mode-"))
    output = folder / "profile.json"
    prefix = [options.shadowprof, "run", "--mode", "full", "-q", "-o", output]
    only = [name for name in options.only.split(",") if name]
    profiles = [("engine", "none"), ("edges+calls", "edge,call"), ("paths", "edge,path"),
                ("values", "edge,value")]
    if options.latency:
        profiles.append(("latency", "edge,latency"))
    print(f"{'program':<10} {'native s':>9} " + " ".join(f"{name:>11}" for name, _ in profiles))
    logs = [0.0] * len(profiles)
    count = 0
    try:
        for name, command in cases(folder, options.scale):
            if only and name not in only:
                continue
            runs = [command] + [prefix + ["--profile", what, "--"] + command for _, what in profiles]
            best = [math.inf] * len(runs)
            for _ in range(options.repeat):
                for i, full in enumerate(runs):
                    best[i] = min(best[i], cpu_seconds(full))
                    if output.exists():
                        os.unlink(output)
            ratios = [b / best[0] for b in best[1:]]
            print(f"{name:<10} {best[0]:>9.2f} " + " ".join(f"{r:>11.2f}" for r in ratios), flush=True)
            logs = [a + math.log(b) for a, b in zip(logs, ratios)]
            count += 1
    finally:
        shutil.rmtree(folder)
    means = [math.exp(a / count) for a in logs]
    print(f"{'geo. mean':<10} {'':>9} " + " ".join(f"{m:>11.2f}" for m in means))


if __name__ == "__main__":
    main()
