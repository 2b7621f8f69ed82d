// SPDX-License-Identifier: MIT
//
// Profiles that somebody else may see: what the program has computed with is taken out, and how
// often stays (run, attach --redact-values).
//
// Each value becomes a random number: the same one wherever the profile has that value, another one
// in the next profile. An address of the run becomes another address, so that what it is worth is
// judged as before. So it goes for computed and loaded values, arguments, and the numbers that
// probes capture. Places in code, addresses of memory pages and lines, and what plug-ins return
// stay as they are.
#pragma once

#include "profile/profile.h"

namespace shadowprof::profile {

// The option of a run that says so, and what it says then.
inline constexpr const char* kValuesOption = "values";
inline constexpr const char* kHiddenValues = "hidden";

bool has_hidden_values(const Profile& profile);

// The hotlists, too, if they have been computed.
void hide_values(Profile& profile);

// Values of these lists are hidden ones: they are to be shown as such.
void mark_values_hidden(Hotlists& lists);

}  // namespace shadowprof::profile
