// SPDX-License-Identifier: MIT
//
// What a trace record costs its consumer, in ns: the edge collector without and with calls, with
// calling contexts, and for comparison a consumer that looks up every (run, next run) pair in a
// hash table. The trace is made up: runs drawn by Zipf's law (exponent 1), 7.5 % of the records end
// in a call and as many in a return, properly nested; 2 % end in an indirect jump. Real traces
// repeat themselves more, so they are easier for caches and branch predictors.
//
//   bench_consumer [RUNS...]      default 5000 100000 350000
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "collect/edges/edge_collector.h"
#include "collect/paths/path_collector.h"

namespace {

using namespace shadowprof;

constexpr size_t kRecords = size_t{4} << 20;
constexpr size_t kChunkWords = limits::kTraceBufferBytes / 4;
constexpr int kRounds = 5;

double cpu_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

struct Workload {
  trace::BlockTable table;
  std::vector<trace::Word> words;
};

// Run i is block i. Calls lead to a plain run and return to another one; a callee returns by one
// run of its own; an indirect jump has up to 8 targets.
struct Program {
  std::vector<trace::RunExit> exits;
  std::vector<size_t> of_kind[4];  // plain, call, ret, jump: hottest first
  std::vector<size_t> callee, return_point, leave_by;
};

Program make_program(size_t runs, std::mt19937_64& random, Workload& out) {
  using trace::RunExit;
  trace::Module module;
  module.path = "/made/up";
  module.inode = 1;
  module.range = {GuestAddr(0x1000), GuestAddr(0x1000 + runs * 32)};
  module.file_start = GuestAddr(0x1000);
  const ModuleId in = out.table.add_module(module);
  Program p;
  p.exits.resize(runs);
  for (size_t i = 0; i < runs; i++) {
    const size_t die = i < 4 ? i : random() % 1000 / 25;
    const size_t kind = i < 4 ? i : die < 4 ? 1 : die < 8 ? 2 : die < 9 ? 3 : 0;
    constexpr RunExit kExits[] = {RunExit::taken, RunExit::call, RunExit::ret,
                                  RunExit::indirect_jump};
    p.exits[i] = kExits[kind];
    p.of_kind[kind].push_back(i);
  }
  const auto start = [](size_t i) { return GuestAddr(0x1000 + i * 32); };
  for (auto* list : {&p.callee, &p.return_point, &p.leave_by}) list->resize(runs);
  for (size_t i = 0; i < runs; i++) {
    trace::Block block;
    block.start = start(i);
    block.last_insn = start(i) + 28;
    block.end = start(i) + 32;
    block.module = in;
    block.insns = 5;
    block.terminator = trace::Terminator::conditional;
    const BlockId id = out.table.add_block(block);
    trace::Run run;
    run.insns = run.last_block_insns = 5;
    run.exit = p.exits[i];
    p.callee[i] = p.of_kind[0][random() % p.of_kind[0].size()];
    p.leave_by[i] = p.of_kind[2][random() % p.of_kind[2].size()];
    p.return_point[i] = std::min(i + 1, runs - 1);
    if (!trace::is_indirect(run.exit)) run.target = start(p.callee[i]);
    out.table.add_run(run, std::span(&id, 1), {});
  }
  return p;
}

void make_workload(size_t runs, Workload& out) {
  using trace::RunExit;
  std::mt19937_64 random(runs);
  const Program p = make_program(runs, random, out);
  const auto draw = [&](const std::vector<size_t>& from) {
    const double u = std::generate_canonical<double, 53>(random);
    const double rank = std::pow(static_cast<double>(from.size()), u) - 1;
    return from[std::min(static_cast<size_t>(rank), from.size() - 1)];
  };
  std::vector<size_t> stack;
  size_t next = runs;  // a run that must come now
  while (out.words.size() < kRecords) {
    const size_t die = random() % 1000;
    size_t run;
    if (next != runs)
      run = std::exchange(next, runs);
    else if (die < 180 && !stack.empty() && (die < 90 || stack.size() > 40))
      run = p.leave_by[p.callee[stack.back()]];
    else if (die < 180)
      run = draw(p.of_kind[1]);
    else if (die < 200)
      run = draw(p.of_kind[3]);
    else
      run = draw(p.of_kind[0]);
    out.words.push_back(static_cast<trace::Word>(run));
    if (p.exits[run] == RunExit::call) {
      stack.push_back(run);
      next = p.callee[run];
    } else if (p.exits[run] == RunExit::ret && !stack.empty()) {
      next = p.return_point[stack.back()];
      stack.pop_back();
    } else if (p.exits[run] == RunExit::indirect_jump) {
      next = p.of_kind[0][(run * 8 + random() % 8) % p.of_kind[0].size()];
    }
  }
}

template <typename Consume>
double ns_per_record(const Workload& w, Consume consume) {
  double best = 1e18;
  for (int round = 0; round < kRounds; round++) {
    const double before = cpu_ns();
    for (size_t at = 0; at < w.words.size(); at += kChunkWords)
      consume(std::span(w.words).subspan(at, std::min(kChunkWords, w.words.size() - at)));
    best = std::min(best, (cpu_ns() - before) / static_cast<double>(w.words.size()));
  }
  return best;
}

// The consumer that everybody writes first.
class HashPerEdge {
 public:
  void consume(std::span<const trace::Word> words) {
    for (const trace::Word word : words) {
      const uint64_t key = (static_cast<uint64_t>(last_) << 32 | word) + 1;
      last_ = word;
      size_t i = key * 0x9E3779B97F4A7C15ull >> shift_;
      while (slots_[i].key != key) {
        if (slots_[i].key == 0) {
          slots_[i].key = key;
          if (++used_ * 2 > slots_.size()) {
            grow();
            i = key * 0x9E3779B97F4A7C15ull >> shift_;
            continue;
          }
          break;
        }
        i = (i + 1) & (slots_.size() - 1);
      }
      slots_[i].count++;
    }
  }

 private:
  struct Slot {
    uint64_t key = 0, count = 0;
  };
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    shift_--;
    for (const Slot& s : old) {
      if (s.key == 0) continue;
      size_t i = s.key * 0x9E3779B97F4A7C15ull >> shift_;
      while (slots_[i].key != 0) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = s;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << 14);
  int shift_ = 64 - 14;
  size_t used_ = 0;
  trace::Word last_ = 0;
};

double collector_ns(const Workload& w, bool calls, bool contexts = false) {
  collect::EdgeCollector collector(w.table, {.calls = calls, .contexts = contexts});
  return ns_per_record(w, [&](std::span<const trace::Word> words) {
    collector.consume({Tid(1), words});
  });
}

// Random order makes nearly each path a new one: the worst case.
double paths_ns(const Workload& w) {
  collect::PathCollector collector(w.table, {});
  return ns_per_record(w, [&](std::span<const trace::Word> words) {
    collector.consume({Tid(1), words});
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<size_t> sizes;
  for (int i = 1; i < argc; i++) sizes.push_back(std::strtoul(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {5'000, 100'000, 350'000};
  fmt::print("ns per record, best of {} rounds over {} records\n", kRounds, kRecords);
  fmt::print("{:>8} {:>14} {:>8} {:>12} {:>10} {:>8}\n", "runs", "hash per edge", "edges",
             "edges+calls", "+contexts", "paths");
  for (size_t runs : sizes) {
    if (runs < 16 || runs > 10'000'000) continue;
    Workload w;
    make_workload(runs, w);
    HashPerEdge plain;
    const double hash =
        ns_per_record(w, [&](std::span<const trace::Word> words) { plain.consume(words); });
    fmt::print("{:>8} {:>14.2f} {:>8.2f} {:>12.2f} {:>10.2f} {:>8.2f}\n", runs, hash,
               collector_ns(w, false), collector_ns(w, true), collector_ns(w, true, true),
               paths_ns(w));
  }
  return 0;
}
