# SPDX-License-Identifier: MIT
"""Inputs of the external programs, made by deterministic generators. Each function returns bytes."""

WORDS = ("the of and to in is that for it as was with be by on not he his but at are this have from "
         "or had an they which one you were all her she there would their we him been has when who "
         "will no more if out so up said what its about than into them can only other time new some "
         "could these two may first then do any like my now over such our man me even most").split()


class Generator:
    """A 64-bit multiplicative generator: the same numbers on every host and Python."""

    def __init__(self, seed):
        self.state = seed * 2 + 1

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit


def text(size, seed=1):
    """Lines of words with a skewed distribution: compresses like prose."""
    generator = Generator(seed)
    lines, length = [], 0
    while length < size:
        count = 5 + generator.below(9)
        line = " ".join(WORDS[min(generator.below(len(WORDS)), generator.below(len(WORDS)))]
                        + (str(generator.below(1000)) if generator.below(9) == 0 else "")
                        for _ in range(count)) + "\n"
        lines.append(line)
        length += len(line)
    return "".join(lines).encode()[:size]


def numbers(count, seed=2):
    generator = Generator(seed)
    return "".join(f"{generator.below(1000000)} {generator.below(100) / 4} key{generator.below(500)}\n"
                   for _ in range(count)).encode()


CPP_PROGRAM = rb"""
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
template <int N> struct Fibonacci { static const long value = Fibonacci<N - 1>::value + Fibonacci<N - 2>::value; };
template <> struct Fibonacci<0> { static const long value = 0; };
template <> struct Fibonacci<1> { static const long value = 1; };
struct Shape { virtual ~Shape() = default; virtual double area() const = 0; };
struct Square : Shape { explicit Square(double s) : side(s) {} double area() const override { return side * side; } double side; };
struct Circle : Shape { explicit Circle(double r) : radius(r) {} double area() const override { return 3.14159 * radius * radius; } double radius; };
int main() {
  std::vector<std::unique_ptr<Shape>> shapes;
  for (int i = 0; i < 1000; ++i) {
    if (i % 3) shapes.push_back(std::make_unique<Square>(i)); else shapes.push_back(std::make_unique<Circle>(i));
  }
  double total = std::accumulate(shapes.begin(), shapes.end(), 0.0, [](double sum, const auto& s) { return sum + s->area(); });
  std::map<std::string, int> counts;
  std::unordered_map<int, std::string> names;
  for (int i = 0; i < 10000; ++i) { ++counts["key" + std::to_string(i * i % 97)]; names[i % 311] += static_cast<char>('a' + i % 26); }
  std::regex pattern("key([0-9]+)");
  long sum = 0;
  for (const auto& [key, count] : counts) { std::smatch m; if (std::regex_match(key, m, pattern)) sum += std::stol(m[1]) * count; }
  std::cout << Fibonacci<60>::value << ' ' << total << ' ' << sum << ' ' << names.size() << '\n';
}
"""

LUA_PROGRAM = rb"""
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local t = {}
for i = 1, 100000 do t[i] = (i * 7919) % 100003 end
table.sort(t)
local s, x = 0, 1.5
for i = 1, #t do s = (s * 31 + t[i]) % 1000000007; x = x * 1.0000001 + math.sin(i) end
local words = {}
for w in (("alpha beta gamma delta "):rep(500)):gmatch("%a+") do words[w] = (words[w] or 0) + 1 end
local co = coroutine.wrap(function() for i = 1, 20000 do coroutine.yield(i) end return 0 end)
local c = 0
for i = 1, 20000 do c = c + co() end
print(fib(24), s, string.format("%.6f", x), words.alpha, words.delta, c)
local ok, err = pcall(function() error({code = 7}) end)
print(ok, err.code, select("#", (table.unpack or unpack)({1, 2, 3})))
"""

PYTHON_PROGRAM = rb"""
import collections, decimal, functools, hashlib, itertools, json, math, re, struct, zlib
@functools.lru_cache(None)
def paths(a, b): return 1 if not a or not b else paths(a - 1, b) + paths(a, b - 1)
def primes(n):
    sieve = bytearray([1]) * n
    for i in range(2, int(n ** .5) + 1):
        if sieve[i]: sieve[i*i::i] = bytes(len(range(i*i, n, i)))
    return sum(sieve) - 2
class Node:
    def __init__(self, v): self.v, self.kids = v, []
    def __iter__(self):
        yield self.v
        for k in self.kids: yield from k
root = Node(0); nodes = [root]
for i in range(1, 3000):
    n = Node(i); nodes[(i * 7) % len(nodes)].kids.append(n); nodes.append(n)
data = json.dumps({"a": list(range(2000)), "b": [math.sin(i) for i in range(500)]})
decimal.getcontext().prec = 60
print(paths(40, 40), primes(200000), sum(root), hashlib.sha256(data.encode()).hexdigest())
print(decimal.Decimal(2).sqrt(), zlib.crc32(data.encode()), len(re.findall(r"\d+\.\d*7", data)))
print(collections.Counter(x % 17 for x in range(50000)).most_common(3), 3 ** 2000 % 10 ** 30)
print(list(itertools.islice(itertools.permutations("abcde"), 30, 33)), struct.pack("<dQ", 1.5, 7).hex())
try:
    [].pop()
except IndexError as e:
    print(e)
def deep(n): return n and 1 + deep(n - 1)
try:
    deep(100000)
except RecursionError:
    print("recursion")
"""

PERL_PROGRAM = rb"""
use strict; use warnings;
my (%count, @words, $sum);
while (<STDIN>) { for my $w (split) { $count{$w}++; push @words, $w if length $w > 6; } }
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "$_ $count{$_}\n" for @top[0..9];
my $text = join ' ', @words; my $n = () = $text =~ /\b(\w)\w*(\d)\b/g; print "$n\n";
$sum = ($sum // 0) * 31 % 1000003 + ord for split //, substr $text, 0, 20000; print "$sum\n";
my @m = map { [map { $_ * 1.5 } 1..20] } 1..20; my $t = 0;
for my $i (0..19) { for my $j (0..19) { $t += $m[$i][$j] * $m[$j][$i] } } print "$t\n";
eval { die { code => 42 } }; print $@->{code}, "\n"; printf "%.10f\n", atan2(1, 1) * 4;
"""

RUBY_PROGRAM = rb"""
def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)
words = (1..20000).map { |i| "w#{i * 7919 % 1009}" }
puts fib(20), words.tally.sort_by { |k, v| [-v, k] }.first(3).inspect, (2**500) % (10**20)
f = Fiber.new { 5000.times { |i| Fiber.yield i }; :done }
puts 5000.times.sum { f.resume }
begin; raise ArgumentError, 'x'; rescue => e; puts e.class; end
puts (1..500).map { |x| Math.sin(x) }.sum.round(9), "abc".unpack1('H*'), %w[b a].sort!.join
"""

JS_PROGRAM = rb"""
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
class P { constructor(x) { this.x = x; } add(o) { return new P(this.x + o.x); } }
let p = new P(0), f = new Float64Array(10000), m = new Map();
for (let i = 0; i < 200000; i++) { p = p.add(new P(i % 7)); f[i % 10000] += Math.sqrt(i); m.set('k' + i % 100, i); }
let s = 0; for (const x of f) s = (s * 31 + x) % 1000003;
console.log(fib(25), p.x, s.toFixed(6), m.size, JSON.stringify([...m].slice(0, 3)), 2n ** 200n);
const big = Array.from({length: 50000}, (_, i) => i * 7919 % 50021).sort((a, b) => a - b); console.log(big[777]);
try { null.x } catch (e) { console.log(e.constructor.name) }
(async () => { let t = 0; for (let i = 0; i < 1000; i++) t += await Promise.resolve(i); console.log(t); })();
console.log('aaa bbb 123'.replace(/(\w+) (\w+)/, '$2 $1'), require('crypto').createHash('sha1').update('x').digest('hex'));
"""

JAVA_PROGRAM = rb"""
import java.util.*; import java.util.concurrent.*; import java.util.stream.*;
public class Main {
  static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
  public static void main(String[] a) throws Exception {
    Map<String, Integer> m = new TreeMap<>();
    for (int i = 0; i < 100000; i++) m.merge("k" + i % 97, i % 5, Integer::sum);
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<Long>> fs = new ArrayList<>();
    for (int i = 0; i < 20; i++) { final int n = i; fs.add(pool.submit(() -> fib(n + 5))); }
    long t = 0; for (Future<Long> f : fs) t += f.get(); pool.shutdown();
    System.out.println(fib(27) + " " + m.get("k3") + " " + t + " " + IntStream.range(0, 100000).parallel().mapToLong(x -> (long) x * x).sum());
    try { Object o = null; o.toString(); } catch (NullPointerException e) { System.out.println("NPE"); }
    try { deep(0); } catch (StackOverflowError e) { System.out.println("overflow"); }
    System.exit(3);
  }
  static int deep(int n) { return deep(n + 1) + 1; }
}
"""

SQL_SCRIPT = rb"""
create table t(id integer primary key, a integer, b real, c text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
insert into t select i, (i * 7919) % 10007, i / 7.0, 'row ' || (i % 311) from n;
create index t_a on t(a); create index t_c on t(c, a);
select count(*), sum(a), round(avg(b), 6), min(c), max(c) from t;
select c, count(*), sum(a) from t group by c having count(*) > 64 order by 3 desc limit 5;
select x.id, y.id from t x join t y on x.a = y.a + 1 and x.id < y.id order by x.id limit 5;
update t set b = b * 2 where a % 3 = 0; delete from t where a < 100;
select count(*), round(total(b), 3) from t where c like 'row 1%'; pragma integrity_check;
select group_concat(hex(c), '-') from (select c from t order by a desc, id limit 4);
with recursive q(x, y) as (select 0, 1 union all select y, x + y from q limit 60) select max(x) from q;
"""

BASH_SCRIPT = rb"""
trap 'echo exit trap $?' EXIT
trap 'echo usr1' USR1
set -o pipefail
kill -USR1 $$
sum=0; for i in {1..2000}; do ((sum += i * i % 17)); done; echo $sum
declare -A m; while read -r a b; do m[$a]=$((${m[$a]:-0} + ${#b})); done < IN_SMALL; echo ${#m[@]} ${m[the]}
cat IN_SMALL | tr a-z A-Z | sort | uniq -c | sort -rn | head -5
(cd / && pwd; exit 3) || echo subshell $?
diff <(seq 1 50) <(seq 1 2 50) | wc -l
coproc tr a-z A-Z; echo hello >&${COPROC[1]}; exec {COPROC[1]}>&-; cat <&${COPROC[0]}; wait
{ sleep 30 & p=$!; sleep 1; kill $p; wait $p; echo killed $?; } 2>/dev/null
f() { local n=$1; ((n < 2)) && { echo $n; return; }; echo $(($(f $((n - 1))) + $(f $((n - 2))))); }; f 7
for i in 1 2 3 4; do (exit $i) & done; for j in 1 2 3 4; do wait -n; done; echo waited
[[ "abc123" =~ ([a-z]+)([0-9]+) ]] && echo ${BASH_REMATCH[2]} "${PATH//[^:]/}" | head -c 4
false | true; echo $?
exit 7
"""

MAKEFILE = rb"""
OBJS := $(patsubst %,out%.txt,1 2 3 4 5 6 7 8)
all: total.txt
total.txt: $(OBJS) ; cat $^ | sort > $@
out%.txt: ; @seq $* 50 | awk '{s += $$1 * $*} END {print s}' > $@
"""

AWK_PROGRAM = (b"{ n[$3]++; s[$3] += $1; t += $2 } END { for (k in n) print k, n[k], s[k] | \"sort\"; "
               b"close(\"sort\"); printf \"%.4f %s\\n\", t, substr(toupper(\"abc\"), 2) }")
