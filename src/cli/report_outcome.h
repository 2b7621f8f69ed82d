// SPDX-License-Identifier: MIT
//
// What `run` and `attach` do with a profile that they have got.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "profile/profile.h"

namespace shadowprof::cli {

struct OutcomeOptions {
  std::string output;
  bool verbose = false;
};

// Which processes went on unprofiled, with -q, too, but for what the user has asked for.
void say_what_is_missing(const profile::Profile& profile);

// Says what went wrong on the way, writes the file, and says in one line where it is.
Status report_outcome(profile::Profile& profile, const std::vector<std::string>& warnings,
                      const std::string& internal_error, const OutcomeOptions& options);

}  // namespace shadowprof::cli
