// SPDX-License-Identifier: MIT
#include "report/columns.h"

#include <fmt/format.h>

#include <algorithm>

namespace shadowprof::report {

using profile::Place;

namespace {

// Functions without a symbol are named by their offset; with the module before it that says more.
constexpr std::string_view kUnnamed = "function@";

// More than any terminal shows of a name in a column.
constexpr size_t kMostNameBytes = 4096;

// Characters, taken as one column each.
size_t width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

bool has_name(const Place& p) {
  return !p.function.empty() && !p.function.starts_with(kUnnamed);
}

void erase_all(std::string& text, std::string_view what) {
  for (size_t at; (at = text.find(what)) != std::string::npos;) text.erase(at, what.size());
}

// The names of templates' instances begin with the type that they return: it ends at the last blank
// that is in no brackets.
void erase_returned_type(std::string& name) {
  constexpr std::string_view kOperator = "operator";  // has blanks of its own
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < name.size(); i++) {
    const char c = name[i];
    const bool word_begins = i == begin || name[i - 1] == ':';
    if (depth == 0 && word_begins && name.compare(i, kOperator.size(), kOperator) == 0) break;
    const bool is_arrow = c == '>' && i > 0 && name[i - 1] == '-';
    if (c == '<' || c == '(' || c == '[' || c == '{') depth++;
    if ((c == '>' && !is_arrow) || c == ')' || c == ']' || c == '}') depth--;
    if (c == ' ' && depth == 0) begin = i + 1;
  }
  name.erase(0, begin);
}

// Columns are narrow: without parameters, and without words that say the same for many names. What
// is in parentheses at the end goes, unless nothing but an operator would be left.
std::string short_name(std::string name) {
  if (name.size() > kMostNameBytes) name.resize(kMostNameBytes);
  erase_all(name, "(anonymous namespace)::");
  erase_all(name, "[abi:cxx11]");
  const size_t last = name.rfind(')');
  if (last == std::string::npos) return name;
  // Behind parameters stand "const", "&", "[clone .cold]"; else it was a template's argument.
  if (name.find_first_of(">:}", last) != std::string::npos) return name;
  size_t depth = 0;
  for (size_t i = last + 1; i-- > 0;) {
    if (name[i] == ')') depth++;
    if (name[i] != '(' || --depth != 0) continue;
    if (i != 0 && !name.substr(0, i).ends_with("operator")) name.resize(i);
    if (name.ends_with('>')) erase_returned_type(name);
    break;
  }
  return name;
}

}  // namespace

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

std::string source(const Place& p) {
  if (p.file.empty()) return "";
  return fmt::format("{}:{}", printable(file_name(p.file)), p.line);
}

std::string file_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string module_name(const Place& p) {
  return p.module.empty() ? "[anonymous]" : printable(file_name(p.module));
}

std::string function_or_address(const Place& p) {
  if (has_name(p)) return printable(short_name(p.function));
  if (p.function.empty()) return fmt::format("{}+{:#x}", module_name(p), p.offset);
  return module_name(p) + "+" + printable(p.function.substr(kUnnamed.size()));
}

std::string point(const Place& p, size_t columns, std::optional<uint64_t> into_function) {
  if (into_function && has_name(p)) {
    const std::string suffix = fmt::format("+{:#x}", *into_function);
    const size_t taken = std::min(columns, suffix.size());
    return fit(fit(function_or_address(p), columns - taken) + suffix, columns);
  }
  const std::string line = source(p);
  const std::string where = line.empty() ? fmt::format("{}+{:#x}", module_name(p), p.offset) : line;
  if (!has_name(p) || columns < 12) return fit(where, columns);
  const size_t least = columns / 4;
  const size_t name_columns = std::max(columns - std::min(columns, width(where) + 1), least);
  return fit(fit(function_or_address(p), name_columns) + " " + where, columns);
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
