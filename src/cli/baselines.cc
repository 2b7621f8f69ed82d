// SPDX-License-Identifier: MIT
#include "cli/baselines.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/printable.h"

namespace shadowprof::cli {
namespace {

constexpr std::string_view kBaselineSuffix = ".json.zst";

}  // namespace

Status check_baseline_name(const std::string& name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (!name.empty() && name.front() != '.' && std::ranges::all_of(name, is_plain)) return {};
  return fail("'{}' is no name for a baseline: it has letters, digits, '.', '_' and '-'",
              printable(name));
}

std::string baseline_file(const std::string& folder, const std::string& name) {
  return folder + "/" + name + std::string(kBaselineSuffix);
}

Result<std::vector<std::string>> baseline_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  std::filesystem::directory_iterator entry(folder, problem);
  if (problem == std::errc::no_such_file_or_directory) return names;
  for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    std::string file = entry->path().filename().string();
    if (!file.ends_with(kBaselineSuffix)) continue;
    file.resize(file.size() - kBaselineSuffix.size());
    if (check_baseline_name(file)) names.push_back(std::move(file));
  }
  if (problem) return fail_errno(problem.value(), "cannot read {}", folder);
  std::ranges::sort(names);
  return names;
}

}  // namespace shadowprof::cli
