// SPDX-License-Identifier: MIT
//
// Two profiles, read and compared: what diff and check have in common.
#pragma once

#include <string>

#include "profile/compare/diff.h"

namespace shadowprof::cli {

// Reads both files and compares them, with source lines from the programs' files where these are
// still the ones that ran.
Result<profile::Diff> compare_files(const std::string& base, const std::string& now);

// What probes and plug-ins have counted is not compared.
void tell_of_probes(const profile::Profile& a, const profile::Profile& b);

}  // namespace shadowprof::cli
