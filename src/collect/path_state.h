// SPDX-License-Identifier: MIT
//
// What PathCollector keeps while a trace is read.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/path_collector.h"
#include "collect/path_trie.h"

namespace shadowprof::collect {

// What a run's exit means for the path it is on.
enum class Step : uint8_t {
  unknown,  // the run was not seen yet
  plain,    // the next block belongs to the path
  same,     // so does what comes next, and it is the same block
  back_edge,
  call,
  ret,
  indirect,  // a jump: the next record tells whether it was a back-edge
};

struct PathRun {
  uint64_t start;       // address of the first block
  uint32_t first_node;  // the list of this run alone; 0: not known
  uint32_t site;        // of a call: 1 + index into sites
  uint16_t words;
  uint8_t blocks;
  Step step;
};

// Lists begin at the root whose number says how many blocks of the first run belong to the path
// before. One that ends within a run has an element that says how many of its blocks are its own.
inline constexpr uint32_t kKeep = uint32_t{1} << 31;
static_assert(limits::kMaxRuns <= kKeep);

// What follows the block within its run is the same straight-line code.
inline bool continues_in_run(const trace::Block& block) {
  return block.terminator == trace::Terminator::none ||
         block.terminator == trace::Terminator::native;
}

// A path being made.
struct OpenPath {
  uint32_t node = 0;
  uint32_t blocks = 0;
  uint32_t from = 0;        // 1 + call site of the frame in which it began
  uint64_t entered = 0;     // it began with a call of this address
  bool whole = false;       // it began at a boundary that does not depend on where the trace began
  uint64_t returns_to = 0;  // intra: where the frame's call returns to
};

// What a signal handler interrupts.
struct Flow {
  std::vector<OpenPath> callers;  // intra: paths that go on when their calls have returned
  OpenPath path;
  std::vector<uint64_t> callees;  // entered by the path and not left
  std::vector<uint32_t> sites;    // 1 + call site of each frame
  uint32_t last_run = 0;
  Step last = Step::unknown;  // unknown: the next record begins a path
};

struct CallSite {
  GuestAddr call;
  GuestAddr returns_to;
  ModuleId module;
};

struct PathCollector::State {
  State(const trace::BlockTable& block_table, PathCollectorOptions collector_options);

  void consume(const trace::Chunk& chunk);
  void finish(profile::Profile& into);

  struct Thread {
    Flow flow;
    std::vector<Flow> interrupted;
    bool started = false;
  };

  void start_run(RunId id);
  Step step_of(const trace::Run& run, const trace::Block& last) const;
  bool special(Thread*& thread, std::span<const trace::Word> record);
  const trace::Word* follow(Flow& f, const trace::Word* at, const trace::Word* end);
  void record(Flow& f, uint32_t id, PathRun& run);
  void take_step(Flow& f, const PathRun& next);
  void enter(Flow& f, const PathRun& callee);
  void leave(Flow& f, const PathRun& next);
  void append(Flow& f, uint32_t id, PathRun& run, uint32_t blocks);
  void append_across_limit(Flow& f, uint32_t id, PathRun& run, uint32_t blocks);
  void begin_path(Flow& f, bool whole, uint32_t skip = 0);
  void end_path(Flow& f, bool synchronises, uint32_t keep = 0);
  void drop(Flow& f);
  void prune();
  bool is_back_edge(uint32_t run, uint64_t to) const;
  void begin_thread(Thread& thread);

  std::vector<BlockId> blocks_of(std::span<const uint32_t> list, uint64_t& insns) const;

  static constexpr size_t kMaxDepth = 1 << 16;
  static constexpr size_t kMaxInterrupted = 64;

  const trace::BlockTable& table;
  const PathCollectorOptions options;
  ReservedArray<PathRun> runs;
  PathTrie trie;
  std::map<Tid, Thread> threads;
  std::vector<CallSite> sites;
  std::unordered_map<uint64_t, uint32_t> site_by_address;
  uint64_t dropped = 0;
  uint64_t corrupt_chunks = 0;
};

}  // namespace shadowprof::collect
