// SPDX-License-Identifier: MIT
//
// Where paths are called from, in traces written by hand.
#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "collect/paths/path_collector.h"

namespace shadowprof {
namespace {

using trace::RunExit;
using trace::Word;

// Block b lies at 16 x b, and its last instruction at 16 x b + 14.
class PathScript {
 public:
  PathScript() {
    trace::Module module;
    module.path = "/made/up";
    module.inode = 1;
    module.range = {GuestAddr(0), GuestAddr(1 << 16)};
    table.add_module(module);
  }
  PathScript& run(unsigned block, RunExit exit, unsigned target = 0) {
    const auto [known, is_new] = runs_.try_emplace({block, target});
    if (is_new) {
      trace::Block b;
      b.start = GuestAddr(16 * block);
      b.end = b.start + 16;
      b.last_insn = b.end - 2;
      b.module = ModuleId(0);
      b.insns = 4;
      b.terminator = trace::Terminator::jump;
      trace::Run run;
      run.insns = run.last_block_insns = b.insns;
      run.exit = exit;
      if (!trace::is_indirect(exit)) run.target = GuestAddr(16 * target);
      const BlockId id = table.add_block(b);
      known->second = table.add_run(run, {&id, 1}, {});
    }
    words_.push_back(known->second.value);
    return *this;
  }
  PathScript& call(unsigned block, unsigned target) { return run(block, RunExit::call, target); }
  PathScript& jump(unsigned block, unsigned target) { return run(block, RunExit::jump, target); }
  PathScript& ret(unsigned block) { return run(block, RunExit::ret); }

  // The block whose call leads to the frame of the path of that one block.
  uint64_t caller_of(unsigned block) const {
    collect::PathCollector collector(table, {.whole_threads = true});
    collector.consume({Tid(1), words_});
    profile::Profile profile;
    collector.finish(profile);
    for (const profile::PathRow& row : profile.tables.paths) {
      if (row.blocks.size() == 1 && row.blocks[0].offset == 16 * block && row.from_count != 0)
        return row.from.offset / 16;
    }
    return 0;
  }

 private:
  trace::BlockTable table;
  std::map<std::pair<unsigned, unsigned>, RunId> runs_;
  std::vector<Word> words_;
};

TEST_CASE("frames that an exception has left are not callers") {
  PathScript script;
  script.call(5, 10);                               // of main
  script.call(10, 20).call(20, 30).call(30, 40);    // down to a function that throws
  script.jump(40, 25).ret(25);                      // caught in main's callee, which returns
  for (int i = 0; i < 5; i++) script.jump(11, 11);  // main's own loop
  CHECK(script.caller_of(11) == 5);
}

TEST_CASE("a return to elsewhere leaves one frame") {
  PathScript script;
  script.call(5, 10).call(10, 20).ret(20);
  for (int i = 0; i < 5; i++) script.jump(15, 15);
  CHECK(script.caller_of(15) == 5);
}

}  // namespace
}  // namespace shadowprof
