// SPDX-License-Identifier: MIT
//
// What page faults cost on this host, measured on memory of our own.
#pragma once

#include <optional>
#include <span>

#include "shadow/engine_clock.h"

namespace shadowprof::sample {

// Seconds for a page, as in FaultPrice, but as they were measured: what cannot be told from the rest may be
// less than nothing.
struct FaultRound {
  double copied = 0;
  double kept = 0;
  double mapped = 0;
};

// Four milliseconds. Makes children and waits for them, so whoever calls it must not wait for any child of his at
// the same time. Nothing where it cannot be measured.
std::optional<FaultRound> measure_fault_round();
// The middle ones. At least one round.
shadow::FaultPrice price_of(std::span<const FaultRound> rounds);

}  // namespace shadowprof::sample
