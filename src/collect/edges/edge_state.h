// SPDX-License-Identifier: MIT
//
// What EdgeCollector keeps while a trace is read. The arrays are indexed by run or block id and are
// as long as ids can get; only pages that are used take memory.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/edges/code_owners.h"
#include "collect/edges/context_tree.h"
#include "collect/edges/edge_collector.h"
#include "collect/edges/pair_table.h"
#include "collect/edges/thread_runs.h"
#include "collect/weights/group_counts.h"
#include "trace/special_record.h"

namespace shadowprof::collect {

// Why the collector wants to see a run's successor.
enum class Follow : uint32_t {
  no,
  call,  // direct
  indirect_call,
  ret,
  indirect_jump,
  tail_jump,     // a direct jump to code that is also called
  enter,         // not a run: the next record begins a thread or a signal handler
  stack_switch,  // an indirect jump that does not go on with this stack (stack_switch.h)
};
constexpr bool needs_pair(Follow f) {
  constexpr uint32_t kWithPair = 1u << static_cast<uint32_t>(Follow::indirect_call) |
                                 1u << static_cast<uint32_t>(Follow::ret) |
                                 1u << static_cast<uint32_t>(Follow::indirect_jump) |
                                 1u << static_cast<uint32_t>(Follow::stack_switch);
  return (kWithPair >> static_cast<uint32_t>(f) & 1) != 0;
}

// 16 bytes for each run. `facts` is 0 until the run is first seen; it packs what the counting pass
// needs so that a record touches one cell and nothing else.
struct Cell {
  uint64_t count;
  uint64_t facts;
};

// The layout is for the counting pass: instructions are the low half-word, "has something to
// follow" shifts to the size of an Event, and "is one word long" is the sign.
struct Facts {
  static constexpr unsigned kBlock = 16, kWords = 42, kFollow = 56, kFollowed = 59, kOneWord = 63;
  static_assert(limits::kMaxBlocks <= (size_t{1} << (kWords - kBlock)));
  static_assert(limits::kMaxRecordWords < (size_t{1} << (kFollow - kWords)));

  static uint64_t pack(uint32_t block, uint64_t insns, uint64_t words, Follow follow) {
    return insns | static_cast<uint64_t>(block) << kBlock | words << kWords |
           static_cast<uint64_t>(follow) << kFollow |
           static_cast<uint64_t>(follow != Follow::no) << kFollowed |
           static_cast<uint64_t>(words == 1) << kOneWord;
  }
  static uint64_t with_follow(uint64_t f, Follow follow) {
    return pack(block(f), insns(f), words(f), follow);
  }
  static uint32_t insns(uint64_t f) { return static_cast<uint16_t>(f); }
  static uint32_t block(uint64_t f) { return f >> kBlock & ((1u << (kWords - kBlock)) - 1); }
  static uint32_t words(uint64_t f) { return f >> kWords & ((1u << (kFollow - kWords)) - 1); }
  static Follow follow(uint64_t f) { return static_cast<Follow>(f >> kFollow & 7); }
  static bool one_word(uint64_t f) { return static_cast<int64_t>(f) < 0; }
};

// A run that ended in something to follow, and the block that came next.
struct Event {
  uint64_t clock;  // the thread's instructions up to the end of the run
  uint32_t run;
  uint32_t successor;  // block id
};
static_assert(sizeof(Event) == 16);

// Not a run: the cell with this id says Follow::enter.
inline constexpr uint32_t kEnterRun = limits::kMaxRuns - 1;
// Not a block: the callee of an activation that was there when its sample began.
inline constexpr uint32_t kStackBlock = limits::kMaxBlocks - 1;

// How the inclusive instructions of a call site's pair are found: a run (direct call) or a slot of
// the pair table.
using ArcId = uint32_t;
inline constexpr ArcId kPairArc = 1u << 31;
inline constexpr ArcId kNoArc = ~0u;

// An activation on a thread's shadow stack.
struct Frame {
  uint64_t return_address;  // 0: entered by the kernel, nothing returns to it
  uint64_t clock;           // the thread's instructions when it was entered
  uint32_t callee;          // block id | kOutermost
  ArcId arc;
  uint32_t context = 0;  // node of the context tree
  CodeOwners::Owner owner = CodeOwners::kNobody;

  // The only activation of its callee that counts: those nested in it are part of it.
  static constexpr uint32_t kOutermost = 1u << 31;
  uint32_t block() const { return callee & ~kOutermost; }
  bool outermost() const { return (callee & kOutermost) != 0; }
};

struct ActiveSignal {
  size_t depth;   // frames that the handler interrupted
  Event pending;  // to be completed after its return
  bool has_pending;
};

// Control went somewhere without a call or a matching return: frames may have been left behind.
struct Suspicion {
  size_t depth = 0;  // frames then
  // Places of the function that it went to, which is not known yet.
  std::vector<CodeOwners::Place> places;
};

struct GuestThread {
  uint64_t clock = 0;
  Event pending{0, kEnterRun, 0};
  bool has_pending = true;
  std::vector<Frame> frames;
  uint64_t context_clock = 0;             // up to here instructions have their context
  uint64_t resumed_at = 0;                // when its last handler returned
  uint32_t outside = ContextTree::kRoot;  // context where there is no frame
  uint64_t first_return = 0;  // where the first function of a sample returns to; 0 not known
  std::vector<ActiveSignal> signals;
  uint64_t search_credit = 1 << 16;
  std::vector<Suspicion> suspicions;  // of ascending depths
};

// For a block that was entered by a call, or otherwise as a function.
struct EntryState {
  static constexpr uint32_t kCalled = 1;       // jumps to it are tail calls
  static constexpr uint32_t kLookedAt = 2;     // kReturnPoint was decided
  static constexpr uint32_t kReturnPoint = 4;  // it follows a call

  uint64_t inclusive;
  // Not through a call pair. Of what is not called, jumps that may be within a function.
  uint64_t other_invocations;
  uint32_t flags;
  uint32_t active;  // on the current thread's stack

  bool has_figures() const {
    return (flags & kCalled) != 0 && (inclusive != 0 || other_invocations != 0);
  }
};

// For a run that ends in a call.
struct CallSite {
  uint64_t return_address;
  uint64_t inclusive;       // of the direct call
  CodeOwners::Place place;  // behind it
  CodeOwners::Owner owner;  // of that, when it was last executed
};

// The state of the counting pass, in registers.
struct Counting {
  const trace::Word* at;
  const trace::Word* end;  // of the chunk
  Event* event;
  uint64_t clock;
  uint64_t pending;  // sizeof(Event) when `event` waits for its successor, else 0
};

class TableBuilder;

struct EdgeCollector::State {
  explicit State(const trace::BlockTable& block_table, EdgeCollectorOptions collector_options);

  void consume(const trace::Chunk& chunk);
  void finish(profile::Profile& into);
  uint64_t close_threads();

  // Counting (edge_collector.cc).
  template <bool kIdsOnly>
  size_t count_batch(GuestThread& thread, std::span<const trace::Word> words, size_t at);
  template <bool kIdsOnly>
  bool count_record(Counting& now);
  void start_run(uint32_t run);
  void on(GuestThread& thread, const trace::SampleStart& start);
  void on(GuestThread& thread, const trace::SampleEnd& end);
  void on(GuestThread& thread, trace::GapReason reason);
  void find_pairs(const Event* batch, size_t count);

  void switch_to(Tid thread);
  void settle_threads();

  // Samples (edge_samples.cc).
  void sample_began(uint64_t number);
  void observation_ended();
  struct Due {
    bool edges;
    bool contexts;
    bool others;
    bool threads;
  };
  void look_at_counts(Due due);
  void look_at_pairs();
  void close_groups();
  size_t source_count() const;
  size_t other_count() const;
  uint64_t other(size_t i, size_t kind) const;
  uint64_t weigh_counts();
  void weigh_threads();
  void add_threads(const TableBuilder& builder, profile::Profile& mine);
  void weigh_contexts(const std::vector<double>& others, uint64_t instructions);

  // Calls (call_stack.cc).
  void follow_calls(GuestThread& thread, const Event* batch, size_t count);
  void move_arcs(const std::vector<uint32_t>& moved);
  void called(GuestThread& thread, const Event& event, ArcId arc);
  void push(GuestThread& thread, uint32_t callee, uint64_t return_address, uint64_t clock,
            ArcId arc);
  void close(GuestThread& thread, const Frame& frame, uint64_t clock);
  void count_context(GuestThread& thread, uint64_t clock);
  void add_to_context(GuestThread& thread, uint32_t context, uint64_t clock);
  void begin_stack(GuestThread& thread, const trace::SampleStart& start);
  void shed(GuestThread& thread, uint64_t clock);
  void place_call(GuestThread& thread, CallSite& site, uint64_t clock);
  void arrive(GuestThread& thread, uint64_t address, uint64_t clock);
  size_t find_activation(GuestThread& thread, CodeOwners::Owner owner);
  void drop_suspicions(GuestThread& thread, size_t depth);
  void trust(GuestThread& thread, size_t depth, CodeOwners::Owner owner);
  bool is_return_point(uint32_t block);
  void pop_to(GuestThread& thread, size_t depth, uint64_t clock);
  void returned(GuestThread& thread, const Event& event);
  void jumped(GuestThread& thread, const Event& event, Follow follow);
  void pop(GuestThread& thread, uint64_t clock);
  void note_called(GuestAddr address);
  void make_current(GuestThread& thread);
  void end_activations(GuestThread& thread);
  void signal_delivered(GuestThread& thread);
  void signal_returned(GuestThread& thread);

  const trace::BlockTable& table;
  const EdgeCollectorOptions options;
  ReservedArray<Cell> cells;
  ReservedArray<EntryState> entries;
  ReservedArray<CallSite> sites;
  PairTable pairs;
  ContextTree contexts;
  CodeOwners owners;
  std::map<Tid, GuestThread> threads;
  GuestThread* current = nullptr;  // whose frames are marked active in `entries`
  bool ids_only = true;            // no record with slots was seen yet

  // Direct jumps by target: they become tail jumps when the target is called.
  std::unordered_map<uint64_t, std::vector<uint32_t>> jumps;

  // Pairs by numbers that stay, and their counts at the last look.
  std::unordered_map<uint64_t, uint32_t> pair_numbers;
  struct PairCount {
    uint64_t count = 0;
    uint64_t inclusive = 0;
  };
  std::vector<PairCount> pair_counts;
  GroupCounts group_counts;
  GroupCounts context_counts;  // by nodes of `contexts`
  // What weights need beside these. Most are inclusive: an instruction is in many of them.
  GroupCounts other_counts{5e-6};

  ThreadRuns by_thread;
  GroupCounts thread_counts{5e-6};  // by its pairs

  uint64_t instructions_read = 0;
  uint64_t samples = 0;
  uint64_t stacks_cut = 0;
  uint64_t returns_without_call = 0;
  uint64_t calls_too_deep = 0;
  uint64_t edges_without_target = 0;
  uint64_t corrupt_chunks = 0;

  static constexpr size_t kBatch = 512;
  std::vector<Event> events = std::vector<Event>(kBatch + 2);
  std::vector<Follow> event_follows = std::vector<Follow>(kBatch + 2);
  std::vector<uint32_t> event_slots = std::vector<uint32_t>(kBatch + 2);
  std::vector<uint32_t> picked_events = std::vector<uint32_t>(kBatch + 2);
};

}  // namespace shadowprof::collect
