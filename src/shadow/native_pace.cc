// SPDX-License-Identifier: MIT
#include "shadow/native_pace.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/limits.h"

namespace shadowprof::shadow {
namespace {

// So much of a sample is looked at, and so many runs (kMostRuns).
constexpr size_t kMostWords = size_t{1} << 17;
// Instructions without a pass, from which on the code has no counted branch.
constexpr uint64_t kLongAway = 30'000;
// Such code is looked at for so many.
constexpr uint64_t kEnoughBare = 100'000;
constexpr uint64_t kFewestPasses = 3;
// From one pass to the next where a branch begins to be counted: so many instructions take
// tens of nanoseconds. Fewer where there is no such branch.
constexpr uint64_t kLeastDistance = 300;
constexpr uint64_t kLeastDistanceOfAll = 40;
// Beyond it a sample has too few passes: one that is passed more often is better.
constexpr uint64_t kGoodDistance = 3000;
static_assert(kLeastDistanceOfAll < kLeastDistance && kLeastDistance < kGoodDistance);
constexpr size_t kMostKept = 48;               // samples
constexpr size_t kMostRuns = size_t{1} << 15;  // of one, which are looked at again
constexpr int kOverlapPower = 4;
constexpr unsigned kHalfAsMuchAfter = 16;  // samples
// So much of the instructions is before passes, and natively before passes of branches that samples
// have passed as often as this, by their weights: of others it is not known what lies between two
// passes.
constexpr double kKnownShare = 0.9;
constexpr unsigned kWellKnownPasses = 32;

constexpr size_t kDirectBytes = 5;       // e8 or e9, rel32
constexpr size_t kConditionalBytes = 6;  // 0f 8x rel32
constexpr uint64_t kDisplacementBytes = 4;

// The branch at its end, which is to lead elsewhere for a while. A displacement that lies on two
// pages cannot be written at once.
bool has_long_displacement(std::span<const uint8_t> code, const trace::Block& block) {
  const auto length = static_cast<size_t>(block.end - block.last_insn);
  const bool is_on_two_pages = (block.end - kDisplacementBytes).page() != (block.end - 1).page();
  if (code.size() < length || is_on_two_pages) return false;
  const auto insn = code.last(length);
  if (length == kDirectBytes) return insn[0] == 0xe8 || insn[0] == 0xe9;
  return length == kConditionalBytes && insn[0] == 0x0f && (insn[1] & 0xf0) == 0x80;
}

// The branch that ends the block leads to its target, when this run executes it. `next`: the run's
// next block.
bool is_passed(const trace::Run& run, const trace::Block& block, const trace::Block* next) {
  using trace::RunExit;
  if (block.target == GuestAddr()) return false;
  if (next) return next->start == block.target && block.target != block.end;
  return run.exit == RunExit::taken || run.exit == RunExit::jump || run.exit == RunExit::call;
}

// The one to count of those that are passed in so many instructions.
std::optional<CountedPlace> best_of(const PlaceCandidates& candidates, uint64_t instructions) {
  const uint64_t most = instructions / kLeastDistance;
  PlaceCandidate often, seldom{{}, instructions / kLeastDistanceOfAll + 1};
  for (const auto& [at, candidate] : candidates) {
    if (candidate.passes <= most && candidate.passes > often.passes) often = candidate;
    if (candidate.passes > most && candidate.passes < seldom.passes) seldom = candidate;
  }
  const bool is_seldom_known = seldom.place.at != GuestAddr();
  const uint64_t fewest = is_seldom_known ? instructions / kGoodDistance : kFewestPasses;
  if (often.passes >= std::max(fewest, kFewestPasses)) return often.place;
  return is_seldom_known ? std::optional(seldom.place) : std::nullopt;
}

// How far a sample's passes are distributed over the branches as those of a stretch: 0 to 1.
double overlap(std::span<const NativePace::Passed> sample, std::span<const uint64_t> stretch) {
  double of_sample = 0, of_stretch = 0, sum = 0;
  for (const NativePace::Passed& passed : sample) of_sample += static_cast<double>(passed.passes);
  for (const uint64_t passes : stretch) of_stretch += static_cast<double>(passes);
  if (of_sample == 0 || of_stretch == 0) return 0;
  for (size_t k = 0; k < sample.size(); k++)
    sum += std::min(static_cast<double>(sample[k].passes) / of_sample,
                    static_cast<double>(stretch[k]) / of_stretch);
  return sum;
}

bool counts_in(const CountedPlace& place, const trace::Block& block, bool is_branch_passed) {
  return place.insn ? place.is_in(block) : is_branch_passed && place.at == block.last_insn;
}

// What was executed behind the last pass is taken for what is before the first one.
void close(NativePace::Sample& sample) {
  if (sample.first) sample.passed[*sample.first].instructions += std::exchange(sample.since, 0);
}

}  // namespace

// use(block, whether its branch is passed) for each block of the run, in order.
template <typename Use>
void NativePace::each_block(const trace::Run& run, const Use& use) const {
  const auto blocks = table_.blocks(run);
  for (size_t i = 0; i < blocks.size(); i++) {
    const trace::Block& block = table_.block(blocks[i]);
    const bool is_last = i + 1 == blocks.size();
    use(block, is_passed(run, block, is_last ? nullptr : &table_.block(blocks[i + 1])));
  }
}

// In order.
std::span<const uint8_t> NativePace::passed_by(RunId id) {
  if (list_of_.size() <= id.value)
    list_of_.resize(std::max(table_.run_count(), id.value + size_t{1}));
  uint32_t& list = list_of_[id.value];
  if (list == kUnknown) {
    std::vector<uint8_t> passed;
    each_block(table_.run(id), [&](const trace::Block& block, bool is_branch_passed) {
      const size_t before = passed.size();
      for (size_t k = 0; k < places_.size(); k++)
        if (counts_in(places_[k], block, is_branch_passed))
          passed.push_back(static_cast<uint8_t>(k));
      std::ranges::sort(std::span(passed).subspan(before), {},
                        [&](uint8_t k) { return places_[k].at; });
    });
    list = passed.empty() ? kNone : static_cast<uint32_t>(lists_.size());
    if (!passed.empty()) lists_.push_back(std::move(passed));
  }
  return lists_[list];
}

void NativePace::note(Sample& sample, std::span<const trace::Word> words) {
  trace::Reader reader(table_, words);
  while (sample.words < kMostWords && sample.runs.size() < kMostRuns) {
    const auto record = reader.next();
    if (!record || !*record) return;
    sample.words += (*record)->words.size();
    if ((*record)->special()) continue;
    const RunId run = (*record)->run();
    sample.runs.push_back(run);
    follow(sample, run);
    const bool is_bare = sample.since > kLongAway || places_.empty();
    if (is_bare && note_bare(run)) look_again(sample);
  }
}

void NativePace::end(Sample& sample) {
  close(sample);
  kept_.push_back(std::move(sample));
  if (kept_.size() > kMostKept) kept_.pop_front();
  sample = {};
}

void NativePace::follow(Sample& sample, RunId run) {
  const uint32_t instructions = table_.run(run).insns;
  sample.since += instructions;
  sample.instructions += instructions;
  sample.passed.resize(places_.size());
  for (const uint8_t branch : passed_by(run)) {
    if (!sample.first) sample.first = branch;
    Passed& passed = sample.passed[branch];
    passed.passes++;
    passed.instructions += std::exchange(sample.since, 0);
  }
}

void NativePace::follow_again(Sample& sample) {
  Sample again;
  again.words = sample.words;
  again.runs = std::move(sample.runs);
  for (const RunId run : again.runs) follow(again, run);
  sample = std::move(again);
}

void NativePace::look_again(Sample& present) {
  list_of_.assign(list_of_.size(), kUnknown);
  lists_.resize(2);
  for (Sample& sample : kept_) {
    follow_again(sample);
    close(sample);
  }
  follow_again(present);
}

// True: another branch is counted from now on.
bool NativePace::note_bare(RunId run) {
  if (places_.size() == kMostPlaces) return false;
  if (bare_.times.size() <= run.value) bare_.times.resize(list_of_.size());
  if (bare_.times[run.value]++ == 0) bare_.runs.push_back(run);
  bare_.instructions += table_.run(run).insns;
  return bare_.instructions >= kEnoughBare && count_another();
}

// What find(block, whether its branch is passed) finds in the bare code, and how often it was
// passed.
template <typename Find>
PlaceCandidates NativePace::candidates(const Find& find) const {
  PlaceCandidates candidates;
  for (const RunId id : bare_.runs) {
    each_block(table_.run(id), [&](const trace::Block& block, bool is_branch_passed) {
      if (table_.module(block.module).inode == 0) return;
      const std::optional<CountedPlace> place = find(block, is_branch_passed);
      if (!place) return;
      PlaceCandidate& candidate = candidates[place->at.value];
      candidate.place = *place;
      candidate.passes += bare_.times[id.value];
    });
  }
  return candidates;
}

// One that the bare code passes.
bool NativePace::count_another() {
  const uint64_t instructions = std::exchange(bare_.instructions, 0);
  const auto branch = [&](const trace::Block& block, bool is_passed) {
    const bool counts = is_passed && has_long_displacement(table_.code(block), block);
    return counts ? std::optional(CountedPlace{block.last_insn, block.end, block.target})
                  : std::nullopt;
  };
  auto best = best_of(candidates(branch), instructions);
  const auto other = [&](const trace::Block& block, bool) -> std::optional<CountedPlace> {
    const auto insn = emu::first_movable_insn(table_.code(block), block.start);
    if (!insn) return std::nullopt;
    const GuestAddr next = insn->at + insn->length;
    return CountedPlace{insn->at, next, next, insn};
  };
  if (!best) best = best_of(candidates(other), instructions);
  for (const RunId id : bare_.runs) bare_.times[id.value] = 0;
  bare_.runs.clear();
  if (best) places_.push_back(*best);
  return best.has_value();
}

// Most of what the samples have executed lies before passes.
bool NativePace::knows_enough() const {
  uint64_t all = 0, before_passes = 0;
  for (const Sample& sample : kept_) {
    all += sample.instructions;
    for (const Passed& passed : sample.passed) before_passes += passed.instructions;
  }
  return static_cast<double>(before_passes) >= kKnownShare * static_cast<double>(all);
}

// How much each sample that was kept says of such a stretch.
std::vector<double> NativePace::weights(std::span<const uint64_t> passes) const {
  std::vector<double> weights;
  for (size_t i = 0; i < kept_.size(); i++) {
    const auto since = static_cast<double>(kept_.size() - 1 - i);
    weights.push_back(std::pow(overlap(kept_[i].passed, passes), kOverlapPower) *
                      std::exp2(-since / kHalfAsMuchAfter));
  }
  return weights;
}

std::optional<double> NativePace::instructions(std::span<const uint64_t> passes) const {
  if (passes.size() != places_.size() || !knows_enough()) return std::nullopt;
  const std::vector<double> weights = this->weights(passes);
  double sum = 0, well_known = 0;
  for (size_t k = 0; k < passes.size(); k++) {
    double known = 0, before = 0;
    for (size_t i = 0; i < kept_.size(); i++) {
      if (k >= kept_[i].passed.size()) continue;
      known += weights[i] * static_cast<double>(kept_[i].passed[k].passes);
      before += weights[i] * static_cast<double>(kept_[i].passed[k].instructions);
    }
    const double distance = known == 0 ? static_cast<double>(kLeastDistance) : before / known;
    const double instructions = static_cast<double>(passes[k]) * distance;
    sum += instructions;
    if (known >= kWellKnownPasses) well_known += instructions;
  }
  if (sum == 0 || well_known < kKnownShare * sum) return std::nullopt;
  return sum;
}

}  // namespace shadowprof::shadow
