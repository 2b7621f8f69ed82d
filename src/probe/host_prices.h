// SPDX-License-Identifier: MIT
//
// What page faults and a busy core cost on this host, without making the program wait for it.
//
// What was measured since the host was started is kept (host_notes.h). Of the rest the busy core is
// measured before the program begins, since it would be one: about three milliseconds. Faults are
// measured by the front process (cli/front.h) while the program runs already; until it knows more
// the default prices hold. What a neighbour costs in the last cache takes two cores for long, so
// the front measures that behind a program that took some seconds, for later runs. All are measured
// in rounds, and a round counts though it is the only one: each run adds some, until there are
// enough.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "machine/page_faults.h"
#include "probe/cache_neighbour.h"
#include "probe/contention.h"
#include "probe/host_notes.h"

namespace shadowprof::probe {

class HostPrices {
 public:
  // To be made before the front and its worker part.
  HostPrices();
  ~HostPrices();
  HostPrices(const HostPrices&) = delete;
  HostPrices& operator=(const HostPrices&) = delete;

  // The worker's, before the program begins.
  BusyCore busy_core() const;
  // By what share a loop over 7 MB is slower beside another one. Nothing: no run has measured it.
  std::optional<double> cache_neighbour_loss() const { return cache_neighbour_.loss(); }
  // As far as is known.
  machine::FaultPrice faults() const;
  // What is known since the last call of either.
  std::optional<machine::FaultPrice> news_of_faults();

  // The front's. Asks is_over() every few milliseconds, and returns when it says so.
  void measure_faults(const std::function<bool()>& is_over);
  // The front's, when the program has ended. Takes some 70 ms where that took long.
  void measure_cache_neighbour();

 private:
  struct Shared;  // by front and worker
  HostNotes notes_;
  Shared* shared_ = nullptr;
  CacheNeighbourNotes cache_neighbour_{notes_};
  const std::chrono::steady_clock::time_point begun_at_ = std::chrono::steady_clock::now();
  mutable uint32_t rounds_known_ = 0;
};

}  // namespace shadowprof::probe
