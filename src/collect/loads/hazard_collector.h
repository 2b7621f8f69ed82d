// SPDX-License-Identifier: MIT
//
// Folds a trace with address registers into what keeps a processor waiting for its own accesses:
// loads that cannot take their bytes from a store before them, though they overlap it; loads whose
// address agrees with such a store's in the low 12 bits only; accesses across cache lines and
// pages. docs/hazards.md says what each means.
//
// A store is recent while fewer than kStores others and at most kInsns instructions follow it. That
// is more than most processors have under way, so what is reported is what can happen, at most so
// often. Of several recent stores to equal low 12 bits the last one counts. In samples, loads of
// the first kInsns instructions are not looked at.
#pragma once

#include <memory>

#include "collect/collector.h"
#include "collect/loads/access_follower.h"

namespace shadowprof::collect {

class HazardCollector final : public Collector {
 public:
  static constexpr uint32_t kStores = 64;
  static constexpr uint64_t kInsns = 200;

  HazardCollector(const trace::BlockTable& table, AccessFollowerOptions options);
  ~HazardCollector() override;

  void consume(const trace::Chunk& chunk) override;
  // Adds to `into`: modules, the table of hazards, events of coverage.
  void finish(profile::Profile& into) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shadowprof::collect
