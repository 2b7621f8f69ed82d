// SPDX-License-Identifier: MIT
//
// What changed between two profiles: as text in columns, and as JSON.
#pragma once

#include <string>

#include "profile/compare/diff.h"
#include "report/text_report.h"

namespace shadowprof::report {

// Lists that nothing changed in are left out.
std::string render_diff(const profile::Diff& diff, const TextOptions& options);

// All figures; at most `limit` rows of each list.
std::string diff_json(const profile::Diff& diff, size_t limit);

// "+12.3 M", "-4", "0"; "+1.2%", "new", "gone".
std::string signed_count(int64_t delta);
// In the place of the change of all instructions.
inline constexpr const char* kNoTotal =
    "instructions: too few were profiled to know how many there were";

std::string change_ratio(const profile::Change& change);

}  // namespace shadowprof::report
