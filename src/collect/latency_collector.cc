// SPDX-License-Identifier: MIT
#include "collect/latency_collector.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/table_builder.h"
#include "decoder/insn.h"

namespace shadowprof::collect {

using profile::AddressKind;
using trace::SlotKind;
using trace::Word;

namespace {

constexpr uint64_t kNearStack = uint64_t{1} << 20;
constexpr uint16_t kNoWord = 0;  // word 0 is the run's id

struct LoadEntry {
  ModuleId module;
  GuestAddr address;
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
  uint16_t cycles_word;
  uint16_t base_word;  // kNoWord: no register, it is part of `fixed`
  uint16_t index_word;
  uint8_t scale;
  bool known;     // the address is what the words and `fixed` add up to
  bool on_stack;  // the base is rsp
  uint64_t fixed;
};

struct RunLoads {
  uint64_t executions;
  uint32_t words;  // 0: not seen yet
  uint32_t first;
  uint32_t count;
};

uint64_t value_at(const Word* words, uint16_t word) {
  uint64_t value;
  __builtin_memcpy(&value, words + word, sizeof(value));
  return value;
}

}  // namespace

struct LatencyCollector::State {
  State(const trace::BlockTable& block_table, const profile::LatencyCalibration& c)
      : table(block_table), calibration(c), runs(limits::kMaxRuns) {}

  void consume(const trace::Chunk& chunk);
  void finish(profile::Profile& into);
  void start_run(RunId id);
  void plan_insn(const decoder::Insn& insn, const trace::Block& block,
                 std::span<const trace::Slot> slots, size_t first, size_t end,
                 std::array<uint16_t, 16>& recorded);
  void time(const LoadPlan& load, const Word* words);
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
  const Word* at = chunk.words.data();
  const Word* const end = at + chunk.words.size();
  while (at < end) {
    const auto left = static_cast<size_t>(end - at);
    if (trace::is_special(*at)) {
      const size_t length = trace::special_length(*at);
      if (length == 0 || length > left) break;
      if (trace::special_kind(*at) == trace::SpecialKind::sample_start) {
        touched.clear();
        lately.fill(0);
      }
      at += length;
      continue;
    }
    if (*at >= limits::kMaxRuns) break;
    RunLoads& run = runs[*at];
    if (run.words == 0) start_run(RunId(*at));
    if (run.words == 0 || run.words > left) break;
    run.executions++;
    for (uint32_t i = 0; i < run.count; i++) time(loads[run.first + i], at);
    at += run.words;
  }
  corrupt_chunks += at == end ? 0 : 1;
}

// Which registers a record holds at each instruction is what the translator decided: a register
// that is in a slot already, and that was not written since, has no second one.
void LatencyCollector::State::start_run(RunId id) {
  const trace::Run& run = table.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  RunLoads& own = runs[id.value];
  own.first = static_cast<uint32_t>(loads.size());
  own.words = run.words;
  const auto slots = table.slots(run);
  std::array<uint16_t, 16> recorded{};  // word of each register, or kNoWord
  size_t slot = 0;
  uint32_t index = 0;
  for (const BlockId b : table.blocks(run)) {
    const trace::Block& block = table.block(b);
    const auto code = table.code(block);
    size_t at = 0;
    for (uint32_t i = 0; i < block.insns && index < run.insns && at < code.size(); i++, index++) {
      const decoder::Insn insn = decoder::decode(code.subspan(at), block.start + at);
      at += std::max<size_t>(insn.length, 1);
      const size_t first = slot;
      while (slot < slots.size() && slots[slot].insn == index) slot++;
      plan_insn(insn, block, slots, first, slot, recorded);
    }
  }
  own.count = static_cast<uint32_t>(loads.size() - own.first);
}

void LatencyCollector::State::plan_insn(const decoder::Insn& insn, const trace::Block& block,
                                        std::span<const trace::Slot> slots, size_t first,
                                        size_t end, std::array<uint16_t, 16>& recorded) {
  const auto word = [](size_t slot) { return static_cast<uint16_t>(1 + 2 * slot); };
  for (size_t s = first; s < end; s++)
    if (slots[s].kind == SlotKind::base || slots[s].kind == SlotKind::index)
      recorded[slots[s].reg] = word(s);
  const auto timed = std::find_if(
      slots.begin() + static_cast<ptrdiff_t>(first), slots.begin() + static_cast<ptrdiff_t>(end),
      [](const trace::Slot& s) { return s.kind == SlotKind::load_cycles; });
  if (timed != slots.begin() + static_cast<ptrdiff_t>(end) && insn.access_count != 0) {
    const decoder::MemoryAccess& a = insn.accesses[0];
    LoadPlan load{};
    LoadEntry*& entry = by_address[insn.address.value];
    if (entry == nullptr) {
      entry = &entries.emplace_back();
      entry->module = block.module;
      entry->address = insn.address;
    }
    load.entry = entry;
    load.cycles_word = word(static_cast<size_t>(timed - slots.begin()));
    load.fixed =
        a.base == decoder::kRip ? insn.rip_target.value : static_cast<uint64_t>(a.displacement);
    load.scale = a.scale;
    load.known = !insn.has_segment;
    if (a.base < 16) load.known &= (load.base_word = recorded[a.base]) != kNoWord;
    if (a.index < 16) load.known &= (load.index_word = recorded[a.index]) != kNoWord;
    load.on_stack = a.base == decoder::kRsp;
    loads.push_back(load);
  }
  for (size_t r = 0; r < recorded.size(); r++)
    if (insn.writes >> r & 1) recorded[r] = kNoWord;
  for (size_t s = first; s < end; s++)
    if (slots[s].kind == SlotKind::value) recorded[slots[s].reg] = word(s);
}

bool LatencyCollector::State::first_touch(uint64_t page) {
  uint64_t& late = lately[page & (lately.size() - 1)];
  if (late == page + 1) return false;
  late = page + 1;
  return touched.insert(page).second;
}

AddressKind LatencyCollector::State::kind_of(const LoadPlan& load, uint64_t address) {
  if (load.on_stack) stack = address;
  if (load.on_stack || address - stack + kNearStack / 16 < kNearStack) return AddressKind::stack;
  const trace::Module& own = table.module(load.entry->module);
  const bool fixed = (load.base_word == kNoWord && load.index_word == kNoWord) ||
                     own.range.contains(GuestAddr(address));
  return fixed ? AddressKind::fixed : AddressKind::heap;
}

void LatencyCollector::State::time(const LoadPlan& load, const Word* words) {
  LoadEntry& e = *load.entry;
  AddressKind kind = AddressKind::unknown;
  if (load.known) {
    uint64_t address = load.fixed;
    if (load.base_word != kNoWord) address += value_at(words, load.base_word);
    if (load.index_word != kNoWord) address += value_at(words, load.index_word) * load.scale;
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
    // A vote's winner need not have a majority; what has not is no stride.
    if (2 * e.strided > e.timed) {
      row.stride = e.stride;
      row.strided = e.strided;
    }
    for (uint32_t b = 0; b < e.buckets.size(); b++)
      if (e.buckets[b] != 0) row.histogram.push_back({b, e.buckets[b]});
    mine.tables.latencies.push_back(std::move(row));
  }
  into.run.host.latency = calibration;
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_latency_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
