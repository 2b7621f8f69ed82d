// SPDX-License-Identifier: MIT
//
// The profile file: JSON as docs/profile.schema.json describes it. Big tables are columns of
// numbers, written and formatted in bounded memory. Names come out of the profiled program: bytes
// that are not UTF-8 are written as U+FFFD.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "profile/file/compression.h"
#include "profile/profile.h"

namespace shadowprof::profile {

// Would write_profile(path) be allowed and able to make its file? To be asked before the program
// runs. "-" is stdout. An existing file must be one of our profiles, or empty.
Status check_output(const std::string& path);

// The file begins like a profile of ours, or is empty. It is there, and no pipe.
Result<bool> is_profile_file(const std::string& path);

// Regular files: written beside the target with mode 0600 and renamed over it, so that whatever
// fails leaves the old file. Devices and pipes are written in place.
Status write_profile(const Profile& profile, const std::string& path,
                     Effort effort = Effort::quick);

// A baseline (baseline.h) has not what most readers need: refused unless they say so.
enum class Accept { profiles, baselines_too };
Result<Profile> read_profile(const std::string& path, Accept accept = Accept::profiles);
Result<Profile> parse_profile(std::string_view text);

// The whole document in memory.
std::string profile_json(const Profile& profile);

// The hotlists alone, as the file has them.
std::string hotlists_json(const Hotlists& hotlists);

}  // namespace shadowprof::profile
