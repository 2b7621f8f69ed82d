// SPDX-License-Identifier: MIT
//
// What changed between two profiles as one HTML page: the lists of `diff`, and one flame graph of
// the calling contexts of both. What html_report.h says of pages holds for it.
#pragma once

#include <string>

#include "profile/compare/diff.h"
#include "report/html_report.h"

namespace shadowprof::report {

struct ComparedProfile {
  const profile::Profile& profile;
  std::string file;
};

std::string render_html_diff(const profile::Diff& diff, const ComparedProfile& base,
                             const ComparedProfile& now, const HtmlOptions& options);

}  // namespace shadowprof::report
