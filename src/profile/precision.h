// SPDX-License-Identifier: MIT
//
// How exactly those functions are known that matter: what --until-error is compared with.
//
// The functions that matter are the first ones, in the order of reports, that together have 80 % of
// what all functions have: of the processor time, or of the instructions where time was not
// measured. A report shows half of the 95 % interval of their shares, in percentage points ("±");
// the widest of these is the precision. Where time was measured that of their share of the
// instructions counts, too, so that a profile is not taken for exact because ticks are many and
// samples few.
#pragma once

#include <cstddef>
#include <optional>

#include "profile/profile.h"

namespace shadowprof::profile {

inline constexpr double kShareThatMatters = 0.8;

struct Precision {
  double widest = 0;     // half of an interval, as a share
  size_t functions = 0;  // that matter
  bool by_time = false;  // they are the first by it
};

// Functions of the profile have names already. Nothing: the errors are not known, or there is not
// enough for conclusions (evidence.h).
std::optional<Precision> precision_of(const Profile& profile);

}  // namespace shadowprof::profile
