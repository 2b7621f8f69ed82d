// SPDX-License-Identifier: MIT
//
// What page faults and stops cost on this host, measured on memory and a child of our own.
#pragma once

#include <optional>
#include <span>

#include "machine/page_faults.h"

namespace shadowprof::probe {

// Seconds for a page, or a stop, as in FaultPrice, but as they were measured: what cannot be told
// from the rest may be less than nothing.
struct FaultRound {
  double copied = 0;
  double kept = 0;
  double mapped = 0;
  double stopped = 0;  // 0: not known, as children may not be traced
};

// Five milliseconds. Makes children and waits for them, so whoever calls it must not wait for any
// child of his at the same time. Nothing where it cannot be measured.
std::optional<FaultRound> measure_fault_round();
// The middle ones. At least one round.
machine::FaultPrice price_of(std::span<const FaultRound> rounds);

}  // namespace shadowprof::probe
