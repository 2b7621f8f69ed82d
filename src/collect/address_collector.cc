// SPDX-License-Identifier: MIT
#include "collect/address_collector.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/data_places.h"
#include "collect/line_counts.h"
#include "collect/recorded_words.h"
#include "collect/table_builder.h"

namespace shadowprof::collect {

using trace::Word;

namespace {

// Rows of the file's table.
constexpr size_t kMostRows = 50'000;

// One access of a run through registers, and the line where it was last. A register that it does
// not have is any of the record's, times 0: no branch depends on which access it is.
struct Access {
  uint64_t fixed;
  uint64_t line;
  uint32_t times;  // that `line` came in a row, not in the table yet
  uint16_t base_word;
  uint16_t index_word;
  uint8_t base_scale;
  uint8_t index_scale;
  bool loads;
  bool stores;

  uint64_t line_now(const Word* words) const {
    return (fixed + value_at(words, base_word) * base_scale +
            value_at(words, index_word) * index_scale) /
           profile::kCacheLineBytes;
  }
};

// An access that always goes to the same place: as often as its run executes.
struct FixedAccess {
  RunId run;
  uint64_t line;
  bool loads;
  bool stores;
};

struct RunAccesses {
  uint64_t executions;
  uint32_t words;  // 0: not seen yet
  uint32_t first;
  uint32_t count;
  uint32_t unknown;
};

}  // namespace

struct AddressCollector::State {
  explicit State(const trace::BlockTable& block_table)
      : table(block_table), runs(limits::kMaxRuns) {
    // Runs are looked up at random; fewer TLB misses. Only a hint, so failure is no error.
    ::madvise(runs.data(), runs.capacity() * sizeof(RunAccesses), MADV_HUGEPAGE);
  }

  void consume(const trace::Chunk& chunk);
  void finish(profile::Profile& into);
  void start_run(RunId id);
  void plan_access(RunId id, const AddressPlan& where, const decoder::MemoryAccess& a);
  void count(uint64_t line, bool loads, bool stores, uint64_t times) {
    if (times != 0) lines.add(line, loads ? times : 0, stores ? times : 0);
  }

  const trace::BlockTable& table;
  ReservedArray<RunAccesses> runs;
  std::vector<Access> accesses;
  std::vector<FixedAccess> fixed_accesses;
  LineCounts lines;
  uint64_t corrupt_chunks = 0;
};

AddressCollector::AddressCollector(const trace::BlockTable& table)
    : state_(std::make_unique<State>(table)) {}
AddressCollector::~AddressCollector() = default;
void AddressCollector::consume(const trace::Chunk& chunk) {
  state_->consume(chunk);
}
void AddressCollector::finish(profile::Profile& into) {
  state_->finish(into);
}

void AddressCollector::State::consume(const trace::Chunk& chunk) {
  const bool whole = for_each_run(
      chunk, runs, [this](RunId id) { start_run(id); }, [](trace::SpecialKind) {},
      [this](const RunAccesses& run, const Word* words) {
        Access* access = accesses.data() + run.first;
        for (Access* const last = access + run.count; access != last; access++) {
          const uint64_t line = access->line_now(words);
          if (line != access->line || access->times == UINT32_MAX) {
            count(access->line, access->loads, access->stores, access->times);
            access->line = line;
            access->times = 0;
          }
          access->times++;
        }
      });
  corrupt_chunks += whole ? 0 : 1;
}

void AddressCollector::State::start_run(RunId id) {
  const trace::Run& run = table.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  RunAccesses& own = runs[id.value];
  own.first = static_cast<uint32_t>(accesses.size());
  own.words = run.words;
  for_each_insn(table, run, [&](const trace::Block&, const decoder::Insn& insn, RecordedWords& r) {
    for (const decoder::MemoryAccess& a : std::span(insn.accesses).first(insn.access_count)) {
      const AddressPlan where = r.address(insn, a);
      if (where.known) {
        plan_access(id, where, a);
      } else {
        own.unknown++;
      }
    }
    r.leave(insn.writes);
  });
  own.count = static_cast<uint32_t>(accesses.size() - own.first);
}

void AddressCollector::State::plan_access(RunId id, const AddressPlan& where,
                                          const decoder::MemoryAccess& a) {
  const bool has_base = where.base_word != kNoWord, has_index = where.index_word != kNoWord;
  if (!has_base && !has_index) {
    fixed_accesses.push_back({id, where.fixed / profile::kCacheLineBytes, a.read, a.write});
    return;
  }
  Access access{};
  access.fixed = where.fixed;
  access.base_word = has_base ? where.base_word : where.index_word;
  access.index_word = has_index ? where.index_word : where.base_word;
  access.base_scale = has_base ? 1 : 0;
  access.index_scale = has_index ? where.scale : uint8_t{0};
  access.loads = a.read;
  access.stores = a.write;
  accesses.push_back(access);
}

void AddressCollector::State::finish(profile::Profile& into) {
  for (const Access& a : accesses) count(a.line, a.loads, a.stores, a.times);
  for (const FixedAccess& a : fixed_accesses)
    count(a.line, a.loads, a.stores, runs[a.run.value].executions);
  profile::Profile mine;
  const TableBuilder builder(table, mine);
  const DataPlaces places(table, builder);
  lines.for_each([&](uint64_t line, uint64_t loads, uint64_t stores) {
    mine.tables.cache_lines.push_back(
        {places.of(GuestAddr(line * profile::kCacheLineBytes)), loads, stores});
  });
  uint64_t unknown = 0;
  for (size_t id = 0; id < table.run_count(); id++)
    unknown += runs[id].executions * runs[id].unknown;
  mine.coverage.accesses = {true,           lines.accesses(),    lines.size(),
                            lines.pruned(), lines.error_bound(), unknown};
  profile::normalise(mine.tables);
  profile::keep_hottest_lines(mine, kMostRows);
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_address_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
