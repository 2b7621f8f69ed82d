// SPDX-License-Identifier: MIT
//
// What the threads of an AccessFollower have in common where it counts pairs of accesses.
#pragma once

#include "collect/loads/access_follower.h"
#include "collect/loads/access_pairs.h"

namespace shadowprof::collect {

struct FollowedPairs {
  static constexpr size_t kMostRows = 20'000;  // of the file's table

  // The rows go to `rows_of`, most frequent first; what had none is the event `pruned_event`.
  FollowedPairs(const trace::BlockTable& table, AccessFollowerOptions how,
                profile::AccessPairTable profile::Tables::*rows_of, const char* pruned_event)
      : plans(table), options(how), to(rows_of), event(pruned_event) {
    if (options.sampled) plans.keep_errors();
  }

  void end_chunk() {
    if (!options.sampled) pairs.forget_touched();
  }
  void end_observation() {
    plans.end_observation([this] { pairs.end_observation(plans); });
  }
  void finish(const TableBuilder& builder, profile::Profile& into) {
    pairs.finish(plans, builder, kMostRows, into.tables.*to);
    if (pairs.pruned() != 0) into.coverage.events[event] += pairs.pruned();
  }

  AccessPlans plans;
  AccessPairs pairs;
  AccessFollowerOptions options;
  profile::AccessPairTable profile::Tables::*to;
  const char* event;
};

}  // namespace shadowprof::collect
