// SPDX-License-Identifier: MIT
//
// What page faults cost on this host, measured on memory of our own.
#pragma once

#include <optional>
#include <span>

#include "machine/page_faults.h"

namespace shadowprof::probe {

// Seconds for a page, as in FaultPrice, but as they were measured: what cannot be told from the
// rest may be less than nothing.
struct FaultRound {
  double copied = 0;
  double kept = 0;
  double mapped = 0;
};

// Four milliseconds. Makes children and waits for them, so whoever calls it must not wait for any
// child of his at the same time. Nothing where it cannot be measured.
std::optional<FaultRound> measure_fault_round();
// The middle ones. At least one round.
machine::FaultPrice price_of(std::span<const FaultRound> rounds);

}  // namespace shadowprof::probe
