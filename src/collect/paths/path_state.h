// SPDX-License-Identifier: MIT
//
// What PathCollector keeps while a trace is read.
#pragma once

#include <array>
#include <map>
#include <unordered_map>
#include <vector>

#include "collect/paths/path_automaton.h"
#include "collect/paths/path_collector.h"
#include "collect/paths/path_counts.h"
#include "collect/paths/path_runs.h"
#include "collect/paths/site_stack.h"
#include "collect/weights/group_counts.h"
#include "trace/special_record.h"

namespace shadowprof::collect {

// A list begins with the number of blocks of its first run that belong to the path before. One that
// ends within a run has a last element that says how many of its blocks are its own.
inline constexpr uint32_t kKeep = uint32_t{1} << 31;
static_assert(limits::kMaxRuns <= kKeep);

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
  // Where the automaton may soon go on.
  static constexpr size_t kFewRecords = 16;
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
  SiteStack sites;                 // 1 + call site of each frame
  uint32_t last_run = 0;
  Step last = Step::unknown;  // unknown: the next record begins a path
  // Where the path is in the automaton. While it is there, nothing above but the sites is of any
  // meaning.
  std::optional<PathAutomaton::Node> node;
};

// A part of a chunk that the automaton reads, with an end that it cannot miss, and which the
// program cannot change.
struct KnownBlock {
  static constexpr size_t kWords = 1024;
  std::array<trace::Word, kWords + PathCode::kMostWords> words;
};

struct PathSite {
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

// Whether the automaton is of use, and when it is left.
struct KnownUse {
  uint64_t blocks = 0;
  bool asks = false;  // the next batch is for asking where paths are entered from
  uint64_t entries = 0;
  uint64_t words = 0;  // that it followed since the last look
  uint64_t rests = 0;  // so many records more
  uint64_t seen = 0;   // words, by whomever
  uint64_t relearns_at = 0;
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
  void sample_began(uint64_t number);
  void look_at_counts();
  void on(Thread& thread, const trace::SampleStart& start);
  void on(Thread& thread, const trace::SampleEnd& end);
  void on(Thread& thread, trace::GapReason reason);
  template <bool kIdsOnly>
  bool take_record(Filling& now);
  template <bool kIdsOnly>
  const trace::Word* fill_batch(Step last, const trace::Word* at, const trace::Word* end,
                                size_t most);
  const trace::Word* follow_records(Flow& f, const trace::Word* at, const trace::Word* end);
  size_t follow_batch(Flow& f);
  size_t follow_loop(Flow& f, size_t i, size_t steps);
  void take_step(Flow& f, uint32_t at, uint32_t last_run, Step last);
  void take_turn(Flow& f, uint32_t at, uint32_t last_run);
  void enter_frame(Flow& f, uint32_t at);
  void leave_frame(Flow& f, uint32_t at);
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
  void count_slowly(const Flow& f, uint32_t at, uint64_t hash, uint32_t executions);

  // What is often executed (path_known.cc).
  const trace::Word* follow_known(Flow& f, const trace::Word* at, const trace::Word* end);
  bool turns_to_known(Flow& f, uint32_t at);
  void leave_known(Flow& f);
  void settle_known();
  void forget_known();
  void relearn();
  bool time_to_ask();

  void drop(Flow& f);
  void end_region(Flow& f);
  void begin_thread(Thread& thread);

  void fill_errors(const TableBuilder& builder, uint64_t executions,
                   profile::Tables& tables) const;
  std::vector<BlockId> blocks_of(std::span<const uint32_t> list, uint64_t& insns) const;

  static constexpr size_t kMaxDepth = 1 << 16;
  // A path's executions.
  static constexpr uint32_t kLooksEvery = 64;
  static constexpr size_t kMaxInterrupted = 64;

  const trace::BlockTable& table;
  const PathCollectorOptions options;
  PathRuns runs;
  Batch batch;
  size_t batch_most = Batch::kRecords;
  // Not with scope `intra`, or where memory may not be made executable.
  std::optional<PathAutomaton> known;
  KnownBlock known_block;
  KnownUse known_use;
  bool ids_only = true;  // no record with slots was seen yet
  PathCounts counts;
  std::map<Tid, Thread> threads;
  std::vector<PathSite> sites;
  std::unordered_map<uint64_t, uint32_t> site_by_address;
  GroupCounts group_counts;  // of lists
  uint64_t dropped = 0;
  uint64_t corrupt_chunks = 0;
};

}  // namespace shadowprof::collect
