// SPDX-License-Identifier: MIT
//
// Two profiles, read and compared: what diff, check and report have in common.
#pragma once

#include <string>

#include "profile/compare/diff.h"

namespace shadowprof::cli {

struct ComparedFiles {
  profile::Profile base;
  profile::Profile now;
  profile::Diff diff;
};

// Reads both files and compares them, with source lines from the programs' files where these are
// still the ones that ran.
Result<ComparedFiles> compare_files(const std::string& base, const std::string& now);

// Warns where one of them has only a part of its program.
void tell_of_gaps(const profile::Diff& diff, const std::string& base, const std::string& now);

// Compares them and writes the page of what changed; `output` may be "-".
Status write_diff_page(const std::string& base, const std::string& now, size_t rows,
                       const std::string& output);

// What probes and plug-ins have counted is not compared.
void tell_of_probes(const profile::Profile& a, const profile::Profile& b);

}  // namespace shadowprof::cli
