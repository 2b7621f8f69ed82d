// SPDX-License-Identifier: MIT
#include "report/columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/short_names.h"

namespace shadowprof::report {

using profile::Place;

namespace {

// Functions without a symbol are named by their offset; with the module before it that says more.
constexpr std::string_view kUnnamed = "function@";

bool has_name(const Place& p) {
  return !p.function.empty() && !p.function.starts_with(kUnnamed);
}

}  // namespace

size_t width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string fit(std::string_view text, size_t columns) {
  if (width(text) <= columns) return std::string(text);
  std::string result;
  size_t used = 0;
  for (char c : text) {
    if ((c & 0xc0) != 0x80 && ++used >= columns) break;
    result += c;
  }
  return result + "…";
}

std::string left(std::string_view text, size_t columns) {
  std::string result = fit(text, columns);
  result.append(columns - std::min(columns, width(result)), ' ');
  return result;
}

std::string short_count(uint64_t n) {
  if (n < 1000) return fmt::format("{}", n);
  constexpr const char* kUnits[] = {"k", "M", "G", "T", "P", "E"};
  double value = static_cast<double>(n) / 1000;
  size_t unit = 0;
  while (value >= 999.5 && unit < 5) {
    value /= 1000;
    unit++;
  }
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

std::string percent(double share) {
  return fmt::format("{:.1f}%", share * 100);
}

std::optional<std::string> streams_seen(const profile::StreamCounts& counts) {
  if (counts.skipped == 0) return std::nullopt;
  const auto all = static_cast<double>(counts.references + counts.skipped);
  return fmt::format("an estimate: {} of {} references were looked at",
                     percent(static_cast<double>(counts.references) / all),
                     short_count(counts.references + counts.skipped));
}

std::string source(const Place& p) {
  if (p.file.empty()) return "";
  return fmt::format("{}:{}", printable(file_name(p.file)), p.line);
}

std::string module_name(const Place& p) {
  return p.module.empty() ? "[anonymous]" : printable(file_name(p.module));
}

std::string function_or_address(const Place& p) {
  if (has_name(p)) return printable(short_name(p.function));
  if (p.function.empty()) return fmt::format("{}+{:#x}", module_name(p), p.offset);
  return module_name(p) + "+" + printable(p.function.substr(kUnnamed.size()));
}

std::string function_or_address(const Place& p, size_t columns) {
  const std::string name = function_or_address(p);
  return has_name(p) ? fit_name(name, columns) : fit(name, columns);
}

std::string point(const Place& p, size_t columns, std::optional<uint64_t> into_function) {
  if (into_function && has_name(p)) {
    const std::string suffix = fmt::format("+{:#x}", *into_function);
    const size_t taken = std::min(columns, suffix.size());
    return fit(function_or_address(p, columns - taken) + suffix, columns);
  }
  const std::string line = source(p);
  const std::string where = line.empty() ? fmt::format("{}+{:#x}", module_name(p), p.offset) : line;
  if (!has_name(p) || columns < 12) return fit(where, columns);
  const size_t least = columns / 4;
  const size_t name_columns = std::max(columns - std::min(columns, width(where) + 1), least);
  return fit(function_or_address(p, name_columns) + " " + where, columns);
}

FunctionOffsets::FunctionOffsets(const profile::Profile& profile) : profile_(profile) {
  for (uint32_t i = 0; i < profile.modules.size(); i++)
    modules_.try_emplace(profile.modules[i].path, i);
}

std::optional<uint64_t> FunctionOffsets::of(const Place& p) const {
  const auto module = modules_.find(p.module);
  if (!p.file.empty() || p.module.empty() || module == modules_.end()) return std::nullopt;
  const profile::Function* f = find_function(profile_.functions, {module->second, p.offset});
  if (f == nullptr || f->name != p.function) return std::nullopt;
  return p.offset - f->at.offset;
}

}  // namespace shadowprof::report
