// SPDX-License-Identifier: MIT
#include "profile/hotlists/value_hotlist.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shadowprof::profile {
namespace {

// How much the threshold rises at a time: higher loses more of the sample, lower thins more often.
constexpr double kThresholdGrowth = 1.5;

constexpr double kSketchError_share = 0.13;  // 1.04 / sqrt(64)

}  // namespace

void ValueHotlist::Sketch::add(uint64_t hash) {
  const size_t i = hash >> 58;
  const auto rank = static_cast<uint8_t>(std::countl_zero(hash << 6 | 1) + 1);
  registers[i] = std::max(registers[i], rank);
}

void ValueHotlist::Sketch::follow(uint64_t hash) {
  if (followed.size() == kFollowed && hash > followed.back().hash) return;
  auto at = std::lower_bound(followed.begin(), followed.end(), hash,
                             [](const Followed& f, uint64_t h) { return f.hash < h; });
  if (at == followed.end() || at->hash != hash) {
    if (followed.size() == kFollowed) followed.pop_back();
    at = followed.insert(at, Followed{hash});
  }
  if (at->last != window) at->windows++;
  at->last = window;
}

uint64_t ValueHotlist::Sketch::estimate() const {
  double sum = 0;
  int empty = 0;
  for (const uint8_t r : registers) {
    sum += std::ldexp(1.0, -r);
    empty += r == 0 ? 1 : 0;
  }
  constexpr double kAlpha = 0.709;  // for 64 registers
  constexpr double kCount = kRegisters;
  double estimate = kAlpha * kCount * kCount / sum;
  if (estimate <= 2.5 * kCount && empty != 0) estimate = kCount * std::log(kCount / empty);
  return static_cast<uint64_t>(std::llround(estimate));
}

void ValueHotlist::add_slowly(uint64_t value, uint64_t n, HotlistKind kind, uint32_t capacity,
                              Random& random) {
  if (table_ == nullptr) {
    for (uint32_t i = 0; i < entries_; i++) {
      if (slots_[i].value != value) continue;
      slots_[i].count += n;
      return;
    }
    if (entries_ < kInline && entries_ < capacity) {
      slots_[entries_++] = {value, n};
      return;
    }
    rebuild(4 * kInline, all());
  }
  if (sketch_ != nullptr) note_distinct(value);
  if (n <= skip_) {
    skip_ -= n;
    return;
  }
  n -= skip_;
  skip_ = random.failures(threshold_);
  if (entries_ >= capacity) {
    if (sketch_ == nullptr) {
      overflow();
      note_distinct(value);
    }
    if (kind == HotlistKind::tnv) {
      flush_lower_half();
    } else {
      // The newcomer is thinned with the others, as if it had found room.
      insert(value, n);
      while (entries_ > capacity) thin(random);
      skip_ = random.failures(threshold_);
      return;
    }
  }
  insert(value, n);
}

void ValueHotlist::insert(uint64_t value, uint64_t count) {
  if (2 * entries_ > table_slots_) rebuild(2 * table_slots_, all());
  table_[find(value)] = {value, count};
  entries_++;
}

std::vector<ValueCount> ValueHotlist::all() const {
  std::vector<ValueCount> found;
  if (table_ == nullptr) {
    found.assign(slots_, slots_ + entries_);
  } else {
    for (uint32_t i = 0; i < table_slots_; i++)
      if (table_[i].count != 0) found.push_back(table_[i]);
  }
  return found;
}

ValueCount ValueHotlist::hottest() const {
  ValueCount best;
  const ValueCount* const first = table_ == nullptr ? slots_ : table_.get();
  const uint32_t slots = table_ == nullptr ? entries_ : table_slots_;
  for (uint32_t i = 0; i < slots; i++)
    if (first[i].count > best.count) best = first[i];
  return best;
}

uint64_t ValueHotlist::seen(uint64_t value) const {
  if (table_ != nullptr) return table_[find(value)].count;
  for (uint32_t i = 0; i < entries_; i++)
    if (slots_[i].value == value) return slots_[i].count;
  return 0;
}

void ValueHotlist::rebuild(uint32_t slots, const std::vector<ValueCount>& keep) {
  if (table_ == nullptr || slots != table_slots_) table_ = std::make_unique<ValueCount[]>(slots);
  std::fill(table_.get(), table_.get() + slots, ValueCount{});
  table_slots_ = slots;
  entries_ = static_cast<uint32_t>(keep.size());
  for (const ValueCount& v : keep) table_[find(v.value)] = v;
}

// From here on the table does not know all values that there were.
void ValueHotlist::overflow() {
  sketch_ = std::make_unique<Sketch>();
  for (const ValueCount& v : all()) note_distinct(v.value);
}

void ValueHotlist::thin(Random& random) {
  const double before = threshold_;
  threshold_ *= kThresholdGrowth;
  std::vector<ValueCount> kept;
  for (ValueCount v : all()) {
    if (random.unit() > before / threshold_) {
      const uint64_t lost = 1 + random.failures(threshold_);
      if (lost >= v.count) continue;
      v.count -= lost;
    }
    kept.push_back(v);
  }
  rebuild(table_slots_, kept);
}

void ValueHotlist::flush_lower_half() {
  std::vector<ValueCount> kept = all();
  const auto half = static_cast<ptrdiff_t>(kept.size() / 2);
  std::nth_element(kept.begin(), kept.begin() + half, kept.end(),
                   [](const ValueCount& a, const ValueCount& b) { return a.count > b.count; });
  kept.resize(static_cast<size_t>(half));
  rebuild(table_slots_, kept);
}

std::vector<ValueCount> ValueHotlist::top(uint64_t occurrences) const {
  std::vector<ValueCount> found = all();
  const auto is_hot = [&](const ValueCount& v) {
    return static_cast<double>(v.count) >= threshold_;
  };
  uint64_t seen = 0, hot = 0;
  for (const ValueCount& v : found) {
    seen += v.count;
    hot += is_hot(v);
  }
  const uint64_t room = occurrences - std::min(occurrences, seen);
  const auto missed = std::min(static_cast<uint64_t>(std::llround(threshold_ - 1)),
                               room / std::max<uint64_t>(hot, 1));
  for (ValueCount& v : found)
    if (is_hot(v)) v.count += missed;
  std::sort(found.begin(), found.end(), [](const ValueCount& a, const ValueCount& b) {
    return a.count != b.count ? a.count > b.count : a.value < b.value;
  });
  return found;
}

double ValueHotlist::estimate(uint64_t value) const {
  for (const ValueCount& v : all())
    if (v.value == value) return static_cast<double>(v.count) + threshold_ - 1;
  return 0;
}

uint64_t ValueHotlist::distinct() const {
  return sketch_ == nullptr ? entries_ : std::max<uint64_t>(sketch_->estimate(), entries_);
}

Estimate ValueHotlist::distinct(const ValueHotlist& a, const ValueHotlist& b) {
  if (a.sketch_ == nullptr && b.sketch_ == nullptr) {
    uint64_t in_both = 0;
    const std::vector<ValueCount> others = b.all();
    for (const ValueCount& v : a.all())
      in_both += std::any_of(others.begin(), others.end(),
                             [&](const ValueCount& w) { return w.value == v.value; });
    return {a.entries_ + b.entries_ - in_both, 0};
  }
  Sketch both;
  for (const ValueHotlist* list : {&a, &b}) {
    if (list->sketch_ == nullptr) {
      for (const ValueCount& v : list->all()) both.add(hash(v.value));
    } else {
      for (size_t i = 0; i < kRegisters; i++)
        both.registers[i] = std::max(both.registers[i], list->sketch_->registers[i]);
    }
  }
  const uint64_t count = std::max<uint64_t>({both.estimate(), a.entries_, b.entries_});
  return {count, static_cast<uint64_t>(std::ceil(kSketchError_share * static_cast<double>(count)))};
}

double ValueHotlist::new_share() const {
  if (sketch_ == nullptr || sketch_->window <= 2 || sketch_->followed.empty()) return 0;
  double once = 0, all = 0;
  for (const Followed& f : sketch_->followed) {
    once += f.windows == 1;
    all += f.windows;
  }
  return once / all;
}

double ValueHotlist::count_error() const {
  return std::sqrt(threshold_ * (threshold_ - 1));
}

Estimate distinct_in_all(Estimate seen, double new_share, uint64_t looked, uint64_t all) {
  if (new_share <= 0 || looked == 0 || looked >= all) return seen;
  const auto d = static_cast<double>(seen.count);
  const auto rest = static_cast<double>(all - looked);
  const double unseen_share = rest / static_cast<double>(all);
  const double found = std::min(d / (1 - unseen_share * new_share), d + rest);
  const double grown = found / d;
  // The share comes from few values; both that and what was seen have an error.
  const double of_share = found * grown * unseen_share *
                          std::sqrt(new_share * (1 - new_share) / ValueHotlist::kFollowed);
  const double error = std::hypot(grown * static_cast<double>(seen.error), of_share);
  return {static_cast<uint64_t>(std::llround(found)),
          static_cast<uint64_t>(std::ceil(std::min(error, d + rest)))};
}

}  // namespace shadowprof::profile
