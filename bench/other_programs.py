# SPDX-License-Identifier: MIT
"""Programs that the policy of sampling was not made with: interpreters, tools and programs of our own (Debian's lua5.4,
ruby, mawk, bc, g++, golang-go, p7zip-full, zstd), about a second of each at a scale of 1."""

import functools
import random
import subprocess

LUA = """
local function turn(n)  -- permutations of n, and how many of their beginnings are to be turned until 1 is first
  local p, most, sum = {}, 0, 0
  for i = 1, n do p[i] = i end
  local function flips()
    local q, count = {table.unpack(p)}, 0
    while q[1] ~= 1 do
      local i, j = 1, q[1]
      while i < j do q[i], q[j] = q[j], q[i]; i = i + 1; j = j - 1 end
      count = count + 1
    end
    sum = sum + count
    if count > most then most = count end
  end
  local function permute(k)
    if k == 1 then return flips() end
    for i = 1, k do
      permute(k - 1)
      local other = k % 2 == 0 and i or 1
      p[other], p[k] = p[k], p[other]
    end
  end
  permute(n)
  return sum, most
end
for i = 1, COUNT do print(turn(8)) end
"""
RUBY = """
Body = Struct.new(:x, :y, :vx, :vy, :mass)
bodies = (0...5).map { |i| Body.new(i * 1.1, i * 0.7 - 1, 0.01 * i, 0.02 * i, 1.0 / (i + 1)) }
COUNT.times do
  bodies.combination(2) do |a, b|
    dx, dy = a.x - b.x, a.y - b.y
    force = 0.001 / (dx * dx + dy * dy + 0.01)
    a.vx -= dx * b.mass * force; a.vy -= dy * b.mass * force
    b.vx += dx * a.mass * force; b.vy += dy * a.mass * force
  end
  bodies.each { |b| b.x += 0.001 * b.vx; b.y += 0.001 * b.vy }
end
puts bodies[0].x
"""
PERL = """
use strict; my (%text, $found); for my $round (1 .. COUNT) {
  for my $i (0 .. 60000) {
    my $key = $i * 7919 * $round % 10007;
    $text{$key} .= chr(65 + $i % 26) if length($text{$key} // '') < 200;
  }
  my @order = sort { $text{$a} cmp $text{$b} } keys %text;
  my $all = join '', map { $text{$_} } @order[0 .. 200];
  $found++ while $all =~ /(A+B|C[DE]+|X.*?Z)/g;
} print "$found\\n";
"""
AWK = """BEGIN { for (y = -1; y < 1; y += .01) for (x = -2; x < .5; x += .01) {
  a = b = 0; for (i = 0; i < COUNT && a * a + b * b < 4; i++) { t = a * a - b * b + x; b = 2 * a * b + y; a = t }
  steps += i; seen[i % 97] += length(steps "") } print steps }"""
BC = "scale = COUNT; a(1) * 4\nscale = COUNT / 2; e(1.5)\nl(7)\nquit\n"
CPP = """
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>
struct Board {
  std::vector<int> queens;
  int found = 0;
  bool is_free(int row, int column) const {
    for (int r = 0; r < row; r++)
      if (queens[r] == column || std::abs(queens[r] - column) == row - r) return false;
    return true;
  }
  void place(int row) {
    if (row == int(queens.size())) { found++; return; }
    for (int column = 0; column < int(queens.size()); column++)
      if (is_free(row, column)) { queens[row] = column; place(row + 1); }
  }
};
int main() {
  long sum = 0;
  for (int round = 0; round < COUNT; round++) {
    Board board{std::vector<int>(10)};
    board.place(0);
    unsigned random = round;
    const auto next = [&] { return random = random * 1664525 + 1013904223; };
    std::map<std::string, int> words;
    for (int i = 0; i < 60000; i++) words[std::to_string(next() >> 16)] += i;
    std::unordered_map<int, double> numbers;
    for (int i = 0; i < 100000; i++) numbers[next() >> 14] += i * 0.5;
    for (const auto& [key, number] : numbers) sum += long(number);
    std::vector<std::string> keys;
    for (const auto& [key, count] : words) keys.push_back(key);
    std::sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
      return a.size() != b.size() ? a.size() < b.size() : a > b;
    });
    sum += board.found + long(keys.back().size());
  }
  std::printf("%ld\\n", sum);
}
"""
GO = """package main
import ("fmt"; "sort"; "strconv"; "strings")
type Tree struct { left, right *Tree; key int }
func (t *Tree) insert(key int) *Tree {
  if t == nil { return &Tree{key: key} }
  if key < t.key { t.left = t.left.insert(key) } else { t.right = t.right.insert(key) }
  return t
}
func (t *Tree) sum() int { if t == nil { return 0 }; return t.left.sum() + t.key + t.right.sum() }
func main() {
  seen, x, total := map[string]int{}, uint32(1), 0
  for round := 0; round < COUNT; round++ {
    var tree *Tree
    for i := 0; i < 20000; i++ { x = x*1664525 + 1013904223; tree = tree.insert(int(x >> 8)) }
    for i := 0; i < 20000; i++ { x = x*1664525 + 1013904223; seen["k"+strconv.Itoa(int(x>>20))]++ }
    keys := []string{}
    for key := range seen { keys = append(keys, key) }
    sort.Strings(keys)
    total += tree.sum() + len(strings.Join(keys, ","))
  }
  fmt.Println(total)
}
"""


@functools.cache
def lines(folder, scale):
    path, rng = folder / "lines", random.Random(1)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(5000)]
    with path.open("w", encoding="ascii") as out:
        for i in range(int(1_600_000 * scale)):
            out.write(f"{rng.randrange(10**6)} {words[min(4999, int(rng.paretovariate(1)))]} {words[i % 5000]}\n")
    return path


def written(path, text, count):
    path.write_text(text.replace("COUNT", str(max(1, int(count)))), encoding="ascii")
    return path


def compiled(source, *compiler):
    program = source.with_suffix("")
    subprocess.run([*compiler, program, source], check=True)
    return [program]


# What makes the command of each, in a folder, with so much work.
MAKERS = {
    "lua": lambda folder, scale: ["lua5.4", written(folder / "turn.lua", LUA, 60 * scale)],
    "ruby": lambda folder, scale: ["ruby", written(folder / "bodies.rb", RUBY, 180_000 * scale)],
    "perl-text": lambda folder, scale: ["perl", written(folder / "text.pl", PERL, 60 * scale)],
    "mawk": lambda folder, scale: ["mawk", "-f", written(folder / "steps.awk", AWK, 800 * scale)],
    "bc": lambda folder, scale: ["bc", "-l", written(folder / "digits.bc", BC, 1800 * scale ** 0.5)],
    "c++": lambda folder, scale: compiled(written(folder / "rounds.cc", CPP, 35 * scale), "g++", "-O2", "-g", "-o"),
    "go": lambda folder, scale: compiled(written(folder / "trees.go", GO, 200 * scale), "go", "build", "-o"),
    "sort": lambda folder, scale: ["sort", "--parallel=1", "-S", "200M", "-o", "/dev/null", lines(folder, scale)],
    "7z": lambda folder, scale: ["7z", "a", "-txz", "-so", "-mmt1", "-mx1", "lines.xz", lines(folder, scale)],
    "zstd": lambda folder, scale: ["zstd", "-q", "-12", "-T1", "-f", "-o", "/dev/null", lines(folder, scale)],
}
