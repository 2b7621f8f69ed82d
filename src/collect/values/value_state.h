// SPDX-License-Identifier: MIT
//
// What ValueCollector keeps while a trace is read: plans by run id, entries by instruction.
#pragma once

#include <array>
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
#include "base/spread.h"
#include "collect/recorded_words.h"
#include "collect/values/call_sites.h"
#include "collect/values/value_collector.h"
#include "collect/values/value_entry.h"
#include "decoder/divisor.h"
#include "decoder/insn.h"
#include "trace/special_record.h"

namespace shadowprof::collect {

inline constexpr uint32_t kNone = ~0u;

struct SlotPlan {
  ValueEntry* entry;
  uint16_t word;  // of the record
  uint8_t left;   // raw << left >> right is the result
  uint8_t right;
};

// What a compare tells: of its operands, each at a word of the record or known beforehand.
struct ComparePlan {
  ValueEntry* entry;
  uint64_t immediate;
  uint16_t left_word;
  uint16_t right_word;  // 0: `immediate`
  uint8_t left_shift;
  uint8_t right_shift;
  uint8_t unused;    // bits above those that are compared
  bool common_bits;  // of both, instead of their difference
};

// The last capture of an argument register in a run.
struct ArgumentWrite {
  uint16_t word;
  uint8_t argument;
};

// How a call was seen: while all calls of its site were, in a window, or by its record alone.
enum class CallSeen : uint8_t { in_full, in_window, by_record };

struct ArgumentsOfCall {
  ValueEntry* entries[profile::kArguments] = {};
  std::array<uint64_t, 3> calls = {};  // by CallSeen
};

enum class Exit : uint8_t { other, call, ret };

// What every record needs.
struct RunState {
  uint64_t executions;
  uint16_t words;  // 0: not seen yet
  bool captures;
  bool passes;  // one word long, and nothing to look at
};

// Bit n for argument n.
using ArgumentMask = uint16_t;
static_assert(profile::kArguments <= 16);

ArgumentMask arguments_in(decoder::GprMask registers, decoder::VectorMask vectors);

struct RunPlan {
  uint32_t first_slot;
  uint32_t first_compare;
  uint32_t first_write;
  uint16_t slots;
  uint16_t compares;
  uint8_t writes;
  Exit exit;
  bool is_stub;            // nothing but a jump through memory: a call goes on to its target
  ArgumentMask written;    // argument registers whose contents are known after it
  ArgumentMask clobbered;  // argument registers that it writes
  uint32_t first_block;
  uint32_t site;    // of a call
  uint64_t start;   // addresses: of its first block,
  uint64_t target;  // and where it leads; 0: not known before
  // What the last call from here needed, and the last context.
  uint32_t callee;
  ArgumentsOfCall* arguments;
  uint32_t context;
  uint32_t context_slots;
};

// What has been seen of a fragment, where the engine does what seen_enough tells it.
struct FragmentLooks {
  uint32_t looked;     // captured executions
  uint32_t plain_run;  // the latest of its runs that capture nothing; 0: none yet
  bool told;           // it has been seen enough of
  bool is_called;      // functions begin there
};

// What is known of an instruction before it executes.
struct InsnFacts {
  struct Bits {
    uint8_t reg = decoder::kNoGpr;
    uint8_t count = 0;
    uint8_t shift = 0;
  };
  ValueEntry* entries[profile::kValueParts];  // made when a slot needs them
  uint64_t address;
  decoder::Divisor divisor;  // 0 bits: it does not divide
  uint32_t compare;  // 1 + index into compare_facts; 0: it is none
  decoder::GprMask writes;
  decoder::VectorMask vector_writes;
  Bits result;
  Bits second;
  decoder::ElementResult element;
  uint8_t double_result;   // an argument register (decoder::Insn), or kNoGpr
  int32_t loads_static;    // distance to what it loads and does nothing else; 0: it does not
  uint8_t length;
  bool constant;
};

struct CompareFacts {
  std::array<decoder::ComparedOperand, 2> sides;
  uint8_t bits;
  bool common_bits;
};

struct ThreadState {
  uint64_t registers[profile::kArguments] = {};
  unsigned in_window = 0;  // contents that a window has seen
  unsigned known = 0;
  unsigned live = 0;            // may be arguments: see value_collector.h
  RunPlan* call = nullptr;      // waits for its callee
  CallSeen call_seen = CallSeen::in_full;
  uint64_t next = 0;            // where the latest record leads; 0: not known
  CallSites sites;              // each 1 + its number; only by call site
};

// Where an entry's values are made; what is at an address may change.
struct InsnKey {
  uint64_t address = 0;
  uint64_t code = 0;  // hash of the bytes
  profile::ValuePart part{};
  bool operator==(const InsnKey&) const = default;
};
struct InsnKeyHash {
  size_t operator()(const InsnKey& k) const {
    const auto part = static_cast<uint64_t>(k.part) << 40;
    return static_cast<size_t>((spread(k.address ^ part) ^ k.code) >> 7);
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
  int32_t loads_static = 0;
  decoder::ElementResult element{};
};

struct CallSitePlace {
  GuestAddr call;
  GuestAddr returns_to;
  ModuleId module;
};

class TableBuilder;

struct ValueCollector::State {
  State(const trace::BlockTable& block_table, ValueCollectorOptions collector_options);

  void consume(const trace::Chunk& chunk);
  void finish(profile::Profile& into);

  // While reading (value_collector.cc).
  void read(const trace::Chunk& chunk, size_t window_words);
  size_t words_of_window(const trace::Chunk& chunk);
  const trace::Word* pass_quickly(const trace::Word* at, const trace::Word* end);
  enum class Look : uint8_t { none, at_all, in_window };
  Look look_at(uint32_t id, const RunState& run);
  Look look_at_fragment(uint32_t id);
  void record(RunPlan& plan, const trace::Word* words, Look look);
  ValueEntry& in_window(ValueEntry& entry);
  void end_window();
  void pass(RunPlan& plan);
  void check_succession(ThreadState& t, const RunPlan& plan);
  void meet_callee(ThreadState& t, const RunPlan& plan);
  void follow_calls(ThreadState& t, const RunPlan& plan) const;
  void hear_answers();
  void next_window();
  void hear_condition();
  void take_arguments(ThreadState& t, uint32_t callee);
  const SlotPlan* slots_in_context(RunPlan& plan, const ThreadState& t);
  ValueEntry* entry_in_context(ValueEntry* base, uint32_t context);
  void switch_to(Tid tid);
  void sample_began(uint64_t number);
  void end_sample();
  void on(const trace::SampleStart& start);
  void on(const trace::SampleEnd& end);
  void on(trace::GapReason reason);

  // When a run is first seen (value_plan.cc).
  void start_run(RunId id);
  void note_translation(RunId id, const trace::Run& run);
  void learn_block(BlockId id);
  ValueEntry* entry_of(InsnFacts& facts, BlockId block, profile::ValuePart part, uint8_t bits);
  void plan_compare(InsnFacts& facts, BlockId block, const RecordedWords& recorded);
  void plan_divisor(InsnFacts& facts, BlockId block, const RecordedWords& recorded);
  void plan_result(InsnFacts& facts, BlockId block, uint8_t reg, uint16_t word);
  void plan_element(InsnFacts& facts, BlockId block, uint16_t word);
  uint32_t site_of(const trace::Block& last);

  // At the end (value_finish.cc).
  void count_executions();
  void drop_plans();
  void add_value_rows(const TableBuilder& builder, profile::ValueTable& values);
  void disassemble_hottest(profile::ValueTable& values,
                           const std::vector<const InsnEntry*>& insn_of_row) const;
  void count_calls();
  void add_argument_rows(const TableBuilder& builder, profile::ArgumentTable& rows) const;

  const trace::BlockTable& table;
  const ValueCollectorOptions options;
  ValueSink sink;
  ReservedArray<RunState> runs;
  ReservedArray<RunPlan> plans;
  ReservedArray<FragmentLooks> looks;           // by first block
  ReservedArray<uint32_t> first_insn_of_block;  // 1 + index into insns; 0: not learnt yet
  std::deque<InsnFacts> insns;
  std::vector<CompareFacts> compare_facts;
  std::deque<ValueEntry> entries;  // their addresses hold
  std::vector<SlotPlan> slot_plans;
  std::vector<ComparePlan> compare_plans;
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
  bool is_brief = false;          // the present sample
  uint64_t open_number = 0;       // of the observation that has not ended; 0: none, or not known
  bool open = true;               // in a window
  uint64_t until_change = ~0ull;  // records until it ends, or the next one begins
  uint64_t chunks = 0;
  trace::AwaitedAnswers answers;
  CaptureCondition condition;
  bool looks_at_all;
  uint64_t changes = 0;  // of the condition, that are known
  uint32_t window = 1;                // the present one
  uint64_t windows_opened = 0;        // by the engine, up to the last chunk
  std::vector<ValueEntry*> windowed;  // that it has seen
  uint64_t corrupt_chunks = 0;
};

}  // namespace shadowprof::collect
