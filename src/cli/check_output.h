// SPDX-License-Identifier: MIT
//
// Where the findings of `check` go.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "report/check_report.h"

namespace shadowprof::cli {

inline constexpr const char* kSarifFile = "shadowprof.sarif";

Status write_findings(const std::vector<report::Comparison>& all, report::CheckFormat format,
                      const std::string& file);

// All that GitHub shows, in one go: annotations on standard output, the summary appended to the
// file that GITHUB_STEP_SUMMARY names, and SARIF in a file of ours.
Status write_github(const std::vector<report::Comparison>& all, const std::string& sarif_file);

}  // namespace shadowprof::cli
