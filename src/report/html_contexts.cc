// SPDX-License-Identifier: MIT
#include <map>

#include "report/html_data.h"
#include "report/stacks.h"

namespace shadowprof::report {

using profile::ContextRow;
using profile::Profile;

namespace {

// What is narrower cannot be seen, and not clicked.
constexpr double kLeastVisibleShare = 0.0005;
constexpr size_t kMostRows = 8000;

}  // namespace

HtmlJson page_contexts(const Profile& profile) {
  const profile::ContextTable& contexts = profile.tables.contexts;
  const std::vector<uint64_t> totals = context_totals(contexts);
  uint64_t all = 0;
  for (const ContextRow& row : contexts) all += row.self;
  std::map<std::string, size_t> index;
  HtmlJson names = HtmlJson::array(), rows = HtmlJson::array();
  std::vector<int> place(contexts.size(), -1);
  bool cut = false;
  for (size_t i = 0; i < contexts.size(); i++) {
    const ContextRow& row = contexts[i];
    const bool orphan = row.parent != profile::kNoContext && place[row.parent] < 0;
    const double share = static_cast<double>(totals[i]) / static_cast<double>(all + 1);
    if (orphan || share < kLeastVisibleShare || rows.size() >= kMostRows) {
      cut = cut || totals[i] != 0;
      continue;
    }
    const std::string name =
        row.kind == profile::ContextKind::code
            ? function_frame(profile, find_function(profile.functions, row.at), row.at).name
            : profile::context_label(row.kind);
    const auto [entry, added] = index.try_emplace(name, names.size());
    if (added) names.push_back({page_name(name), page_text(name)});
    place[i] = static_cast<int>(rows.size());
    rows.push_back({row.parent == profile::kNoContext ? -1 : place[row.parent], entry->second,
                    totals[i], row.self, row.calls});
  }
  return {{"names", std::move(names)}, {"rows", std::move(rows)}, {"all", all}, {"cut", cut}};
}

}  // namespace shadowprof::report
