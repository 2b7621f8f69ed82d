// SPDX-License-Identifier: MIT
//
// The state of one stream of values: the last value with the number of times it has come in a row,
// and what was learned before it. The part that every event touches is one cache line.
#pragma once

#include <algorithm>
#include <cmath>

#include "profile/value_table.h"

namespace shadowprof::collect {

struct alignas(64) ValueEntry {
  uint64_t last = 0;
  uint64_t pending =
      0;  // times that `last` came in a row, not in the figures yet; 0: there is no last one
  uint64_t stride = 0;  // what `last` differed from its predecessor by
  bool has_stride = false;
  uint32_t weight = 1;  // of the latest event
  uint64_t count = 0;
  uint64_t zero = 0;
  uint64_t same = 0;
  uint64_t strided = 0;
  profile::ValueHotlist hotlist;
  uint64_t executed = 0;  // filled in at the end

  // The figures without what is pending. Where only a part was looked at, scaled to what executed.
  profile::ValueFigures figures() const {
    profile::ValueFigures f{count, zero, same, strided, hotlist.distinct(), hotlist.top(count)};
    if (executed == 0 || executed == count) return f;
    const double factor = static_cast<double>(executed) / static_cast<double>(count);
    const auto scale = [&](uint64_t& n) {
      n = std::min(executed, static_cast<uint64_t>(std::llround(static_cast<double>(n) * factor)));
    };
    for (uint64_t* n : {&f.zero, &f.same, &f.strided}) scale(*n);
    for (profile::ValueCount& v : f.top) scale(v.count);
    f.count = executed;
    return f;
  }
};

class ValueSink {
 public:
  ValueSink(profile::HotlistKind kind, uint32_t capacity, uint64_t seed)
      : kind_(kind), capacity_(capacity), random_(seed) {}

  // `weight`: how many occurrences this one stands for.
  void add(ValueEntry& e, uint64_t value, uint32_t weight) {
    if (e.last == value) {
      e.pending += weight;
      e.weight = weight;
      return;
    }
    change(e, value, weight);
  }
  // Ends the stream: what comes next has no predecessor.
  void end(ValueEntry& e) {
    settle(e);
    e.pending = 0;
    e.has_stride = false;
  }

 private:
  // `last` came n times in a row: n - 1 times it was foretold by its predecessor, and n - 2 times
  // the difference was 0 as before; once more if it was 0 even then, which cannot be: it had
  // changed.
  void settle(ValueEntry& e) {
    const uint64_t n = e.pending;
    if (n == 0) return;
    e.count += n;
    e.zero += e.last == 0 ? n : 0;
    if (n > e.weight) {
      e.same += n - e.weight;
      e.strided += n > 2 * uint64_t{e.weight} ? n - 2 * uint64_t{e.weight} : 0;
      e.stride = 0;
      e.has_stride = true;
    }
    e.hotlist.add(e.last, n, kind_, capacity_, random_);
  }
  void change(ValueEntry& e, uint64_t value, uint32_t weight) {
    settle(e);
    const uint64_t stride = value - e.last;
    if (e.pending != 0) {
      e.strided += e.has_stride && stride == e.stride ? weight : 0;
      e.stride = stride;
      e.has_stride = true;
    }
    e.last = value;
    e.pending = weight;
    e.weight = weight;
  }

  const profile::HotlistKind kind_;
  const uint32_t capacity_;
  profile::Random random_;
};

}  // namespace shadowprof::collect
