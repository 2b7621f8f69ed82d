// SPDX-License-Identifier: MIT
//
// What a captured value costs its consumer, in ns, for streams of several kinds: a loop body with 8
// captured instructions, all of which see the same kind of stream. `all` looks at every value,
// `windows` at what the default condition does. And what a record costs the path collector when
// one loop takes the same path always, and when 4 branches in it are random.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "collect/paths/path_collector.h"
#include "collect/values/value_collector.h"
#include "profile/random.h"

namespace {

using namespace shadowprof;
using trace::Word;

constexpr size_t kValues = 8;
constexpr size_t kRecords = size_t{1} << 17;
constexpr int kRounds = 12;

double cpu_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// Blocks one after the other, each one run of its own.
class Loop {
 public:
  explicit Loop(size_t values) {
    trace::Module module;
    module.path = "/made/up";
    module.inode = 1;
    module.range = {GuestAddr(0x1000), GuestAddr(0x20000)};
    module.file_start = GuestAddr(0x1000);
    module_ = table.add_module(module);
    for (size_t i = 0; i < values; i++)
      slots_.push_back({trace::SlotKind::value, 0, static_cast<uint16_t>(i)});
  }
  RunId add(uint64_t start, uint64_t to, trace::RunExit exit) {
    std::vector<uint8_t> code;
    for (size_t i = 0; i < slots_.size(); i++) code.insert(code.end(), {0x48, 0x8b, 0x03});
    trace::Block block;
    block.module = module_;
    block.start = GuestAddr(start);
    block.end = GuestAddr(start + 32);
    block.last_insn = GuestAddr(start + 30);
    block.insns = static_cast<uint16_t>(slots_.size() + 1);
    block.terminator = trace::Terminator::conditional;
    code.insert(code.end(), {0x75, 0x00});
    const BlockId id = table.add_block(block, code);
    trace::Run run;
    run.insns = run.last_block_insns = block.insns;
    run.exit = exit;
    run.target = GuestAddr(to);
    return table.add_run(run, {&id, 1}, slots_);
  }
  trace::BlockTable table;

 private:
  ModuleId module_;
  std::vector<trace::Slot> slots_;
};

double best_ns(const std::function<void()>& round, size_t events) {
  double best = 1e18;
  for (int i = 0; i < kRounds; i++) {
    const double before = cpu_ns();
    round();
    best = std::min(best, (cpu_ns() - before) / static_cast<double>(events));
  }
  return best;
}

using Stream = std::function<uint64_t(uint64_t position, profile::Random&)>;

void values(const char* name, const Stream& stream) {
  Loop loop(kValues);
  const RunId run = loop.add(0x2000, 0x2000, trace::RunExit::taken);
  std::vector<Word> words;
  profile::Random random(1);
  for (size_t i = 0; i < kRecords; i++) {
    words.push_back(run.value);
    for (size_t k = 0; k < kValues; k++) {
      const uint64_t v = stream(i, random);
      words.insert(words.end(), {static_cast<Word>(v), static_cast<Word>(v >> 32)});
    }
  }
  double ns[2];
  for (const bool all : {true, false}) {
    collect::ValueCollectorOptions options;
    if (all) options.condition.every = options.condition.burst;
    collect::ValueCollector collector(loop.table, options);
    ns[all ? 0 : 1] = best_ns([&] { collector.consume({Tid(1), words}); }, kRecords * kValues);
  }
  fmt::print("{:<12} {:>8.2f} {:>8.2f}\n", name, ns[0], ns[1]);
}

void paths(const char* name, bool is_random) {
  Loop loop(0);
  // Each of four blocks is left in one of two ways, the last one goes back.
  RunId runs[5][2];
  for (uint64_t b = 0; b < 5; b++)
    for (uint64_t way = 0; way < 2; way++)
      runs[b][way] = b == 4 ? loop.add(0x2400, 0x2000, trace::RunExit::taken)
                            : loop.add(0x2000 + b * 0x100 + way * 0x40, 0x2100 + b * 0x100,
                                       trace::RunExit::taken);
  std::vector<Word> words;
  profile::Random random(1);
  while (words.size() < kRecords)
    for (auto& block : runs) words.push_back(block[is_random ? random.next() % 2 : 0].value);
  collect::PathCollector collector(loop.table, {});
  fmt::print("{:<12} {:>8.2f}\n", name,
             best_ns([&] { collector.consume({Tid(1), words}); }, words.size()));
}

}  // namespace

int main() {
  fmt::print("ns per value, best of {} rounds\n{:<12} {:>8} {:>8}\n", kRounds, "", "all",
             "windows");
  values("constant", [](uint64_t, profile::Random&) { return 7; });
  values("counter", [](uint64_t i, profile::Random&) { return i; });
  values("ten values", [](uint64_t, profile::Random& r) { return r.next() % 10; });
  values("Zipf", [](uint64_t, profile::Random& r) {
    return static_cast<uint64_t>(std::pow(100'000.0, r.unit()));
  });
  values("uniform", [](uint64_t, profile::Random& r) { return r.next(); });
  fmt::print("ns per record of paths\n");
  paths("one path", false);
  paths("16 paths", true);
  return 0;
}
