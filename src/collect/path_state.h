// SPDX-License-Identifier: MIT
//
// What PathCollector keeps while a trace is read.
#pragma once

#include <array>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/group_counts.h"
#include "collect/path_collector.h"
#include "collect/path_counts.h"

namespace shadowprof::collect {

// What a run's exit means for the path it is on.
enum class Step : uint8_t {
  unknown,
  plain,  // the next block belongs to the path
  same,   // so does what comes next, and it is the same block
  back_edge,
  call,
  ret,
  indirect,  // a jump: the next record tells whether it was a back-edge
};

struct alignas(32) PathRun {
  uint64_t start;  // address of the first block
  uint64_t mix;    // what it adds to the hash of a path
  uint32_t site;   // of a call: 1 + index into sites; of an indirect jump: index into jumps
  uint16_t words;  // 0: not seen yet
  uint8_t blocks;
  Step step;
  uint8_t joins;  // 1: its last block goes on in the next run's first (Step::same)
  uint8_t steps;  // 1: what its exit means has to be looked at
};

// A list begins with the number of blocks of its first run that belong to the path before. One that
// ends within a run has a last element that says how many of its blocks are its own.
inline constexpr uint32_t kKeep = uint32_t{1} << 31;
static_assert(limits::kMaxRuns <= kKeep);

// The hash of a list: a polynomial of its elements' mixes.
constexpr uint64_t mix_of(uint32_t element) {
  uint64_t z = (element + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}
inline constexpr uint64_t kHashFactor = 0xD6E8FEB86659FD93ull;
constexpr uint64_t extend_hash(uint64_t hash, uint64_t mix) {
  return hash * kHashFactor + mix;
}

// What follows the block within its run is the same straight-line code.
inline bool continues_in_run(const trace::Block& block) {
  return block.terminator == trace::Terminator::none ||
         block.terminator == trace::Terminator::native;
}

// A path being made: its list is `skip`, the end of Flow::elements, and then the batch's runs from
// `since` on, of which its hash and its number of blocks do not know yet.
struct OpenPath {
  uint64_t hash = 0;
  size_t first = 0;  // index of its list's first element
  size_t end = 0;
  uint32_t blocks = 0;
  uint32_t since = 0;
  uint32_t skip = 0;
  uint32_t from = 0;        // 1 + call site of the frame in which it began
  uint64_t entered = 0;     // it began with a call of this address
  bool whole = false;       // it began at a boundary that does not depend on where the trace began
  uint64_t returns_to = 0;  // intra: where the frame's call returns to
};

// Records that follow one another. The hash of any list of them follows from those of the lists
// from the first to each of them, so a path costs the same however long it is, and what a record
// means for its path is only looked at where it means anything.
struct Batch {
  static constexpr size_t kRecords = 512;
  size_t size = 0;
  size_t steps = 0;
  struct Before {  // a record, or at last the end
    uint64_t hash;
    uint64_t blocks;
  };
  std::array<Before, kRecords + 1> before;
  std::array<uint32_t, kRecords> runs;         // a copy: the program can write to the trace
  std::array<uint32_t, kRecords + 1> step_at;  // records with PathRun::steps
  std::array<uint64_t, kRecords + 1> factor;   // powers of kHashFactor
};

// What a signal handler interrupts.
struct Flow {
  std::vector<OpenPath> callers;  // intra: paths that go on when their calls have returned
  OpenPath path;
  std::vector<uint32_t> elements;  // the lists of callers and path, one after the other
  std::vector<uint64_t> callees;   // entered by the path and not left
  std::vector<uint32_t> sites;     // 1 + call site of each frame
  uint32_t last_run = 0;
  Step last = Step::unknown;  // unknown: the next record begins a path
};

struct CallSite {
  GuestAddr call;
  GuestAddr returns_to;
  ModuleId module;
};

// The state of the pass over a batch, in registers.
struct Filling {
  const trace::Word* at;
  const trace::Word* end;
  const PathRun* runs;
  Batch::Before* last;
  uint32_t* step;  // the next element of step_at
  Batch::Before sum;
  uint64_t joins;
  uint32_t size;
};

// Of a run that ends in an indirect jump: what its target is compared with.
struct IndirectJump {
  uint64_t from;
  GuestRange module;
};

class TableBuilder;

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
  template <bool kIdsOnly>
  bool take_record(Filling& now);
  template <bool kIdsOnly>
  const trace::Word* fill_batch(Step last, const trace::Word* at, const trace::Word* end);
  void follow_batch(Flow& f);
  size_t follow_loop(Flow& f, size_t i, size_t steps);
  void take_step(Flow& f, uint32_t at, uint32_t last_run, Step last);
  void enter(Flow& f, uint32_t at, uint32_t last_run);
  void leave(Flow& f, uint32_t at);
  void append(Flow& f, uint32_t element);
  void settle(Flow& f, uint32_t at);
  void keep_limit(Flow& f, uint32_t at) {
    if (blocks_at(f.path, at) > kMaxPathBlocks) [[unlikely]]
      split_at_limit(f, at);
  }
  void split_at_limit(Flow& f, uint32_t at);
  uint32_t blocks_at(const OpenPath& path, uint32_t at) const {
    return path.blocks +
           static_cast<uint32_t>(batch.before[at].blocks - batch.before[path.since].blocks);
  }
  uint64_t hash_at(const OpenPath& path, uint32_t at) const {
    return (path.hash - batch.before[path.since].hash) * batch.factor[at - path.since] +
           batch.before[at].hash;
  }
  void begin_path(Flow& f, uint32_t at, bool whole, uint32_t skip = 0);
  void end_path(Flow& f, uint32_t at, bool synchronises);
  void add_path(const Flow& f, uint32_t at, uint64_t hash);
  void drop(Flow& f);
  bool is_back_edge(uint32_t run, uint64_t to) const {
    const IndirectJump& jump = jumps[runs[run].site];
    return to <= jump.from && jump.module.contains(GuestAddr(to));
  }
  void begin_thread(Thread& thread);

  void fill_errors(const TableBuilder& builder, profile::Tables& tables) const;
  std::vector<BlockId> blocks_of(std::span<const uint32_t> list, uint64_t& insns) const;

  static constexpr size_t kMaxDepth = 1 << 16;
  static constexpr size_t kMaxInterrupted = 64;

  const trace::BlockTable& table;
  const PathCollectorOptions options;
  ReservedArray<PathRun> runs;
  Batch batch;
  bool ids_only = true;  // no record with slots was seen yet
  PathCounts counts;
  std::map<Tid, Thread> threads;
  std::vector<CallSite> sites;
  std::vector<IndirectJump> jumps;
  std::unordered_map<uint64_t, uint32_t> site_by_address;
  GroupCounts group_counts;  // of lists
  uint64_t dropped = 0;
  uint64_t corrupt_chunks = 0;
};

}  // namespace shadowprof::collect
