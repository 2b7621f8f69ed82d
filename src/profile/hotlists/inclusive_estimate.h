// SPDX-License-Identifier: MIT
//
// Instructions between call and return, where only calls were counted and not followed.
//
//   inclusive(f) = self(f) + sum over callees g of inclusive(g) * calls(f, g) / calls(g)
//
// that is, each call of g is taken to cost the same. Right for functions whose work does not depend
// on the caller, and for all that is called from one place; else an estimate. Of functions that
// call each other in a circle the calls within one another's are told by the same rule
// (call_circle.h); where that cannot be solved they share the figure of the circle. A jump to where
// another function begins counts as a call.
#pragma once

#include "profile/profile.h"

namespace shadowprof::profile {

// After attribute_functions: fills the inclusive figures of functions and call pairs, and says so
// in the profile's options ("inclusive": "estimated"). Invocations by such jumps are added, too.
void estimate_inclusive(Profile& profile);

}  // namespace shadowprof::profile
