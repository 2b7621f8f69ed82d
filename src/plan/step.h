// SPDX-License-Identifier: MIT
//
// What is done next, and why. Times are seconds since profiling began.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shadowprof::plan {

enum class What : uint8_t {
  wait,   // nothing until at_s, or until something happens
  fork,   // a replica is made, and its first sample begins
  burst,  // a sample without a fork: the program stands still while some of its code is interpreted
  peek,   // where is the program? its code there is translated before it is needed
  go_on,  // the replica executes natively, then gives another sample
  rest,   // the replica stays stopped until at_s
  end,    // the replica is not needed any more
};

enum class Why : uint8_t {
#define WHY(reason, name, sentence) reason,
#include "plan/reasons.inc"
#undef WHY
};
inline constexpr size_t kWhys = 0
#define WHY(reason, name, sentence) +1
#include "plan/reasons.inc"
#undef WHY
    ;

// Its name in the profile, and what the user is told.
const char* name_of(Why why);
const char* sentence_of(Why why);

struct Step {
  What what = What::wait;
  Why why = Why::budget_spent;
  double at_s = 0;      // wait, rest: until then
  double native_s = 0;  // go_on: natively for so long, on the replica's clock
  bool warms_up = false;  // go_on: for longer than usual, so that its caches are warm in the end
  double length_s = 0;  // fork, go_on: the sample's, on the replica's clock
};

}  // namespace shadowprof::plan
