// SPDX-License-Identifier: MIT
//
// Traces of made-up loads and stores: each instruction is a run of its own, executed at any
// address.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "collect/loads/access_follower.h"
#include "made_up.h"
#include "profile/profile.h"
#include "trace/record.h"

namespace shadowprof::test {

class MemoryTrace {
 public:
  trace::BlockTable table;
  std::vector<trace::Word> words;

  MemoryTrace() : module_(table.add_module(one_page_module())) {}

  // `code`: one instruction that goes through rbx, or another register. Returns its run.
  RunId insn(std::initializer_list<uint8_t> code, trace::RunExit exit = trace::RunExit::split,
             uint8_t reg = decoder::kRbx) {
    return insn(code, exit, {trace::SlotKind::base, reg, 0});
  }
  // A nop with a time stamp (trace::SlotKind::moment) in the place of an address.
  RunId moment(uint8_t which) {
    return insn({0x90}, trace::RunExit::split, {trace::SlotKind::moment, which, 0});
  }
  RunId insn(std::initializer_list<uint8_t> code, trace::RunExit exit, const trace::Slot& slot) {
    return insn(code, exit, std::span(&slot, 1));
  }
  RunId insn(std::initializer_list<uint8_t> code, trace::RunExit exit,
             std::span<const trace::Slot> slots) {
    trace::Block block;
    block.module = module_;
    block.start = block.last_insn = GuestAddr(next_);
    next_ += code.size();
    block.end = GuestAddr(next_);
    block.insns = 1;
    const BlockId id = table.add_block(block, {code.begin(), code.size()});
    trace::Run run;
    run.insns = run.last_block_insns = 1;
    run.exit = exit;
    run.captures = true;
    return table.add_run(run, {&id, 1}, slots);
  }
  RunId store1() { return insn({0x88, 0x03}); }        // mov [rbx], al
  RunId store4() { return insn({0x89, 0x03}); }        // mov [rbx], eax
  RunId store8() { return insn({0x48, 0x89, 0x03}); }  // mov [rbx], rax
  RunId load4() { return insn({0x8b, 0x03}); }         // mov eax, [rbx]
  RunId load8() { return insn({0x48, 0x8b, 0x03}); }   // mov rax, [rbx]

  void at(RunId run, uint64_t address) {
    words.insert(words.end(), {run.value, static_cast<trace::Word>(address),
                               static_cast<trace::Word>(address >> 32)});
  }
  // The same for a run with more slots.
  void at(RunId run, std::initializer_list<uint64_t> slots) {
    words.push_back(run.value);
    for (const uint64_t slot : slots)
      words.insert(words.end(),
                   {static_cast<trace::Word>(slot), static_cast<trace::Word>(slot >> 32)});
  }
  // What comes from now on is another thread's.
  void go_on_with(Tid thread) { ended_.emplace_back(std::exchange(thread_, thread), words.size()); }
  void clear() {
    words.clear();
    ended_.clear();
  }
  template <typename Record>
  void mark(const Record& record) {
    words.insert(words.end(), record.begin(), record.end());
  }
  uint64_t offset_of(RunId run) const {
    return table.block(table.run(run).first_block).start.value - 0x1000;
  }

  using Make = std::unique_ptr<collect::Collector> (*)(const trace::BlockTable&,
                                                      collect::AccessFollowerOptions);
  profile::Profile collect(Make make, bool sampled = false) {
    const std::unique_ptr<collect::Collector> collector = make(table, {.sampled = sampled});
    size_t begin = 0;
    for (const auto& [tid, end] : ended_) {
      collector->consume({tid, std::span(words).subspan(begin, end - begin)});
      begin = end;
    }
    collector->consume({thread_, std::span(words).subspan(begin)});
    profile::Profile p;
    collector->finish(p);
    return p;
  }

 private:
  ModuleId module_;
  uint64_t next_ = 0x1100;
  Tid thread_{1};
  std::vector<std::pair<Tid, size_t>> ended_;  // up to which of the words
};

inline constexpr uint64_t kHeap = 0x7f12'3456'0000;

}  // namespace shadowprof::test
