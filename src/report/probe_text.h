// SPDX-License-Identifier: MIT
//
// What reports say of the user's probes, as text and on the page.
#pragma once

#include <string>

#include "profile/profile.h"

namespace shadowprof::report {

// A number, or a range of them: "64", "64 to 127".
std::string probe_number(const profile::HotProbe::Number& number);

// A call stack of no calls, and one that goes on where nobody knows.
inline constexpr const char* kNoCaller = "no caller";
inline constexpr const char* kUnknownCaller = "caller not known";
inline bool is_unknown_caller(const profile::HotProbe::Number& call) {
  return !call.place && call.number == 0;
}

// "1.20 M of 2.00 M executions counted; 12 with values that are not known".
std::string probe_sums(const profile::ProbeInfo& probe, bool exact);

}  // namespace shadowprof::report
