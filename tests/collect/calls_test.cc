// SPDX-License-Identifier: MIT
//
// What the shadow stack makes of code that does not simply call and return.
#include "collect/edges/edge_collector.h"
#include "sampled.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <ostream>

namespace shadowprof {
namespace {

using trace::RunExit;
using trace::Word;

// Traces written by hand. Every block is one run; it lies at 16 x its number and has the
// instructions that it is given.
class CallScript {
 public:
  CallScript() {
    trace::Module module;
    module.path = "/made/up";
    module.inode = 1;
    module.range = {GuestAddr(0), GuestAddr(1 << 20)};
    table.add_module(module);
  }

  static GuestAddr start(unsigned block) { return GuestAddr(16 * block); }

  // One execution of a block. A return point is the block right behind the call.
  CallScript& run(unsigned block, unsigned insns, RunExit exit, unsigned target = 0) {
    const auto [it, fresh] = runs_.try_emplace({block, exit, target});
    if (fresh) {
      trace::Block b;
      b.start = start(block);
      b.end = start(block + 1);
      b.last_insn = b.end - 2;
      b.module = ModuleId(0);
      b.insns = static_cast<uint16_t>(insns);
      b.terminator = trace::Terminator::jump;
      trace::Run r;
      r.insns = insns;
      r.last_block_insns = b.insns;
      r.exit = exit;
      if (!trace::is_indirect(exit) && exit != RunExit::indirect_call) r.target = start(target);
      const auto [id, new_block] = blocks_.try_emplace(block);
      if (new_block) id->second = table.add_block(b);
      it->second = table.add_run(r, std::span(&id->second, 1), {});
    }
    words.push_back(it->second.value);
    return *this;
  }
  CallScript& call(unsigned block, unsigned insns, unsigned target) {
    return run(block, insns, RunExit::call, target);
  }
  CallScript& plain(unsigned block, unsigned insns) { return run(block, insns, RunExit::split); }
  CallScript& ret(unsigned block, unsigned insns) { return run(block, insns, RunExit::ret); }
  CallScript& gap(trace::GapReason reason) {
    words.push_back(trace::special_word(trace::SpecialKind::gap, 2));
    words.push_back(static_cast<Word>(reason));
    return *this;
  }

  profile::Profile collect() {
    collect::EdgeCollector collector(table);
    collector.consume({Tid(1), words});
    profile::Profile profile;
    collector.finish(profile);
    profile.coverage.instructions_total = profile.coverage.instructions_profiled;
    CHECK(check_consistency(profile).has_value());
    return profile;
  }

  trace::BlockTable table;
  std::vector<Word> words;

 private:
  std::map<std::tuple<unsigned, RunExit, unsigned>, RunId> runs_;
  std::map<unsigned, BlockId> blocks_;
};

uint64_t inclusive(const profile::Profile& p, unsigned block) {
  for (const auto& e : p.tables.entries)
    if (e.at.offset == CallScript::start(block).value) return e.inclusive;
  return 0;
}
uint64_t invocations(const profile::Profile& p, unsigned block) {
  for (const auto& e : p.tables.entries)
    if (e.at.offset == CallScript::start(block).value) return e.invocations;
  return 0;
}
struct Figures {
  uint64_t count, inclusive;
  bool operator==(const Figures&) const = default;
};
std::ostream& operator<<(std::ostream& out, Figures f) {
  return out << f.count << " calls, " << f.inclusive << " instructions";
}
Figures pair(const profile::Profile& p, unsigned site, unsigned callee) {
  for (const auto& c : p.tables.calls)
    if (c.site.offset == CallScript::start(site + 1).value - 2 &&
        c.callee.offset == CallScript::start(callee).value)
      return {c.count, c.inclusive};
  return {0, 0};
}
uint64_t event(const profile::Profile& p, const char* name) {
  const auto it = p.coverage.events.find(name);
  return it == p.coverage.events.end() ? 0 : it->second;
}

TEST_CASE("a call through a linkage stub is a call of what the stub leads to") {
  CallScript s;
  for (int i = 0; i < 3; i++) {
    s.call(0, 10, 20);                     // main calls the stub
    s.run(20, 2, RunExit::indirect_jump);  // which leads to the function
    s.ret(40, 7).plain(1, 1);
  }
  const auto p = s.collect();
  CHECK(pair(p, 0, 40) == Figures{3, 21});
  CHECK(pair(p, 0, 20) == Figures{0, 0});
  CHECK(inclusive(p, 40) == 21);
  CHECK(invocations(p, 40) == 3);
  CHECK(inclusive(p, 20) == 6);
  CHECK(invocations(p, 20) == 3);
}

TEST_CASE("weights that are rounded take no more from a call through a stub than it has") {
  constexpr unsigned kTargets = 20;
  CallScript s;
  test::Samples samples;
  collect::SampleWeights weights;
  for (unsigned i = 1; i <= 6; i++) {
    for (unsigned n = 0; n < 100 * i; n++) s.plain(1 + i / 4, 10);
    // Once for each of its targets, in the sample that stands for the least time.
    for (unsigned n = 0; i == 6 && n < kTargets; n++)
      s.call(0, 10, 20).run(20, 2, RunExit::indirect_jump).ret(40 + n, 7).plain(1, 1);
    samples.push_back(std::move(s.words));
    s.words.clear();
    trace::CodeShares code{};
    code[i / 4] = 1000 * i;
    weights.recorded(weights.taken(1, 100 * std::log(i + 1)), 1000 * i, code);
  }
  weights.conclude();
  REQUIRE(weights.of(6, 6) < 0.7);
  collect::EdgeCollectorOptions options;
  options.errors = true;
  options.weights = &weights;
  const auto p = test::collected(collect::EdgeCollector(s.table, options), samples);
  for (unsigned n = 0; n < kTargets; n++) CHECK(pair(p, 0, 40 + n).count == 1);
  CHECK(pair(p, 0, 20).count == 0);
}

TEST_CASE("a jump to code that is also called is a tail call") {
  for (const RunExit exit : {RunExit::jump, RunExit::indirect_jump}) {
    CallScript s;
    s.call(0, 1, 40).ret(40, 5);                         // 40 is called once,
    s.call(1, 1, 20).plain(20, 3).run(21, 3, exit, 40);  // then reached by a jump from 20
    s.ret(40, 5).plain(2, 1);
    const auto p = s.collect();
    CHECK(inclusive(p, 20) == 6);
    CHECK(inclusive(p, 40) == 10);
    CHECK(invocations(p, 40) == 2);
    CHECK(event(p, "returns_without_call") == 0);
  }
}

TEST_CASE("recursion counts once for the outermost activation") {
  CallScript s;
  s.call(0, 1, 10);
  for (int i = 0; i < 5; i++) s.call(10, 2, 10);
  s.plain(10, 2).plain(13, 1);
  for (int i = 0; i < 5; i++) s.ret(12, 1).plain(11, 1);
  s.ret(12, 1).plain(1, 100);
  const auto p = s.collect();
  CHECK(invocations(p, 10) == 6);
  CHECK(inclusive(p, 10) == 5 * 2 + 3 + 6 + 5);
  CHECK(pair(p, 10, 10) == Figures{5, 0});
}

TEST_CASE("frames that longjmp left behind end with it, where setjmp was called before") {
  CallScript s;
  s.call(0, 1, 80).ret(80, 1);  // setjmp, returns to 1
  for (int i = 0; i < 4; i++) {
    s.call(1, 1, 10).call(10, 2, 20).plain(20, 5);
    s.run(21, 1, RunExit::indirect_jump);  // longjmp: to behind the call of setjmp, block 1
  }
  s.plain(1, 1).plain(90, 999);
  const auto p = s.collect();
  CHECK(invocations(p, 20) == 4);
  CHECK(inclusive(p, 20) == 4 * 6);
  CHECK(inclusive(p, 10) == 4 * 8);
}

TEST_CASE("frames that an exception left behind end with a return below them") {
  CallScript s;
  s.call(0, 1, 10).call(10, 1, 20).call(20, 1, 30).plain(30, 5);
  s.ret(31, 1).plain(15, 2);  // the unwinder returns into a handler in 10: nobody expects it
  s.ret(16, 1).plain(1, 50);  // 10 returns
  s.call(2, 1, 20).plain(20, 1).ret(22, 4).plain(3, 1);
  const auto p = s.collect();
  CHECK(event(p, "returns_without_call") == 1);
  CHECK(inclusive(p, 10) == 11);
  CHECK(inclusive(p, 20) == (1 + 5 + 1 + 2 + 1) + (1 + 4));
}

TEST_CASE("a jump to what is found out later to be a function is one of its invocations") {
  CallScript s;
  s.call(0, 1, 30).run(30, 5, RunExit::indirect_jump).ret(40, 7);
  s.call(1, 1, 40).ret(40, 7).plain(2, 1);
  const auto p = s.collect();
  CHECK(invocations(p, 40) == 2);
  CHECK(pair(p, 1, 40) == Figures{1, 7});
}

TEST_CASE("where an exception was handled once, others end the frames that they leave behind") {
  CallScript s;
  for (int i = 0; i < 4; i++) {
    s.call(0, 1, 10).call(10, 1, 20).call(20, 1, 30).plain(30, 5);
    s.ret(31, 1).call(15, 2, 40).ret(40, 7);  // the handler in 10 makes a call,
    s.ret(16, 1).run(1, 1, RunExit::jump, 0);
  }
  const auto p = s.collect();
  // and of the first one it is not known whose call that is before 10 returns.
  CHECK(inclusive(p, 20) == 4 * (1 + 5 + 1) + (2 + 7 + 1));
  CHECK(inclusive(p, 10) == 4 * (1 + 7 + 2 + 7 + 1));
  CHECK(pair(p, 15, 40) == Figures{4, 28});
}

TEST_CASE("what cleans up behind an exception is not taken for who handles it") {
  CallScript s;
  for (int i = 0; i < 3; i++) {
    s.call(0, 1, 10).call(10, 1, 20).call(20, 1, 30).plain(30, 5);
    s.ret(31, 1).call(25, 2, 40).ret(40, 3);                 // into 20, which cleans up,
    s.call(26, 1, 50).plain(50, 4).ret(51, 1).plain(15, 1);  // and goes on to the handler in 10
    s.call(16, 1, 60).ret(60, 1).ret(17, 1).run(1, 1, RunExit::jump, 0);
  }
  const auto p = s.collect();
  // The first time it is not known before 10 returns that it was 10 that went on.
  CHECK(inclusive(p, 20) == 3 * (1 + 5 + 1 + 2 + 3 + 1 + 4 + 1) + (1 + 1 + 1 + 1));
  CHECK(inclusive(p, 10) == 3 * (1 + 18 + 4));
  CHECK(pair(p, 25, 40) == Figures{3, 9});
  CHECK(pair(p, 16, 60) == Figures{3, 3});
}

TEST_CASE("a loop that handles exceptions is found again, by whatever way it makes its calls") {
  CallScript s;
  for (int i = 0; i < 100; i++) {
    s.call(0, 1, 10).plain(10, 1);
    s.ret(11, 1).plain(8, 2);       // the handler, in the loop itself
    s.call(1, 1, 20).ret(20, 50);   // not known whose it is,
    s.run(2, 1, RunExit::jump, 0);  // until the loop calls 10 again
  }
  const auto p = s.collect();
  CHECK(inclusive(p, 10) == 100 * 2 + (2 + 1 + 50 + 1 + 1));
  CHECK(inclusive(p, 20) == 100 * 50);
}

TEST_CASE("a signal between a call and its target changes neither") {
  CallScript s;
  s.call(0, 1, 10).gap(trace::GapReason::signal_delivered);
  s.call(60, 1, 70).ret(70, 2).ret(61, 3).plain(90, 2);
  s.gap(trace::GapReason::signal_returned);
  s.ret(10, 4).plain(1, 1);
  const auto p = s.collect();
  CHECK(pair(p, 0, 10) == Figures{1, 4});
  CHECK(inclusive(p, 60) == 8);
  CHECK(invocations(p, 60) == 1);
  CHECK(event(p, "returns_without_call") == 0);
}

TEST_CASE("handlers that never return do not pile up") {
  CallScript s;
  s.plain(0, 1);
  for (int i = 0; i < 100'000; i++) s.gap(trace::GapReason::signal_delivered).plain(60, 1);
  const auto p = s.collect();
  CHECK(invocations(p, 60) == 100'000);
  CHECK(inclusive(p, 60) <= p.coverage.instructions_profiled);
}

TEST_CASE("recursion without end is followed in bounded memory, and outer figures stay exact") {
  CallScript s;
  s.call(0, 1, 10);
  const int depth = (1 << 20) + 500'000;
  for (int i = 0; i < depth; i++) s.call(10, 1, 10);
  s.plain(10, 1);
  for (int i = 0; i < depth; i++) s.ret(12, 1).plain(11, 1);
  s.ret(12, 1).plain(1, 1);
  const auto p = s.collect();
  CHECK(event(p, "calls_too_deep") > 0);
  CHECK(invocations(p, 10) == depth + 1);
  CHECK(inclusive(p, 10) == 3 * depth + 2);
}

TEST_CASE("a program that switches stacks with returns corrupts nothing") {
  CallScript s;
  // Two coroutines hand over to each other by returns to where the other one left off.
  s.call(0, 1, 10);
  for (int i = 0; i < 50'000; i++) {
    s.call(10, 3, 50).ret(50, 2).plain(21, 1);
    s.call(20, 3, 50).ret(50, 2).plain(11, 1);
  }
  const auto p = s.collect();
  for (const auto& e : p.tables.entries) CHECK(e.inclusive <= p.coverage.instructions_profiled);
  CHECK(invocations(p, 50) == 100'000);
}

TEST_CASE("lost records make no edge") {
  CallScript s;
  s.plain(0, 1).ret(5, 1).gap(trace::GapReason::lost).plain(9, 1);
  const auto p = s.collect();
  CHECK(p.tables.edges.empty());
  CHECK(event(p, "edges_without_target") == 1);
}

TEST_CASE("reading the program counter by a call is no call") {
  CallScript s;
  s.call(0, 1, 10).run(10, 1, RunExit::call, 11).plain(11, 3).ret(12, 1).plain(1, 1);
  const auto p = s.collect();
  CHECK(p.tables.calls.size() == 1);
  CHECK(inclusive(p, 10) == 5);
  CHECK(p.tables.edges.size() == 3);
}

}  // namespace
}  // namespace shadowprof
