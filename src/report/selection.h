// SPDX-License-Identifier: MIT
//
// Hotlists as a reader wants them: other orders, and only the rows that something is in. Ranks stay
// those of the whole profile.
#pragma once

#include <string_view>

#include "profile/hotlists/hotlists.h"

namespace shadowprof::report {

// `sort` orders the methods, and what was inlined as far as it has the figure: time or nothing (as
// they are), instructions or self, total, calls, loops, name. `filter` keeps the rows with a
// function, file or module that contains it, whatever the case; "" keeps all. False: none is left
// of those that were there.
bool select_rows(profile::Hotlists& lists, std::string_view sort, std::string_view filter);

}  // namespace shadowprof::report
