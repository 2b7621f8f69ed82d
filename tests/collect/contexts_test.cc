// SPDX-License-Identifier: MIT
//
// Calling contexts: the stack that a sample began with, and the calls and returns behind it.
#include "collect/edges/edge_collector.h"

#include <doctest/doctest.h>

#include <map>
#include <ostream>
#include <string>

namespace shadowprof {
namespace {

using trace::RunExit;
using trace::Word;

// A trace written by hand. Block b lies at 16 x b and has b instructions; each execution is a run.
class ContextScript {
 public:
  ContextScript() {
    trace::Module module;
    module.path = "/made/up";
    module.inode = 1;
    module.range = {GuestAddr(0), GuestAddr(1 << 16)};
    table.add_module(module);
  }
  ContextScript& run(unsigned block, RunExit exit, unsigned target = 0) {
    const auto [known, fresh] = runs_.try_emplace({block, exit, target});
    if (fresh) {
      trace::Block b;
      b.start = GuestAddr(16 * block);
      b.end = b.start + 16;
      b.last_insn = b.end - 2;
      b.module = ModuleId(0);
      b.insns = static_cast<uint16_t>(block);
      b.terminator = trace::Terminator::jump;
      trace::Run r;
      r.insns = block;
      r.last_block_insns = b.insns;
      r.exit = exit;
      if (!trace::is_indirect(exit)) r.target = GuestAddr(16 * target);
      const auto [id, new_block] = blocks_.try_emplace(block);
      if (new_block) id->second = table.add_block(b);
      known->second = table.add_run(r, std::span(&id->second, 1), {});
    }
    words_.push_back(known->second.value);
    return *this;
  }
  ContextScript& call(unsigned block, unsigned target) { return run(block, RunExit::call, target); }
  ContextScript& plain(unsigned block) { return run(block, RunExit::split); }
  ContextScript& ret(unsigned block) { return run(block, RunExit::ret); }
  // `callers`: addresses that they go on at, the innermost first.
  ContextScript& start(const std::vector<uint64_t>& callers, bool whole) {
    const auto length = static_cast<uint32_t>(4 + 2 * callers.size());
    words_.insert(words_.end(), {trace::special_word(trace::SpecialKind::sample_start, length), 1,
                                 0, whole ? trace::StackStart::kWhole : 0});
    for (const uint64_t at : callers)
      words_.insert(words_.end(), {static_cast<Word>(at), static_cast<Word>(at >> 32)});
    return *this;
  }
  ContextScript& start() {
    words_.insert(words_.end(), {trace::special_word(trace::SpecialKind::sample_start, 3), 1, 0});
    return *this;
  }
  ContextScript& gap(trace::GapReason reason) {
    words_.insert(words_.end(),
                  {trace::special_word(trace::SpecialKind::gap, 2), static_cast<Word>(reason)});
    return *this;
  }
  ContextScript& end() {
    const auto record = trace::sample_end(trace::EndReason::budget);
    words_.insert(words_.end(), record.begin(), record.end());
    return *this;
  }

  // "unknown/10/30: self": by the numbers of blocks.
  std::map<std::string, uint64_t> contexts(bool begins_anywhere = true) {
    collect::EdgeCollector collector(
        table,
        {.calls = true, .errors = true, .contexts = true, .begins_anywhere = begins_anywhere});
    collector.consume({Tid(7), words_});
    collector.finish(profile);
    profile.coverage.estimated = true;
    REQUIRE(profile::check_consistency(profile).has_value());
    std::map<std::string, uint64_t> result;
    uint64_t all = 0;
    const auto& rows = profile.tables.contexts;
    for (uint32_t i = 0; i < rows.size(); i++) {
      all += rows[i].self;
      if (rows[i].self == 0) continue;
      std::string name;
      for (const uint32_t at : profile::context_chain(rows, i)) {
        const bool code = rows[at].kind == profile::ContextKind::code;
        name += (name.empty() ? "" : "/") +
                (code ? std::to_string(rows[at].at.offset / 16) : std::string("?"));
      }
      result[name] += rows[i].self;
    }
    CHECK(all == profile.coverage.instructions_profiled);
    return result;
  }

  trace::BlockTable table;
  profile::Profile profile;

 private:
  std::map<std::tuple<unsigned, RunExit, unsigned>, RunId> runs_;
  std::map<unsigned, BlockId> blocks_;
  std::vector<Word> words_;
};

using Contexts = std::map<std::string, uint64_t>;

TEST_CASE("calls that are executed nest below the stack that a sample began with") {
  ContextScript s;
  // In block 30, called from 21 (goes on at 22), called from 11 (goes on at 12).
  s.start({22 * 16, 12 * 16}, true).call(30, 40).ret(40).plain(31).end();
  CHECK(s.contexts() == Contexts{{"11/21/30", 30 + 31}, {"11/21/30/40", 40}});
}

TEST_CASE("a handler's instructions are its own, whatever it has interrupted") {
  using enum trace::GapReason;
  ContextScript s;
  // Behind a return, before its first run, behind a call, and behind a jump to what is called.
  s.call(10, 20).ret(20);
  s.gap(signal_delivered).gap(signal_delivered).plain(61).gap(signal_returned).plain(60);
  s.gap(signal_returned).call(11, 20);
  s.gap(signal_delivered).plain(60).gap(signal_returned).run(20, RunExit::jump, 30);
  s.gap(signal_delivered).plain(60).gap(signal_returned).ret(30).call(12, 30).ret(30).plain(13);
  CHECK(s.contexts(false) == Contexts{{"10", 10 + 11 + 12 + 13},
                                      {"10/20", 20 + 20 + 30},
                                      {"10/30", 30},
                                      {"10/60", 60},
                                      {"10/20/60", 60 + 60},
                                      {"10/20/61", 61}});
}

TEST_CASE("a sample that returns is in the function that its stack says") {
  ContextScript s;
  s.start({22 * 16, 12 * 16}, true).ret(30).call(22, 50).ret(50).ret(23).plain(12).end();
  CHECK(s.contexts() ==
        Contexts{{"11/21/30", 30}, {"11/21", 22 + 23}, {"11/21/50", 50}, {"11", 12}});
  CHECK(!s.profile.coverage.events.contains("returns_without_call"));
}

TEST_CASE("an exception leads back to a caller that the sample began with") {
  ContextScript s;
  // The loop of 11 calls 21, at first in another sample, and handles an exception at 18.
  s.start({30 * 16}, true).plain(12).call(13, 21).ret(21).call(14, 22).ret(22).plain(15).end();
  s.start({14 * 16, 30 * 16}, true).call(21, 40).plain(40).ret(41);
  s.plain(18).call(13, 21).ret(21).plain(14).end();
  const Contexts found = s.contexts();
  CHECK(found.at("29/12") == 12 + 13 + 14 + 15);
  // As far as the next call.
  CHECK(found.at("29/13/21/40") == 40 + 41 + 18 + 13);
  CHECK(found.at("29/13") == 14);
  CHECK(found.at("29/13/21") == 21 + 21);
}

TEST_CASE("a stack that could not be unwound to its end hangs below unknown callers") {
  ContextScript s;
  s.start({22 * 16}, false).ret(30).ret(22).plain(12).call(13, 30).ret(30).plain(14).end();
  CHECK(s.contexts() ==
        Contexts{{"?/21/30", 30}, {"?/21", 22}, {"?/12", 12 + 13 + 14}, {"?/12/30", 30}});
  CHECK(s.profile.coverage.events.at("stacks_cut") == 1);
}

TEST_CASE("a sample without a stack has unknown callers, a thread from its start has none") {
  ContextScript sampled;
  sampled.start().call(30, 40).ret(40).plain(31).end();
  CHECK(sampled.contexts() == Contexts{{"?/30", 61}, {"?/30/40", 40}});
  ContextScript whole;
  whole.start().call(30, 40).ret(40).plain(31).end();
  CHECK(whole.contexts(false) == Contexts{{"30", 61}, {"30/40", 40}});
}

TEST_CASE("callers in a row of which nothing is known are one") {
  ContextScript s;
  constexpr uint64_t kNowhere = 1 << 20;
  s.start({22 * 16, kNowhere, kNowhere + 64, 12 * 16}, true).plain(30).end();
  s.start({22 * 16, kNowhere + 128, 12 * 16}, true).plain(30).end();
  CHECK(s.contexts() == Contexts{{"11/?/21/30", 60}});
}

TEST_CASE("samples do not nest in one another") {
  ContextScript s;
  s.start({22 * 16}, true).call(30, 40).plain(40).end();
  s.start({12 * 16}, true).plain(40).end();
  CHECK(s.contexts() == Contexts{{"21/30", 30}, {"21/30/40", 40}, {"11/40", 40}});
}

TEST_CASE("errors of contexts come from how samples differ") {
  ContextScript s;
  for (int i = 0; i < 8; i++) {
    s.start({22 * 16}, true);
    for (int j = 0; j < (i % 2 == 0 ? 100 : 300); j++) s.plain(30);
    s.call(30, 40).plain(40).end();
  }
  s.contexts();
  const profile::ContextGroups& groups = s.profile.context_groups;
  REQUIRE(groups.size() == 8);
  for (size_t g = 0; g < groups.size(); g++) {
    REQUIRE(groups[g].entries.size() == 2);
    const uint64_t outer = g % 2 == 0 ? 3030 : 9030;
    CHECK(groups[g].entries[0].instructions == outer);
    CHECK(groups[g].entries[1].instructions == 40);
    CHECK(groups[g].instructions == doctest::Approx(static_cast<double>(outer + 40)));
    CHECK(s.profile.tables.contexts[groups[g].entries[1].row].self == 8 * 40);
  }
}

TEST_CASE("calls nested deeper than contexts are kept stay in one row") {
  ContextScript s;
  s.start({}, true);
  for (int i = 0; i < 2000; i++) s.call(30, 30);
  s.plain(30).end();
  uint64_t rows = 0;
  s.contexts();
  bool deeper = false;
  for (const profile::ContextRow& row : s.profile.tables.contexts) {
    rows++;
    deeper = deeper || (row.kind == profile::ContextKind::deeper && row.self > 30 * 1000);
  }
  CHECK(rows < 600);
  CHECK(deeper);
}

}  // namespace
}  // namespace shadowprof
