// SPDX-License-Identifier: MIT
//
// The state of one stream of values: the last value with the number of times it has come in a row,
// and what was learned before it. The part that every event touches is one cache line. Entries stay
// where they are as long as the sink that has seen them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "collect/values/top_error.h"
#include "profile/tables/value_table.h"

namespace shadowprof::collect {

struct WindowStream;

struct alignas(64) ValueEntry {
  uint64_t last = 0;
  uint64_t pending =
      0;  // times that `last` came in a row, not in the figures yet; 0: there is no last one
  uint64_t stride = 0;  // what `last` differed from its predecessor by
  bool has_stride = false;
  bool is_open = false;  // has had values since ValueSink has ended all,
  bool is_seen = false;  // and since it has ended samples
  uint64_t count = 0;
  uint64_t zero = 0;
  uint64_t same = 0;
  uint64_t strided = 0;
  profile::ValueHotlist hotlist;
  uint64_t executed = 0;                 // filled in at the end; 0: not known
  std::unique_ptr<TopError> error;       // of samples, or windows, only
  std::unique_ptr<WindowStream> window;  // what was seen in windows, and stands for the rest

  // The figures without what is pending: what was seen here as it is, and what was seen in windows
  // for all the other executions. `of_samples`: errors come from samples, and are not known where
  // there were too few.
  profile::ValueFigures figures(bool of_samples) const;
};

struct WindowStream {
  ValueEntry stream;
  uint32_t latest = 0;  // window that has seen something
};

class ValueSink {
 public:
  ValueSink(profile::HotlistKind kind, uint32_t capacity, uint64_t seed)
      : kind_(kind), capacity_(capacity), random_(seed) {}

  void add(ValueEntry& e, uint64_t value) {
    if (e.last == value && e.pending != 0) {
      e.pending++;
      return;
    }
    change(e, value);
  }
  // All streams that values were added to since the last time, and their samples likewise: of many
  // thousands a sample, or a thread's turn, has few.
  void end_all() {
    for (ValueEntry* e : open_) {
      end(*e);
      e->is_open = false;
    }
    open_.clear();
  }
  void end_samples() {
    end_all();
    for (ValueEntry* e : seen_) {
      end_sample(*e);
      e->is_seen = false;
    }
    seen_.clear();
  }
  // Ends the stream and its sample.
  void end_sample(ValueEntry& e) {
    end(e);
    if (e.count == 0) return;
    if (e.error == nullptr) e.error = std::make_unique<TopError>();
    e.error->sample_ended(e.hotlist, e.count);
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
    if (n > 1) {
      e.same += n - 1;
      e.strided += n - 2;
      e.stride = 0;
      e.has_stride = true;
    }
    e.hotlist.add(e.last, n, kind_, capacity_, random_);
  }
  void change(ValueEntry& e, uint64_t value) {
    settle(e);
    const uint64_t stride = value - e.last;
    if (e.pending != 0) {
      e.strided += e.has_stride && stride == e.stride ? 1 : 0;
      e.stride = stride;
      e.has_stride = true;
    } else if (!std::exchange(e.is_open, true)) {
      open_.push_back(&e);
      if (!std::exchange(e.is_seen, true)) seen_.push_back(&e);
    }
    e.last = value;
    e.pending = 1;
  }

  const profile::HotlistKind kind_;
  const uint32_t capacity_;
  profile::Random random_;
  std::vector<ValueEntry*> open_;
  std::vector<ValueEntry*> seen_;
};

}  // namespace shadowprof::collect
