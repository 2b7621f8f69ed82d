// SPDX-License-Identifier: MIT
//
// A profile's threads for programs.
#pragma once

#include <string>

#include "profile/profile.h"
#include "profile/thread_view.h"

namespace shadowprof::report {

// {"threads": [...]}: as the profile has them, with shares and halves of their intervals.
std::string threads_json(const profile::Profile& profile);

// A profile that was reduced to these threads: they, their functions (with what is known of them by
// thread), and the names of the lists that are not known by thread.
std::string part_json(const profile::Profile& profile, const profile::ThreadPart& part);

}  // namespace shadowprof::report
