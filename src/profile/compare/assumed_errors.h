// SPDX-License-Identifier: MIT
//
// The errors of profiles that know none. A sampled profile of one group of samples says nothing of
// how far its counts are off. Where it is added to others, each of its counts is taken to have a
// standard error as large as itself: a sum of many such runs is the more certain the more runs
// there are, and one large run among small ones is not.
#pragma once

#include "profile/profile.h"

namespace shadowprof::profile {

// Does nothing to a profile that is exact, or has errors.
void assume_errors(Profile& profile);

}  // namespace shadowprof::profile
