// SPDX-License-Identifier: MIT
#include "collect/streams/stream_collector.h"

#include <cmath>

#include "collect/streams/stream_rows.h"
#include "profile/random.h"
#include "profile/tables/memory_table.h"

namespace shadowprof::collect {
namespace {

using Limits = StreamLimits;

struct FollowedStreams {
  FollowedStreams(const trace::BlockTable& table, AccessFollowerOptions how)
      : plans(table), options(how) {}

  void end_chunk() {}
  void end_observation() { rows.end_observation(); }
  void finish(const TableBuilder& builder, profile::Profile& into) {
    rows.finish(plans, builder, options.sampled, into.tables.streams);
    into.coverage.streams = rows.counts;
  }

  AccessPlans plans;
  AccessFollowerOptions options;
  StreamRows rows;
  HotStreams finder;
  profile::Random random{1};
};

class StreamThread {
 public:
  explicit StreamThread(FollowedStreams& followed) : followed_(followed) {}

  void forget() {
    end_burst();
    gap_ = 0;
    stack_ = 0;
  }
  void interrupt() {}

  void take(PlannedRun& run, const trace::Word* record) {
    followed_.plans.count(run);
    if (run.accesses == 0) return;
    if (gap_ != 0) {
      gap_ -= std::min<uint64_t>(gap_, run.accesses);
      followed_.rows.counts.skipped += run.accesses;
      return;
    }
    accesses_ += run.accesses;
    for (const PlannedAccess& access : followed_.plans.accesses(run))
      if (access.event <= AccessEvent::store) take(access, access.address(record));
  }

 private:
  void take(const PlannedAccess& access, uint64_t address) {
    if (access.on_stack) stack_ = address;
    if (address - stack_ + Limits::kStackBelow < Limits::kStackBelow + Limits::kStackAbove) {
      followed_.rows.counts.stack++;
      return;
    }
    const uint64_t reference = stream_terminal(access.site, address / profile::kCacheLineBytes);
    if (reference == last_) return;
    last_ = reference;
    grammar_.append(reference);
    if (++references_ < Limits::kMostReferences && !grammar_.is_full()) [[likely]]
      return;
    const uint64_t longest = 2 * (Limits::kOneIn - 1) * accesses_;
    end_burst();
    gap_ = followed_.random.next() % (longest + 1);
  }

  void end_burst() {
    if (references_ == 0) return;
    if (references_ < Limits::kLeastReferences) {
      followed_.rows.counts.skipped += references_;
    } else {
      const auto least = std::ceil(Limits::kLeastShare * static_cast<double>(references_));
      const auto& hot = followed_.finder.find(grammar_, static_cast<uint64_t>(least));
      followed_.rows.add_burst(followed_.plans, grammar_, followed_.finder, hot, references_);
    }
    grammar_.clear();
    references_ = accesses_ = 0;
    last_ = kNone;
  }

  static constexpr uint64_t kNone = ~uint64_t{0};

  FollowedStreams& followed_;
  Sequitur grammar_{Limits::kMostSymbols};
  uint64_t references_ = 0;  // of this burst
  uint64_t accesses_ = 0;    // with all that is not one
  uint64_t last_ = kNone;
  uint64_t stack_ = 0;  // where the stack was last accessed through rsp
  uint64_t gap_ = 0;    // loads and stores until the next burst
};

}  // namespace

std::unique_ptr<Collector> make_stream_collector(const trace::BlockTable& table,
                                                 AccessFollowerOptions options) {
  return std::make_unique<AccessFollower<StreamThread, FollowedStreams>>(table, options, "stream");
}

}  // namespace shadowprof::collect
