// SPDX-License-Identifier: MIT
#include "collect/loads/address_collector.h"

#include <algorithm>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/loads/data_places.h"
#include "collect/loads/line_code.h"
#include "collect/loads/line_counts.h"
#include "collect/recorded_words.h"
#include "collect/table_builder.h"

namespace shadowprof::collect {

using trace::Word;

namespace {

// Rows of the file's table.
constexpr size_t kMostRows = 50'000;
// What has been executed so often is worth code that counts it.
constexpr uint16_t kLooks = 64;

// Accesses that always go to the same place: as often as their run executes.
struct FixedAccess {
  RunId run;
  uint64_t line;
  bool loads;
  bool stores;
};

struct RunAccesses {
  uint64_t executions;
  uint32_t words;  // 0: not seen yet
  uint32_t first;  // of `accesses`
  uint16_t size;
  uint16_t known;  // how many they stand for
  uint16_t unknown;
  uint16_t looks;  // executions that were counted here, until it is worth code of its own
};

}  // namespace

struct AddressCollector::State {
  State(const trace::BlockTable& block_table, const std::vector<uint64_t>* executions)
      : table(block_table), counted(executions), runs(limits::kMaxRuns) {
    runs.prefer_huge_pages();
  }

  void consume(const trace::Chunk& chunk);
  void finish(profile::Profile& into);
  void count(RunId id, RunAccesses& run, const Word* record);
  void start_run(RunId id);
  void arrange_accesses(RunAccesses& run);
  void plan_access(const AddressPlan& where, const decoder::MemoryAccess& a);

  uint64_t executions_of(size_t run) const { return collect::executions_of(run, counted, runs); }

  const trace::BlockTable& table;
  const std::vector<uint64_t>* const counted;
  ReservedArray<RunAccesses> runs;
  std::vector<LineAccess> accesses;
  std::vector<FixedAccess> fixed_accesses;
  LineCounts lines;
  LineCode code{lines};
  uint64_t unsettled = 0;  // accesses counted since lines.settle()
  uint64_t corrupt_chunks = 0;
};

AddressCollector::AddressCollector(const trace::BlockTable& table,
                                   const std::vector<uint64_t>* executions)
    : state_(std::make_unique<State>(table, executions)) {}
AddressCollector::~AddressCollector() = default;
void AddressCollector::consume(const trace::Chunk& chunk) {
  state_->consume(chunk);
}
void AddressCollector::finish(profile::Profile& into) {
  state_->finish(into);
}

void AddressCollector::State::consume(const trace::Chunk& chunk) {
  const Word* at = chunk.words.data();
  const Word* const end = at + chunk.words.size();
  const Word* const limit = end - std::min(chunk.words.size(), limits::kMaxRecordWords);
  while (at < end) {
    const LineCode::Progress counted_by_code = code.count(at, limit);
    at = counted_by_code.at;
    unsettled += counted_by_code.accesses;
    const size_t words = take_record(
        at, end, runs, [this](RunId id) { start_run(id); }, [](const auto&) {},
        [this](RunId id, RunAccesses& run, const Word* record) { count(id, run, record); });
    if (words == 0) {
      corrupt_chunks++;
      break;
    }
    at += words;
  }
  // The next chunk's accesses are fewer than what is left: a word stands for a hundred at most.
  if (unsettled < LineCounts::kMostUnsettled / 2) return;
  lines.settle();
  unsettled = 0;
}

void AddressCollector::State::count(RunId id, RunAccesses& run, const Word* record) {
  const auto own = std::span(accesses).subspan(run.first, run.size);
  for (const LineAccess& a : own) lines.add(a.address(record), a.what);
  unsettled += run.known;
  if (run.looks > kLooks || run.looks++ < kLooks) return;
  code.add(id, run.words, own, run.known, counted ? nullptr : &run.executions);
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
      if (!where.known) {
        own.unknown++;
      } else if (where.base_word == kNoWord && where.index_word == kNoWord) {
        fixed_accesses.push_back({id, where.fixed / profile::kCacheLineBytes, a.read, a.write});
      } else {
        plan_access(where, a);
      }
    }
    r.leave(insn);
  });
  arrange_accesses(own);
}

// Those to the same place become one.
void AddressCollector::State::arrange_accesses(RunAccesses& run) {
  const auto own = std::span(accesses).subspan(run.first);
  run.known = static_cast<uint16_t>(own.size());
  std::ranges::sort(own, {}, &LineAccess::place);
  size_t kept = 0;
  for (const LineAccess& a : own) {
    if (kept != 0 && own[kept - 1].place() == a.place()) {
      own[kept - 1].what += a.what;
    } else {
      own[kept++] = a;
    }
  }
  accesses.resize(run.first + kept);
  run.size = static_cast<uint16_t>(kept);
}

void AddressCollector::State::plan_access(const AddressPlan& where,
                                          const decoder::MemoryAccess& a) {
  const uint64_t what = (a.read ? kOneLoad : 0) + (a.write ? kOneStore : 0);
  LineAccess access{where.fixed, what, where.base_word, where.index_word, where.scale};
  if (where.index_word == kNoWord) {
    access.index_word = access.base_word;
    access.index_scale = 0;
  }
  if (where.base_word == kNoWord) {
    access.base_word = where.index_word;
    access.index_scale--;
  }
  accesses.push_back(access);
}

void AddressCollector::State::finish(profile::Profile& into) {
  // What captures nothing may be in no record.
  for (size_t id = 0; id < table.run_count(); id++)
    if (runs[id].words == 0 && executions_of(id) != 0) start_run(RunId(static_cast<uint32_t>(id)));
  for (const FixedAccess& a : fixed_accesses) {
    const uint64_t times = executions_of(a.run.value);
    if (times == 0) continue;
    lines.add({a.line, a.loads ? times : 0, a.stores ? times : 0});
  }
  profile::AccessCounts counts{true, lines.accesses(), lines.size(), 0, 0, 0};
  profile::Profile mine;
  const TableBuilder builder(table, mine);
  const DataPlaces places(table, builder);
  for (const LineCounts::Line& l : lines.hottest(kMostRows)) {
    mine.tables.cache_lines.push_back(
        {places.of(GuestAddr(l.line * profile::kCacheLineBytes)), l.loads, l.stores});
  }
  counts.pruned = lines.pruned();
  counts.error_bound = lines.error_bound();
  for (size_t id = 0; id < table.run_count(); id++)
    counts.unknown += executions_of(id) * runs[id].unknown;
  mine.coverage.accesses = counts;
  profile::normalise(mine.tables);
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_address_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
