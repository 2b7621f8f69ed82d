// SPDX-License-Identifier: MIT
#include "collect/loads/latency_collector.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/loads/data_places.h"
#include "collect/loads/stamp_cost.h"
#include "collect/loads/timed_bouts.h"
#include "collect/recorded_words.h"
#include "collect/table_builder.h"
#include "decoder/insn.h"

namespace shadowprof::collect {

using profile::AddressKind;
using profile::LatencyClass;
using profile::LoadKind;
using trace::SlotKind;
using trace::Word;

namespace {

constexpr uint64_t kNearStack = uint64_t{1} << 20;
// Pages (or values) of each load and class that are counted: counting samples, so the hottest are
// among them. And how many of them the profile gets.
constexpr uint32_t kPairsKept = 64;
constexpr size_t kPairsTold = 8;
constexpr uint64_t kLineBytes = 64;
constexpr double kErrors = 2;  // standard ones: what is within them is not told apart
constexpr double kOffCycles = 1.5;
// A loop may be in step with a clock of long steps: its mean is off then by as much of one.
constexpr double kOffOfStep = 0.1;
// Samples of a replica that are early, and how many timed loads in later ones are enough.
constexpr uint64_t kEarlySamples = 2;
constexpr uint64_t kEnoughTimed = 32;

// decoder::LoadKind, but none.
LoadKind kind_by(decoder::LoadKind kind) {
  return static_cast<LoadKind>(static_cast<uint8_t>(kind) - 1);
}
static_assert(static_cast<size_t>(decoder::LoadKind::branch) == profile::kLoadKinds);
static_assert(static_cast<size_t>(decoder::LoadKind::move) ==
              static_cast<size_t>(LoadKind::move) + 1);

// Where the loads of one class that one instruction made went to, and what they got.
struct Pairs {
  profile::ValueHotlist pages, values;
  uint64_t paged = 0, valued = 0;  // of known address, result
};

// What the timed loads of one instruction took in the present bout, and in those before it: sums
// over bouts of n * n, n * s and s * s, where n loads took s cycles.
struct BoutSums {
  uint64_t bout = 0;  // the present one
  double n = 0, s = 0;
  double nn = 0, ns = 0, ss = 0;
  uint64_t bouts = 0;

  void add(uint64_t now, double cycles) {
    if (bout != now) end();
    bout = now;
    n++;
    s += cycles;
  }
  void end() {
    if (n != 0) bouts++;
    nn += n * n;
    ns += n * s;
    ss += s * s;
    n = s = 0;
  }
  // How far bouts' sums are off from as many mean loads, squared and added up.
  double squares(double mean) const {
    if (bouts < 2) return 0;
    const auto k = static_cast<double>(bouts);
    return std::max(0.0, ss - 2 * mean * ns + mean * mean * nn) * k / (k - 1);
  }
};

// What the timed loads of one instruction took.
struct Times {
  uint64_t timed = 0;
  uint64_t first_touches = 0;
  // Sums of times, without those that are `beyond`.
  double cycles = 0;
  // Those from the first caches where one time does not tell these apart. They are in class l1.
  uint64_t near = 0;
  double near_cycles = 0;
  double near_squares = 0;
  uint64_t cold = 0;
  double cold_cycles = 0;
  std::array<uint64_t, profile::kLatencyClasses> classes{};
  std::array<uint64_t, profile::kAddressKinds> kinds{};
  std::array<uint64_t, profile::kLatencyBuckets> buckets{};
  std::array<Pairs, profile::kLatencyClasses> pairs;
  BoutSums bouts;  // where there are any
};

struct LoadEntry {
  ModuleId module;
  GuestAddr address;
  uint8_t bits = 64;  // of the register that it loads
  LoadKind by = LoadKind::move;
  uint64_t executions = 0;
  // In early samples of replicas, and in all others; null: none was.
  std::unique_ptr<Times> early, later;
  uint64_t last = 0;   // address; 0: none yet
  int64_t stride = 0;  // majority vote
  uint64_t votes = 0;
  uint64_t strided = 0;

  uint64_t timed() const { return (early ? early->timed : 0) + (later ? later->timed : 0); }
  // Those that count.
  const Times* times() const {
    const bool are_enough = later && later->timed >= kEnoughTimed;
    return are_enough || !early ? later.get() : early.get();
  }
};

// One timed load of a run.
struct LoadPlan {
  LoadEntry* entry;
  AddressPlan where;
  uint16_t cycles_word;
  uint16_t value_word;
};

// What one timed load took.
struct TimedLoad {
  double cycles = 0;  // right in the mean of many, by whatever clock
  LatencyClass level = LatencyClass::l1;
  bool is_near = false;   // it came from the first caches, and one time does not tell which
  bool may_miss = false;  // the first cache
};

struct RunLoads {
  uint64_t executions;
  uint32_t words;  // 0: not seen yet
  uint32_t first;
  uint32_t count;
  uint16_t stamps_word;
  uint16_t bout_word;
};

// The first of `all` that were noted, as parts of `loads` where these are fewer.
template <typename Add>
void add_told(const profile::ValueHotlist& list, uint64_t all, uint64_t loads, Add add) {
  const double part = all > loads ? static_cast<double>(loads) / static_cast<double>(all) : 1;
  size_t told = 0;
  for (profile::ValueCount seen : list.top(all)) {
    seen.count = static_cast<uint64_t>(std::round(static_cast<double>(seen.count) * part));
    if (seen.count == 0 || told++ == kPairsTold) break;
    add(seen);
  }
}

}  // namespace

struct LatencyCollector::State {
  State(const trace::BlockTable& block_table, LatencyCollectorOptions o)
      : table(block_table), options(std::move(o)), runs(limits::kMaxRuns) {}

  void consume(const trace::Chunk& chunk);
  void finish(profile::Profile& into);
  void count_executions();
  void start_run(RunId id);
  void plan_load(const decoder::Insn& insn, const trace::Block& block,
                 const RecordedWords& recorded);
  void time(const LoadPlan& load, const Word* words);
  void note_pairs(const LoadPlan& load, Pairs& pairs, uint64_t address, const Word* words);
  void add_pairs(const TableBuilder& builder, profile::Profile& out) const;
  AddressKind kind_of(const LoadPlan& load, uint64_t address);
  void note_stride(LoadEntry& e, uint64_t address);
  bool first_touch(uint64_t page);
  bool may_be_cold(uint64_t line);
  double records_per_timed() const;
  bool is_from_own_caches(const TimedLoad& timed) const;
  void on(Tid thread, const trace::SampleStart& start);
  void on(Tid thread, const trace::SampleEnd& end);
  void on(Tid, trace::GapReason) {}
  Times& times_of(LoadEntry& e) const;
  static void note_bouts(const Times& times, profile::LatencyRow& row);
  TimedLoad timed_load(const LoadEntry& e, uint32_t elapsed) const;
  static void count(Times& times, const TimedLoad& timed);
  void fill_times(const LoadEntry& e, const Times& times, profile::LatencyRow& row) const;
  void split_near(const LoadEntry& e, const Times& times, profile::LatencyRow& row) const;

  const trace::BlockTable& table;
  const LatencyCollectorOptions options;
  profile::LatencyCalibration calibration;  // once is_calibrated
  bool is_calibrated = false;
  ReservedArray<RunLoads> runs;
  std::vector<LoadPlan> loads;
  std::deque<LoadEntry> entries;
  std::unordered_map<uint64_t, LoadEntry*> by_address;
  std::unordered_set<uint64_t> touched;
  std::array<uint64_t, 4096> lately{};  // pages of `touched`, for speed
  // Lines that timed loads of this sample of a replica were of, while its caches may be cold.
  std::unordered_set<uint64_t> warm_lines;
  uint64_t records = 0, timed_records = 0;  // of this sample, up to now
  bool is_cold = false;
  bool is_early = false;  // in the life of a replica
  // Threads of replicas that will be recorded again, and how often they were.
  std::unordered_map<int32_t, uint64_t> lasting;
  StampCost stamps;
  TimedBouts bouts;
  bool in_bout = false;                 // the present record
  uint64_t stack = 0;                   // rsp as last captured
  profile::Random random{1};
  uint64_t corrupt_chunks = 0;
};

LatencyCollector::LatencyCollector(const trace::BlockTable& table, LatencyCollectorOptions options)
    : state_(std::make_unique<State>(table, std::move(options))) {}
LatencyCollector::~LatencyCollector() = default;
void LatencyCollector::consume(const trace::Chunk& chunk) {
  state_->consume(chunk);
}
void LatencyCollector::finish(profile::Profile& into) {
  state_->finish(into);
}

void LatencyCollector::State::consume(const trace::Chunk& chunk) {
  bouts.begin();
  stamps.begin(chunk.thread);
  const Word* at = chunk.words.data();
  const Word* const end = at + chunk.words.size();
  while (at < end) {
    const size_t words = take_record(
        at, end, runs, [this](RunId id) { start_run(id); },
        [&](const auto& what) { on(chunk.thread, what); },
        [this](RunId, const RunLoads& run, const Word* record) {
          records++;
          if (run.count == 0) return;
          timed_records++;
          if (run.stamps_word != kNoWord) stamps.note(elapsed_at(record + run.stamps_word));
          in_bout = run.bout_word != kNoWord;
          if (in_bout && !bouts.look(value_at(record, run.bout_word))) return;
          for (uint32_t i = 0; i < run.count; i++) time(loads[run.first + i], record);
        });
    if (words == 0) {
      corrupt_chunks++;
      return;
    }
    at += words;
  }
}

void LatencyCollector::State::on(Tid thread, const trace::SampleStart&) {
  if (!options.of_replicas) return;
  touched.clear();
  lately.fill(0);
  warm_lines.clear();
  records = timed_records = 0;
  const auto before = lasting.find(thread.value);
  is_early = before == lasting.end() || before->second < kEarlySamples;
  is_cold = before == lasting.end() || (is_early && !calibration.cores_share_last_cache());
}

void LatencyCollector::State::on(Tid thread, const trace::SampleEnd& end) {
  if (!options.of_replicas) return;
  if (end.ends_observation()) {
    lasting.erase(thread.value);
  } else {
    lasting[thread.value]++;
  }
}

void LatencyCollector::State::start_run(RunId id) {
  const trace::Run& run = table.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  RunLoads& own = runs[id.value];
  own.first = static_cast<uint32_t>(loads.size());
  own.words = run.words;
  own.stamps_word = word_of(SlotKind::stamps, table.slots(run));
  own.bout_word = word_of(SlotKind::bout, table.slots(run));
  for_each_insn(
      table, run,
      [&](const trace::Block& block, const decoder::Insn& insn, RecordedWords& recorded) {
        const bool timed = recorded.cycles != kNoWord && insn.load != decoder::LoadKind::none;
        if (timed) plan_load(insn, block, recorded);
        recorded.leave(insn, [&](const trace::Slot& slot, uint16_t word) {
          if (timed && insn.pure_load && slot.reg == insn.result) loads.back().value_word = word;
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
    entry->by = kind_by(insn.load);
  }
  loads.push_back(
      {entry, recorded.address(insn, insn.accesses[insn.load_access]), recorded.cycles, kNoWord});
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

// The majority's, by a vote.
void LatencyCollector::State::note_stride(LoadEntry& e, uint64_t address) {
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
}

// What executes for each record that has timed loads: more than one in bouts only.
double LatencyCollector::State::records_per_timed() const {
  return static_cast<double>(records) / static_cast<double>(timed_records);
}

// It is the first load of a line in a replica that has not loaded many yet. Those that were not
// timed are taken for such, too: caches are warm no later than that.
bool LatencyCollector::State::may_be_cold(uint64_t line) {
  if (!is_cold) return false;
  if (!warm_lines.insert(line).second) return false;
  const size_t lines =
      calibration.cores_share_last_cache() ? options.cold_lines : options.last_cache_lines;
  const double stands_for = in_bout ? records_per_timed() : 1;
  const double loaded = stands_for * static_cast<double>(warm_lines.size());
  is_cold = loaded < static_cast<double>(lines);
  return true;
}

// Could the program have had it in caches of its core, which a replica on another one has not?
bool LatencyCollector::State::is_from_own_caches(const TimedLoad& timed) const {
  if (timed.level == LatencyClass::l1) return timed.may_miss;
  return timed.level == LatencyClass::l3 ||
         (timed.level == LatencyClass::dram && !calibration.cores_share_last_cache());
}

// A clock of long steps shows as many of them as begin in a load, so its class is told by the time
// as it was taken, unless stamps take a step more than usual.
TimedLoad LatencyCollector::State::timed_load(const LoadEntry& e, uint32_t elapsed) const {
  const double usual = calibration.overhead;
  TimedLoad timed;
  timed.cycles = elapsed - stamps.cycles(usual);
  const bool is_slowed = std::abs(stamps.cycles(usual) - usual) > calibration.resolution;
  const double cycles = is_slowed ? timed.cycles : elapsed - usual;
  timed.level = calibration.class_of(cycles, e.by);
  if (timed.level > LatencyClass::l2 || !stamps.hides_first_caches(calibration)) return timed;
  timed.level = LatencyClass::l1;
  timed.is_near = true;
  timed.may_miss =
      cycles >= calibration.hit(e.by) + std::max(calibration.resolution, stamps.noise());
  return timed;
}

void LatencyCollector::State::time(const LoadPlan& load, const Word* words) {
  if (!is_calibrated) {
    calibration = options.calibrate();
    is_calibrated = true;
  }
  LoadEntry& e = *load.entry;
  Times& times = times_of(e);
  TimedLoad timed = timed_load(e, elapsed_at(words + load.cycles_word));
  LatencyClass& level = timed.level;
  AddressKind kind = AddressKind::unknown;
  uint64_t address = 0;
  if (load.where.known) {
    address = load.where.at(words);
    kind = kind_of(load, address);
    note_stride(e, address);
    const bool is_new = first_touch(address / limits::kPageBytes);
    // No page fault, then.
    const double slow = profile::LatencyCalibration::kBeyondFold * calibration.typical[3];
    if (level == LatencyClass::beyond && !is_new && timed.cycles < slow) level = LatencyClass::dram;
    if (options.of_replicas) {
      if (is_new && level == LatencyClass::beyond) {
        times.first_touches++;
        return;
      }
      if (may_be_cold(address / kLineBytes) && is_from_own_caches(timed)) {
        times.cold++;
        times.cold_cycles += std::max(0.0, timed.cycles - calibration.hit(e.by));
      }
    }
  }
  count(times, timed);
  if (in_bout && level != LatencyClass::beyond) times.bouts.add(bouts.bouts(), timed.cycles);
  times.kinds[static_cast<size_t>(kind)]++;
  if (level != LatencyClass::beyond && (level != LatencyClass::l1 || timed.may_miss))
    note_pairs(load, times.pairs[static_cast<size_t>(level)], address, words);
}

Times& LatencyCollector::State::times_of(LoadEntry& e) const {
  std::unique_ptr<Times>& times = is_early ? e.early : e.later;
  if (!times) times = std::make_unique<Times>();
  return *times;
}

void LatencyCollector::State::count(Times& times, const TimedLoad& timed) {
  times.timed++;
  times.classes[static_cast<size_t>(timed.level)]++;
  if (timed.level != LatencyClass::beyond) times.cycles += timed.cycles;
  if (timed.is_near) {
    times.near++;
    times.near_cycles += timed.cycles;
    times.near_squares += timed.cycles * timed.cycles;
  }
  const double shown = std::max(0.0, timed.cycles);
  times.buckets[profile::latency_bucket(static_cast<uint64_t>(shown))]++;
}

void LatencyCollector::State::note_pairs(const LoadPlan& load, Pairs& pairs, uint64_t address,
                                         const Word* words) {
  const auto note = [&](profile::ValueHotlist& list, uint64_t& all, uint64_t what) {
    list.add(what, 1, profile::HotlistKind::counting_sample, kPairsKept, random);
    all++;
  };
  if (load.where.known) note(pairs.pages, pairs.paged, address / limits::kPageBytes);
  if (load.value_word == kNoWord) return;
  const unsigned unused = 64u - load.entry->bits;
  note(pairs.values, pairs.valued, value_at(words, load.value_word) << unused >> unused);
}

// Pages are named by the file that they are of, if it is one that code was mapped from.
void LatencyCollector::State::add_pairs(const TableBuilder& builder, profile::Profile& out) const {
  const DataPlaces places(table, builder);
  for (const LoadEntry& e : entries) {
    const Times* const times = e.times();
    if (!times) continue;
    const profile::CodeRef load = builder.at(e.address, e.module);
    profile::LatencyRow row;
    fill_times(e, *times, row);
    // What split_near has made of those of near caches.
    const auto split = [&](LatencyClass level) {
      const auto c = static_cast<size_t>(level);
      return row.classes[c] - times->classes[c];
    };
    const bool mostly_l3 = split(LatencyClass::l3) > split(LatencyClass::l2);
    for (size_t c = 0; c < profile::kLatencyClasses; c++) {
      const Pairs& pairs = times->pairs[c];
      auto level = static_cast<LatencyClass>(c);
      uint64_t served = times->classes[c];
      // Not from the first cache, but from which one only the mean of many tells, and of how many.
      if (level == LatencyClass::l1) {
        level = mostly_l3 ? LatencyClass::l3 : LatencyClass::l2;
        served = split(level);
      }
      add_told(pairs.pages, pairs.paged, served, [&](const profile::ValueCount& page) {
        out.tables.latency_pages.push_back(
            {level, places.of(GuestAddr(page.value * limits::kPageBytes)), page.count, load});
      });
      add_told(pairs.values, pairs.valued, served, [&](const profile::ValueCount& value) {
        out.tables.latency_values.push_back({level, value.value, value.count, load});
      });
    }
  }
}

// Loads of near caches that one time does not tell apart: as many of the farther one of two as make
// the mean what it is. None where it is the nearer one's within its error or what a calibration may
// be off, all where it is the farther one's.
void LatencyCollector::State::split_near(const LoadEntry& e, const Times& times,
                                         profile::LatencyRow& row) const {
  if (times.near == 0) return;
  const auto n = static_cast<double>(times.near);
  const double mean = times.near_cycles / n;
  const double variance = std::max(0.0, times.near_squares / n - mean * mean);
  const double beside = calibration.hit(e.by) - calibration.typical[0];
  const double cycles = mean - beside;
  // With a clock of short steps one time tells the last cache's.
  const bool among_first = calibration.tells_first_caches() || cycles < calibration.typical[1];
  const size_t nearer = among_first ? 0 : 1;
  const double apart = calibration.typical[nearer + 1] - calibration.typical[nearer];
  const double off =
      std::max({kErrors * std::sqrt(variance / n), std::min(kOffCycles, apart / 4),
                std::min(kOffOfStep * calibration.resolution, apart / 2)});
  double share = 0;
  if (cycles >= calibration.typical[nearer + 1] - off) {
    share = 1;
  } else if (cycles > calibration.typical[nearer] + off) {
    share = (cycles - calibration.typical[nearer]) / apart;
  }
  const auto farther = static_cast<uint64_t>(std::round(share * n));
  row.classes[static_cast<size_t>(LatencyClass::l1)] -= times.near;
  row.classes[nearer] += times.near - farther;
  row.classes[nearer + 1] += farther;
}

void LatencyCollector::State::fill_times(const LoadEntry& e, const Times& times,
                                         profile::LatencyRow& row) const {
  row.timed = times.timed;
  row.classes = times.classes;
  row.cycles = static_cast<uint64_t>(std::max(0.0, std::round(times.cycles)));
  row.cold = times.cold;
  row.cold_cycles = std::min(row.cycles, static_cast<uint64_t>(times.cold_cycles));
  split_near(e, times, row);
}

// Also by runs of translations that do not time them.
void LatencyCollector::State::count_executions() {
  for (uint32_t id = 0; id < table.run_count(); id++) {
    const RunLoads& own = runs[id];
    const uint64_t times = executions_of(id, options.executions, runs);
    for (uint32_t i = 0; i < own.count; i++) loads[own.first + i].entry->executions += times;
    if (times == 0 || own.count != 0) continue;
    const trace::Run& run = table.run(RunId(id));
    for_each_insn(table, run, [&](const trace::Block&, const decoder::Insn& insn, RecordedWords&) {
      const auto entry = by_address.find(insn.address.value);
      if (entry != by_address.end()) entry->second->executions += times;
    });
  }
}

void LatencyCollector::State::note_bouts(const Times& times, profile::LatencyRow& row) {
  constexpr double kMost = 0x1p62;
  BoutSums sums = times.bouts;
  sums.end();
  row.window_squares = static_cast<uint64_t>(std::min(kMost, sums.squares(row.mean())));
}

void LatencyCollector::State::finish(profile::Profile& into) {
  count_executions();
  profile::Profile mine;
  const TableBuilder builder(table, mine);
  for (const LoadEntry& e : entries) {
    if (e.executions == 0) continue;
    profile::LatencyRow row;
    row.at = builder.at(e.address, e.module);
    row.executions = e.executions;
    row.by = e.by;
    static const Times kNone;
    const Times& times = e.times() ? *e.times() : kNone;
    row.first_touches = times.first_touches;
    fill_times(e, times, row);
    row.kind = static_cast<AddressKind>(
        std::max_element(times.kinds.begin(), times.kinds.end()) - times.kinds.begin());
    row.kind_timed = times.timed;
    // A vote's winner need not have a majority; what has not is no stride.
    if (2 * e.strided > e.timed()) {
      row.stride = e.stride;
      row.strided = e.strided;
    }
    note_bouts(times, row);
    for (uint32_t b = 0; b < times.buckets.size(); b++)
      if (times.buckets[b] != 0) row.histogram.push_back({b, times.buckets[b]});
    mine.tables.latencies.push_back(std::move(row));
  }
  add_pairs(builder, mine);
  if (is_calibrated) into.run.host.latency = calibration;
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_latency_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
