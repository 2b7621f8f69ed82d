# SPDX-License-Identifier: MIT
"""The programs that the benchmarks run: all from Debian's packages, on inputs made here."""

import functools
import itertools
import os
import random
import subprocess
import sys

import other_programs

# Else each run has other hashes, and makes as many steps more or less: a few percent of all edges.
os.environ.update(PYTHONHASHSEED="0", PERL_HASH_SEED="0")

PERL = "my %h; for (1..COUNT) { $h{$_ % 7777} += $_; $s .= chr(97 + $_ % 26) if $_ % 50 == 0 } " \
       "my $n = () = $s =~ /a[b-d]+e/g; print join(',', $n, map { $h{$_} } (sort keys %h)[0..9])"
PYTHON = """
import json, re
class Point:
    def __init__(self, x, y): self.x, self.y = x, y
    def norm(self): return self.x * self.x + self.y * self.y
total = 0
for i in range(COUNT):
    total += Point(i, i + 1).norm() % 7
words = [str(i * 7919 % 10007) for i in range(200000)]
words.sort()
print(total, len(json.dumps(words)), len(re.findall('1[0-5]+', ' '.join(words))))
"""
PYTHON_MODULES = ["asyncio", "decimal", "email", "http.client", "json", "re", "sqlite3", "unittest",
                  "urllib.request", "xml.dom.minidom"]
SQL = "create table t(a integer primary key, b text, c integer);" \
      "with recursive n(x) as (select 1 union all select x+1 from n where x<COUNT)" \
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


def make_cpp(path, functions=40):
    """A preprocessed C++ file of the standard library's heavier headers, with code that uses them."""
    source = "#include <algorithm>\n#include <functional>\n#include <map>\n#include <regex>\n" \
             "#include <string>\n#include <unordered_map>\n#include <vector>\n#include <iostream>\n"
    for i in range(functions):
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


def scaled(script, count):
    return script.replace("COUNT", str(int(count)))


@functools.cache
def text(folder, name, size):
    make_text(folder / name, int(size))
    return folder / name


def cc1plus(folder, scale):
    compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True,
                              check=True).stdout.strip()
    preprocessed = folder / "big.ii"
    make_cpp(preprocessed, max(40, int(8 * scale)))
    return [compiler, "-quiet", "-fpreprocessed", "-O2", preprocessed, "-o", "/dev/null"]


# What makes the command of each, in a folder, with so much work; that of cc1plus is not less than at 5.
MAKERS = {
    "gzip": lambda folder, scale: ["gzip", "-c", text(folder, "text", 40_000_000 * scale)],
    "bzip2": lambda folder, scale: ["bzip2", "-c", text(folder, "small", 12_000_000 * scale)],
    "xz": lambda folder, scale: ["xz", "-2", "-T1", "-c", text(folder, "small", 12_000_000 * scale)],
    "sqlite3": lambda _, scale: ["sqlite3", ":memory:", scaled(SQL, 1_000_000 * scale)],
    "perl": lambda _, scale: ["perl", "-e", scaled(PERL, 12_000_000 * scale)],
    "python3": lambda _, scale: ["/usr/bin/python3", "-c", scaled(PYTHON, 6_000_000 * scale)],
    "cc1plus": cc1plus,
}


def cases(folder, scale, only=""):
    """(name, command) of each, or of those of `only`, a list with commas, which may have some of other_programs.py, or
    all of them ("others"); `scale` multiplies the work."""
    known = MAKERS | other_programs.MAKERS
    wanted = [name for name in only.split(",") if name] or list(MAKERS)
    if "others" in wanted:
        wanted = [name for name in wanted if name != "others"] + list(other_programs.MAKERS)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"no such program: {', '.join(unknown)} (there are {', '.join(known)})")
    return [(name, known[name](folder, scale)) for name in dict.fromkeys(wanted)]
