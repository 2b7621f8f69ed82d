// SPDX-License-Identifier: MIT
#include "profile/value_hotlist.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shadowprof::profile {
namespace {

// How much the threshold rises at a time: higher loses more of the sample, lower thins more often.
constexpr double kThresholdGrowth = 1.5;

}  // namespace

void ValueHotlist::Sketch::add(uint64_t hash) {
  const size_t i = hash >> 58;
  const auto rank = static_cast<uint8_t>(std::countl_zero(hash << 6 | 1) + 1);
  registers[i] = std::max(registers[i], rank);
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
  if (sketch_ != nullptr) sketch_->add(hash(value));
  if (n <= skip_) {
    skip_ -= n;
    return;
  }
  n -= skip_;
  skip_ = random.failures(threshold_);
  if (entries_ >= capacity) {
    if (sketch_ == nullptr) {
      overflow();
      sketch_->add(hash(value));
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
  for (const ValueCount& v : all()) sketch_->add(hash(v.value));
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
  const auto is_hot = [&](const ValueCount& v) { return static_cast<double>(v.count) >= threshold_; };
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

}  // namespace shadowprof::profile
