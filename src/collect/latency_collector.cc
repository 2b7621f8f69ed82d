// SPDX-License-Identifier: MIT
#include "collect/latency_collector.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/data_places.h"
#include "collect/recorded_words.h"
#include "collect/table_builder.h"
#include "decoder/insn.h"

namespace shadowprof::collect {

using profile::AddressKind;
using trace::SlotKind;
using trace::Word;

namespace {

constexpr uint64_t kNearStack = uint64_t{1} << 20;
// Pages (or values) of each class that are kept: counting samples, so the hottest are among them.
constexpr uint32_t kPairsKept = 512;

struct LoadEntry {
  ModuleId module;
  GuestAddr address;
  uint8_t bits = 64;  // of the register that it loads
  uint64_t executions = 0;
  uint64_t timed = 0;
  uint64_t first_touches = 0;
  uint64_t cycles = 0;
  std::array<uint64_t, profile::kLatencyClasses> classes{};
  std::array<uint64_t, profile::kAddressKinds> kinds{};
  std::array<uint64_t, profile::kLatencyBuckets> buckets{};
  uint64_t last = 0;   // address; 0: none yet
  int64_t stride = 0;  // majority vote
  uint64_t votes = 0;
  uint64_t strided = 0;
};

// One timed load of a run.
struct LoadPlan {
  LoadEntry* entry;
  AddressPlan where;
  uint16_t cycles_word;
  uint16_t value_word;
};

struct RunLoads {
  uint64_t executions;
  uint32_t words;  // 0: not seen yet
  uint32_t first;
  uint32_t count;
};

}  // namespace

struct LatencyCollector::State {
  State(const trace::BlockTable& block_table, const profile::LatencyCalibration& c)
      : table(block_table), calibration(c), runs(limits::kMaxRuns) {}

  void consume(const trace::Chunk& chunk);
  void finish(profile::Profile& into);
  void start_run(RunId id);
  void plan_load(const decoder::Insn& insn, const trace::Block& block,
                 const RecordedWords& recorded);
  void time(const LoadPlan& load, const Word* words);
  void note_pairs(const LoadPlan& load, profile::LatencyClass level, uint64_t address,
                  const Word* words);
  void add_pairs(const TableBuilder& builder, profile::Profile& out) const;
  AddressKind kind_of(const LoadPlan& load, uint64_t address);
  bool first_touch(uint64_t page);

  const trace::BlockTable& table;
  const profile::LatencyCalibration calibration;
  ReservedArray<RunLoads> runs;
  std::vector<LoadPlan> loads;
  std::deque<LoadEntry> entries;
  std::unordered_map<uint64_t, LoadEntry*> by_address;
  std::unordered_set<uint64_t> touched;
  std::array<uint64_t, 4096> lately{};  // pages of `touched`, for speed
  uint64_t stack = 0;                   // rsp as last captured
  // By class: the pages that such loads went to, and what they got.
  std::array<profile::ValueHotlist, profile::kLatencyClasses> pages;
  std::array<profile::ValueHotlist, profile::kLatencyClasses> values;
  std::array<uint64_t, profile::kLatencyClasses> paged{};   // of known address
  std::array<uint64_t, profile::kLatencyClasses> valued{};  // of known result
  profile::Random random{1};
  uint64_t corrupt_chunks = 0;
};

LatencyCollector::LatencyCollector(const trace::BlockTable& table,
                                   const profile::LatencyCalibration& calibration)
    : state_(std::make_unique<State>(table, calibration)) {}
LatencyCollector::~LatencyCollector() = default;
void LatencyCollector::consume(const trace::Chunk& chunk) {
  state_->consume(chunk);
}
void LatencyCollector::finish(profile::Profile& into) {
  state_->finish(into);
}

void LatencyCollector::State::consume(const trace::Chunk& chunk) {
  const auto forget_pages = [this](trace::SpecialKind kind) {
    if (kind != trace::SpecialKind::sample_start) return;
    touched.clear();
    lately.fill(0);
  };
  const bool whole = for_each_run(
      chunk, runs, [this](RunId id) { start_run(id); }, forget_pages,
      [this](const RunLoads& run, const Word* words) {
        for (uint32_t i = 0; i < run.count; i++) time(loads[run.first + i], words);
      });
  corrupt_chunks += whole ? 0 : 1;
}

void LatencyCollector::State::start_run(RunId id) {
  const trace::Run& run = table.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  RunLoads& own = runs[id.value];
  own.first = static_cast<uint32_t>(loads.size());
  own.words = run.words;
  for_each_insn(
      table, run, [&](const trace::Block& block, const decoder::Insn& insn, RecordedWords& recorded) {
        const bool timed = recorded.cycles != kNoWord && insn.access_count != 0;
        if (timed) plan_load(insn, block, recorded);
        recorded.leave(insn, [&](const trace::Slot& slot, uint16_t word) {
          if (timed && slot.reg == insn.result) loads.back().value_word = word;
        });
      });
  own.count = static_cast<uint32_t>(loads.size() - own.first);
}

void LatencyCollector::State::plan_load(const decoder::Insn& insn, const trace::Block& block,
                                        const RecordedWords& recorded) {
  LoadEntry*& entry = by_address[insn.address.value];
  if (entry == nullptr) {
    entry = &entries.emplace_back();
    entry->module = block.module;
    entry->address = insn.address;
    entry->bits = std::clamp<uint8_t>(insn.result_bits, 1, 64);
  }
  loads.push_back({entry, recorded.address(insn, insn.accesses[0]), recorded.cycles, kNoWord});
}

bool LatencyCollector::State::first_touch(uint64_t page) {
  uint64_t& late = lately[page & (lately.size() - 1)];
  if (late == page + 1) return false;
  late = page + 1;
  return touched.insert(page).second;
}

AddressKind LatencyCollector::State::kind_of(const LoadPlan& load, uint64_t address) {
  const AddressPlan& where = load.where;
  if (where.on_stack) stack = address;
  if (where.on_stack || address - stack + kNearStack / 16 < kNearStack) return AddressKind::stack;
  const trace::Module& own = table.module(load.entry->module);
  const bool fixed = (where.base_word == kNoWord && where.index_word == kNoWord) ||
                     own.image.contains(GuestAddr(address));
  return fixed ? AddressKind::fixed : AddressKind::heap;
}

void LatencyCollector::State::time(const LoadPlan& load, const Word* words) {
  LoadEntry& e = *load.entry;
  AddressKind kind = AddressKind::unknown;
  uint64_t address = 0;
  if (load.where.known) {
    address = load.where.at(words);
    kind = kind_of(load, address);
    if (e.last != 0) {
      const auto stride = static_cast<int64_t>(address - e.last);
      if (stride == e.stride) {
        e.votes++;
        e.strided++;
      } else if (e.votes == 0) {
        e.stride = stride;
        e.votes = e.strided = 1;
      } else {
        e.votes--;
      }
    }
    e.last = address;
    if (first_touch(address / limits::kPageBytes)) {
      e.first_touches++;
      return;
    }
  }
  const Word elapsed = words[load.cycles_word + 1] - words[load.cycles_word];
  const double cycles = std::max(0.0, static_cast<double>(elapsed) - calibration.overhead);
  const auto whole = static_cast<uint64_t>(cycles);
  const profile::LatencyClass level = calibration.class_of(cycles);
  e.timed++;
  if (level != profile::LatencyClass::beyond) e.cycles += whole;
  e.classes[static_cast<size_t>(level)]++;
  e.kinds[static_cast<size_t>(kind)]++;
  e.buckets[profile::latency_bucket(whole)]++;
  if (level != profile::LatencyClass::l1) note_pairs(load, level, address, words);
}

void LatencyCollector::State::note_pairs(const LoadPlan& load, profile::LatencyClass level,
                                         uint64_t address, const Word* words) {
  const auto c = static_cast<size_t>(level);
  const auto note = [&](profile::ValueHotlist& list, uint64_t& all, uint64_t what) {
    list.add(what, 1, profile::HotlistKind::counting_sample, kPairsKept, random);
    all++;
  };
  if (load.where.known) note(pages[c], paged[c], address / limits::kPageBytes);
  if (load.value_word == kNoWord) return;
  const unsigned unused = 64u - load.entry->bits;
  note(values[c], valued[c], value_at(words, load.value_word) << unused >> unused);
}

// Pages are named by the file that they are of, if it is one that code was mapped from.
void LatencyCollector::State::add_pairs(const TableBuilder& builder, profile::Profile& out) const {
  const DataPlaces places(table, builder);
  for (size_t c = 0; c < profile::kLatencyClasses; c++) {
    const auto level = static_cast<profile::LatencyClass>(c);
    for (const profile::ValueCount& page : pages[c].top(paged[c]))
      out.tables.latency_pages.push_back(
          {level, places.of(GuestAddr(page.value * limits::kPageBytes)), page.count});
    for (const profile::ValueCount& value : values[c].top(valued[c]))
      out.tables.latency_values.push_back({level, value.value, value.count});
  }
}

void LatencyCollector::State::finish(profile::Profile& into) {
  for (size_t id = 0; id < table.run_count(); id++)
    for (uint32_t i = 0; i < runs[id].count; i++)
      loads[runs[id].first + i].entry->executions += runs[id].executions;
  profile::Profile mine;
  const TableBuilder builder(table, mine);
  for (const LoadEntry& e : entries) {
    if (e.executions == 0) continue;
    profile::LatencyRow row;
    row.at = builder.at(e.address, e.module);
    row.executions = e.executions;
    row.timed = e.timed;
    row.first_touches = e.first_touches;
    row.cycles = e.cycles;
    row.classes = e.classes;
    row.kind = static_cast<AddressKind>(std::max_element(e.kinds.begin(), e.kinds.end()) -
                                        e.kinds.begin());
    row.kind_timed = e.timed;
    // A vote's winner need not have a majority; what has not is no stride.
    if (2 * e.strided > e.timed) {
      row.stride = e.stride;
      row.strided = e.strided;
    }
    for (uint32_t b = 0; b < e.buckets.size(); b++)
      if (e.buckets[b] != 0) row.histogram.push_back({b, e.buckets[b]});
    mine.tables.latencies.push_back(std::move(row));
  }
  add_pairs(builder, mine);
  into.run.host.latency = calibration;
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_latency_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
