#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names and lines of src/symbols, compared with addr2line and eu-addr2line, and their speed.

usage: symbols.py BENCH_SYMBOLISE [--addresses N] [--only TEXT] [--large-mb MB]

Builds a C++ program (PIE, not PIE, stripped with a separate debug file, with mini debug information
and with nothing, packed by dwz, with split debug information in .dwo files) and, where rustc is
there, a Rust program, asks for N random code addresses of each and of the C library, and prints how
many answers agree: the function, the innermost line, and the whole chain of inlined calls with names
and lines, with each of the two tools and with at least one of them. What agrees with neither is
counted by what differs, and printed if SHOW (in the environment) is part of that. Then the time and
the memory that 100,000 distinct addresses of a program take that was linked from MB of debug
information. Everything is made in a temporary directory.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

CPP = r"""
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
namespace app {
struct Shape { virtual ~Shape() = default; virtual double area() const = 0; };
template <int N> struct Square : Shape { double side = N; double area() const override { return side * side; } };
using Value = std::variant<int, double, std::string>;
static std::string show(const Value &v) {
  return std::visit([](const auto &x) { std::ostringstream s; s << x; return s.str(); }, v);
}
template <typename T> std::vector<T> sorted(std::vector<T> v) {
  std::sort(v.begin(), v.end(), [](const T &a, const T &b) { return b < a; });
  return v;
}
}
int main(int argc, char **argv) {
  std::map<std::string, std::vector<app::Value>> table;
  for (int i = 0; i < 100; i++) table[std::to_string(i % 10)].push_back(i * 0.5);
  std::unordered_map<int, std::unique_ptr<app::Shape>> shapes;
  shapes[1] = std::make_unique<app::Square<1>>();
  shapes[2] = std::make_unique<app::Square<2>>();
  double sum = 0;
  for (auto &[n, s] : shapes) sum += s->area();
  std::regex word("[a-z]+(x|y)*");
  for (int i = 0; i < argc; i++) sum += std::regex_search(argv[i], word);
  for (auto &[k, v] : table) for (auto &x : app::sorted(v)) std::puts(app::show(x).c_str());
  std::printf("%f\n", sum);
}
"""

RUST = r"""
use std::collections::{BTreeMap, HashMap};
trait Shape { fn area(&self) -> f64; }
struct Square(f64);
impl Shape for Square { fn area(&self) -> f64 { self.0 * self.0 } }
mod inner {
    pub fn words<'a>(text: &'a str) -> impl Iterator<Item = String> + 'a {
        text.split_whitespace().map(|w| w.to_uppercase())
    }
}
fn main() {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for w in inner::words("a b c a b the quick brown fox") { *counts.entry(w).or_default() += 1; }
    let ordered: BTreeMap<_, _> = counts.into_iter().collect();
    for (w, n) in &ordered { println!("{w} {n}"); }
    let shapes: Vec<Box<dyn Shape>> = (0..5).map(|i| Box::new(Square(i as f64)) as Box<dyn Shape>).collect();
    println!("{}", shapes.iter().map(|s| s.area()).sum::<f64>());
}
"""


def call(*command, **options):
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True,
                          errors="replace", **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def functions_of(program):
    """(address, size) of each function, from the symbol table or from .eh_frame's."""
    ranges = []
    for line in call("readelf", "-sW", program).splitlines():
        words = line.split()
        if len(words) >= 8 and words[3] in ("FUNC", "IFUNC") and words[6] != "UND":
            size = int(words[2], 0)
            if size:
                ranges.append((int(words[1], 16), size))
    return sorted(set(ranges))


def random_addresses(ranges, count):
    rng = random.Random(7)
    weights = [size for _, size in ranges]
    chosen = set()
    for start, size in rng.choices(ranges, weights, k=4 * count):
        chosen.add(start + rng.randrange(size))
        if len(chosen) == count:
            break
    return sorted(chosen)


def place(text):
    """ "dir/file.c:12 (discriminator 3)" -> ("file.c", 12)"""
    text = re.sub(r" \(discriminator \d+\)", "", text.strip())
    name, _, line = text.rpartition(":")
    if line.isdigit() and re.search(r":\d+$", name):  # eu-addr2line has columns
        name, _, line = name.rpartition(":")
    name = name.rsplit("/", 1)[-1]
    number = int(line) if line.isdigit() else 0
    return (name if number and name != "??" else "", number)


def ask(command, program, addresses):
    """For each address [(function, (file, line)), ...], innermost first."""
    text = call(*command, "-afiC", "-e", program, input="".join(f"{a:#x}\n" for a in addresses))
    answers, lines = [], iter(text.splitlines())
    for line in lines:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            answers.append([])
        else:
            answers[-1].append((re.sub(r" inlined at .*", "", line), place(next(lines))))
    return answers


def ask_us(tool, program, addresses):
    """The same, and for each address the function that reports name."""
    text = call(tool, program, input="".join(f"{a:x}\n" for a in addresses))
    answers, functions = [], []
    for line in text.splitlines():
        first, _, rest = line.partition("\t")
        if first:
            functions.append(rest)
            answers.append([])
        else:
            name, _, where = rest.rpartition("\t")
            answers[-1].append((name, place(where)))
    return functions, answers


def plain(name):
    """Without what tells parts, copies and versions of a function apart, and without blanks."""
    name = re.sub(r"(\.(cold|part|constprop|isra|lto_priv)(\.\d+)*)+$", "", name)
    return re.sub(r" \[clone [^]]*\]|(?<=\w)@.*$|\s", "", name)


def last_part(name):
    """The function's own name: without parameters, templates, namespaces and Rust's hashes."""
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    if "operator" in name:
        return name[name.rindex("operator"):][:9]
    name = name.replace("(anonymous namespace)", "")
    while "<" in name and name != (shorter := re.sub(r"<[^<>]*>", "", name)):
        name = shorter
    return re.split(r"::|\.| ", name.split("(")[0].rstrip(":"))[-1]


class Aliases:
    """Symbols of one address name one function; function@0x1234 is the one that begins there."""

    def __init__(self, program):
        self.at = {}
        names = []
        for line in call("readelf", "-sW", program).splitlines():
            words = line.split()
            if len(words) >= 8 and words[3] in ("FUNC", "IFUNC", "NOTYPE") and words[6] != "UND":
                names.append((int(words[1], 16), words[7]))
        shown = call("c++filt", input="\n".join(name for _, name in names)).splitlines()
        for (address, _), name in zip(names, shown):
            self.at.setdefault(plain(name), set()).add(address)

    def same(self, one, other):
        return bool(self.at.get(plain(one), set()) & self.at.get(plain(other), set()))


def name_difference(ours, theirs, aliases):
    if plain(ours) == plain(theirs):
        return ""
    if theirs in ("??", ""):
        return "they have no name"
    if not ours:
        return "we have no name"
    if ours.startswith("_Z"):
        return "not demangled by us"
    if aliases.same(ours, theirs):
        return ""
    if made_up := re.fullmatch(r"function@0x([0-9a-f]+)", ours):
        if int(made_up[1], 16) in aliases.at.get(plain(theirs), ()):
            return ""
    if last_part(ours) == last_part(theirs):
        return "spelled otherwise"
    return "another function"


def line_difference(ours, theirs):
    if ours == theirs:
        return ""
    if not theirs[1]:
        return "they have no line"
    return "another line" if ours[1] else "we have no line"


def chain_difference(ours, theirs, aliases):
    if len(ours) != len(theirs):
        return "more calls" if len(ours) > len(theirs) else "fewer calls"
    for mine, other in zip(ours, theirs):
        if kind := name_difference(mine[0], other[0], aliases):
            return kind
        if kind := line_difference(mine[1], other[1]):
            return kind
    return ""


QUESTIONS = ("function", "line", "inlined calls")
UNKNOWN = [("", ("", 0))]


def differences(function, mine, other, aliases):
    """What is different: for each of QUESTIONS a word or two, "" where nothing is."""
    mine, other = mine or [(function, ("", 0))], other or UNKNOWN
    return (name_difference(function, other[-1][0], aliases),
            line_difference(mine[0][1], other[0][1]), chain_difference(mine, other, aliases))


def compare(name, tool, program, debug, count):
    addresses = random_addresses(functions_of(debug), count)
    aliases = Aliases(debug)
    functions, ours = ask_us(tool, program, addresses)
    tools = [t for t in ("addr2line", "eu-addr2line") if shutil.which(t)]
    theirs = {t: ask([t], debug, addresses) for t in tools}
    same = {t: [0, 0, 0] for t in [*tools, "either"]}
    kinds = [collections.Counter() for _ in QUESTIONS]
    for i, address in enumerate(addresses):
        found = {t: differences(functions[i], ours[i], theirs[t][i], aliases) for t in tools}
        for k in range(len(QUESTIONS)):
            for t in tools:
                same[t][k] += not found[t][k]
            if not all(found[t][k] for t in tools):
                same["either"][k] += 1
                continue
            kind = ", ".join(f"{t}: {found[t][k]}" for t in tools)
            kinds[k][kind] += 1
            if os.environ.get("SHOW", "nothing") in f"{QUESTIONS[k]}; {kind}":
                print(hex(address), QUESTIONS[k], kind, functions[i], ours[i],
                      *[theirs[t][i] for t in tools], sep="\n    ")
    for t, counts in same.items():
        shown = ", ".join(f"{q} {100 * n / len(addresses):6.2f} %" for q, n in zip(QUESTIONS, counts))
        print(f"{name:22} {t:13} {len(addresses):6} addresses: {shown}", flush=True)
    for question, counter in zip(QUESTIONS, kinds):
        for kind, number in counter.most_common():
            print(f"    {question}: {number} where {kind}")


def separate_debug_file(module):
    build_id = re.search(r"Build ID: (\w+)", call("readelf", "-n", module))[1]
    debug = pathlib.Path("/usr/lib/debug/.build-id") / build_id[:2] / (build_id[2:] + ".debug")
    return debug if debug.exists() else module


# Long because it lists all programs, each with how it is built.
def programs(folder):
    """(name, function that builds it and returns (program, file with its debug information))"""
    source = folder / "app.cc"
    source.write_text(CPP)
    rust = folder / "app.rs"
    rust.write_text(RUST)

    def cpp(name, *options):
        program = folder / name
        call("g++", "-O2", "-g", "-std=c++20", *options, "-o", program, source, cwd=folder)
        return program, program

    def stripped():
        program, _ = cpp("app_stripped", "-Wl,--build-id")
        debug = folder / "app_stripped.debug"
        call("objcopy", "--only-keep-debug", program, debug)
        full = folder / "app_full"
        shutil.copy(program, full)
        call("strip", program)
        call("objcopy", f"--add-gnu-debuglink={debug}", program)
        return program, full

    def nothing_else():
        program, _ = cpp("app_bare", "-Wl,--build-id")
        full = shutil.copy(program, folder / "app_bare_full")
        call("strip", program)
        return program, full

    def mini_debug_info():
        """As distributions do it: only symbols that the dynamic linker does not know, in xz."""
        program, full = nothing_else()
        mini = folder / "mini"
        call("objcopy", "-S", "--remove-section=.comment", "--keep-symbols", functions_file(full), full, mini)
        call("xz", "--keep", mini)
        call("objcopy", f"--add-section=.gnu_debugdata={mini}.xz", program)
        return program, full

    def functions_file(program):
        names = {line.split()[-1] for line in call("nm", "--defined-only", program).splitlines()
                 if line.split()[-2] in "TtWw"}
        (folder / "names").write_text("\n".join(names))
        return folder / "names"

    def dwz():
        program, _ = cpp("app_dwz")
        other, _ = cpp("app_dwz_other", "-O1")
        full = folder / "app_dwz_full"
        shutil.copy(program, full)
        call("dwz", "-m", folder / "common.debug", "-M", folder / "common.debug", program, other)
        return program, full

    def split():
        call("g++", "-O2", "-g", "-std=c++20", "-gsplit-dwarf", "-c", "-o", folder / "app_split.o",
             source, cwd=folder)
        program = folder / "app_split"
        call("g++", "-o", program, folder / "app_split.o")
        return program, cpp("app_split_full")[0]

    def rust_program():
        program = folder / "app_rs"
        call("rustc", "-O", "-g", "-o", program, rust, cwd=folder)
        return program, program

    libc = pathlib.Path("/lib/x86_64-linux-gnu/libc.so.6")
    yield "C++", lambda: cpp("app_pie", "-pie", "-fPIE")
    yield "C++ not PIE", lambda: cpp("app_nopie", "-no-pie", "-fno-pie")
    yield "C++ debug file", stripped
    yield "C++ stripped", nothing_else
    yield "C++ mini debug info", mini_debug_info
    yield "libc", lambda: (libc, separate_debug_file(libc))
    if shutil.which("dwz"):
        yield "C++ dwz", dwz
    yield "C++ split", split
    if shutil.which("rustc"):
        yield "Rust", rust_program


def large(folder, tool, megabytes):
    """One unit of debug information many times over, each with symbols of its own."""
    source = folder / "unit.cc"
    source.write_text(CPP.replace("int main(", "int part("))
    unit = folder / "unit.o"
    call("g++", "-O1", "-g", "-std=c++20", "-c", "-o", unit, source)
    size = sum(int(line.split()[line.split().index("PROGBITS") + 3], 16)
               for line in call("readelf", "-SW", unit).splitlines()
               if re.search(r" \.debug_\w+ +PROGBITS", line))
    copies = megabytes * 1024 * 1024 // size + 1
    defined = [line.split()[-1] for line in call("nm", "--defined-only", unit).splitlines()
               if line.split()[-2] in "TWVuBDRtdb"]
    parts = []
    for i in range(copies):
        part = folder / f"unit{i}.o"
        names = folder / "names"
        names.write_text("".join(f"{n} p{i}_{n}\n" for n in defined if not n.startswith("DW.ref")))
        # Groups of sections would be taken for one another's copies.
        call("objcopy", f"--redefine-syms={names}", "--remove-section=.group", unit, part)
        parts.append(part)
    main = folder / "main.cc"
    main.write_text("int main() {}\n")
    program = folder / "large"
    call("g++", "-o", program, main, *parts)
    for part in parts:
        part.unlink()
    addresses = random_addresses(functions_of(program), 100_000)
    random.Random(3).shuffle(addresses)
    print(f"large: {program.stat().st_size >> 20} MB, {copies} units, "
          + call(tool, program, "--time", input="".join(f"{a:x}\n" for a in addresses)).strip())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--addresses", type=int, default=10_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--large-mb", type=int, default=160)
    options = parser.parse_args()
    tool = os.path.abspath(options.tool)
    with tempfile.TemporaryDirectory(prefix="shadowprof-symbols-") as name:
        folder = pathlib.Path(name)
        for title, build in programs(folder):
            if options.only in title:
                compare(title, tool, *build(), options.addresses)
        if options.large_mb and options.only in "large":
            large(folder, tool, options.large_mb)


if __name__ == "__main__":
    main()
