// SPDX-License-Identifier: MIT
//
// Counts of attempts to stop the program, in the modes in which it runs natively.
#pragma once

#include "base/counter.h"

namespace shadowprof::sample {

struct Attempts {
#define COUNTER(member, name) uint64_t member = 0;
#include "sample/attempts.inc"
#undef COUNTER
};
inline constexpr Counter<Attempts> kAttempts[] = {
#define COUNTER(member, name) {name, &Attempts::member},
#include "sample/attempts.inc"
#undef COUNTER
};

}  // namespace shadowprof::sample
