// SPDX-License-Identifier: MIT
//
// What a run says about where and when it was, and the signals that we pass on.
#pragma once

#include <string>

#include "base/types.h"
#include "profile/profile.h"

namespace shadowprof::sample {

profile::Host describe_host();
std::string utc_now();  // "2025-01-31T12:00:00Z"

// While a program runs under us: ctrl-C and ctrl-\ reach it by itself, so we ignore them; SIGTERM
// and SIGHUP sent to us alone are noted and passed on. Writes to closed pipes and beyond the file
// size limit are errors and not our death.
void prepare_signals();
void forward_signals_to(Tid program);

}  // namespace shadowprof::sample
