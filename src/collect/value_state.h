// SPDX-License-Identifier: MIT
//
// What ValueCollector keeps while a trace is read: plans by run id, entries by instruction.
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/value_collector.h"
#include "collect/value_entry.h"

namespace shadowprof::collect {

inline constexpr uint32_t kNone = ~0u;

struct SlotPlan {
  ValueEntry* entry;
  uint16_t word;  // of the record
  uint8_t left;   // raw << left >> right is the result
  uint8_t right;
};

// The last capture of an argument register in a run.
struct ArgumentWrite {
  uint16_t word;
  uint8_t argument;
};

struct ArgumentsOfCall {
  ValueEntry* entries[profile::kArguments] = {};
};

enum class Exit : uint8_t { other, call, ret };

struct RunPlan {
  uint64_t executions;
  uint32_t words;  // 0: not seen yet
  uint32_t first_slot;
  uint32_t first_write;
  uint16_t slots;
  uint8_t writes;
  Exit exit;
  uint8_t written;    // argument registers whose contents are known after it
  uint8_t clobbered;  // argument registers that it writes
  uint32_t first_block;
  uint32_t site;  // of a call
  // What the last call from here needed, and the last context.
  uint32_t callee;
  ArgumentsOfCall* arguments;
  uint32_t context;
  uint32_t context_slots;
};

// What is known of an instruction before it executes.
struct InsnFacts {
  ValueEntry* entry;  // made when a slot needs it
  uint64_t address;
  uint16_t writes;
  uint8_t bits;
  uint8_t shift;
  uint8_t length;
  bool constant;
};

struct ThreadState {
  uint64_t registers[profile::kArguments] = {};
  unsigned known = 0;
  unsigned live = 0;            // may be arguments: see value_collector.h
  RunPlan* call = nullptr;      // waits for its callee
  std::vector<uint32_t> sites;  // 1 + call site of each frame; only by call site
};

// Where an entry's values are made; what is at an address may change.
struct InsnKey {
  uint64_t address = 0;
  uint64_t code = 0;  // hash of the bytes
  bool operator==(const InsnKey&) const = default;
};
struct InsnKeyHash {
  size_t operator()(const InsnKey& k) const {
    return static_cast<size_t>((k.address * 0x9E3779B97F4A7C15ull ^ k.code) >> 7);
  }
};

struct InsnEntry {
  ValueEntry* entry = nullptr;
  ModuleId module;
  BlockId block;
  uint32_t offset_in_block = 0;
  uint8_t bits = 64;
  uint8_t length = 0;
  bool constant = false;
};

struct CallSitePlace {
  GuestAddr call;
  GuestAddr returns_to;
  ModuleId module;
};

struct ValueCollector::State {
  State(const trace::BlockTable& block_table, ValueCollectorOptions collector_options);

  void consume(const trace::Chunk& chunk);
  void finish(profile::Profile& into);

  // While reading (value_collector.cc).
  void record(RunPlan& plan, const trace::Word* words);
  void next_window();
  void take_arguments(ThreadState& t, uint32_t callee);
  const SlotPlan* slots_in_context(RunPlan& plan, const ThreadState& t);
  ValueEntry* entry_in_context(ValueEntry* base, uint32_t context);
  void switch_to(Tid tid);
  void end_streams();
  bool special(std::span<const trace::Word> record);

  // When a run is first seen (value_plan.cc).
  void start_run(RunId id);
  void learn_block(BlockId id);
  InsnFacts* facts_of(BlockId block, uint32_t index);
  ValueEntry* entry_of(InsnFacts& facts, BlockId block, uint32_t offset_in_block);
  uint32_t site_of(const trace::Block& last);

  static constexpr size_t kMaxDepth = 1 << 16;

  const trace::BlockTable& table;
  const ValueCollectorOptions options;
  ValueSink sink;
  ReservedArray<RunPlan> plans;
  ReservedArray<uint32_t> first_insn_of_block;  // 1 + index into insns; 0: not learnt yet
  std::deque<InsnFacts> insns;
  std::deque<ValueEntry> entries;  // their addresses hold
  std::vector<SlotPlan> slot_plans;
  std::vector<ArgumentWrite> argument_writes;
  std::unordered_map<InsnKey, InsnEntry, InsnKeyHash> insn_entries;
  std::vector<CallSitePlace> sites;
  std::unordered_map<uint64_t, uint32_t> site_by_address;
  std::unordered_map<uint64_t, ArgumentsOfCall> arguments;  // by site and callee's block
  std::unordered_map<uint64_t, uint32_t> slots_by_context;  // by run and context
  std::map<std::pair<ValueEntry*, uint32_t>, ValueEntry*> context_entries;
  std::map<Tid, ThreadState> threads;
  ThreadState* current = nullptr;
  profile::Random random;         // where windows are
  bool open = true;               // in a window
  uint64_t until_change = ~0ull;  // records until it ends, or the next one begins
  uint32_t weight = 1;            // of an event in a window
  uint64_t corrupt_chunks = 0;
};

}  // namespace shadowprof::collect
