// SPDX-License-Identifier: MIT
#include "report/short_names.h"

#include <algorithm>
#include <utility>

#include "base/go_names.h"
#include "report/columns.h"

namespace shadowprof::report {
namespace {

// More than any terminal shows of a name in a column.
constexpr size_t kMostNameBytes = 4096;

// What it is replaced by does not hold it.
void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), by);
}

void erase_all(std::string& text, std::string_view what) {
  replace_all(text, what, "");
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

// The arguments of the innermost brackets at that place end here. npos: they do not.
size_t end_of_argument(std::string_view name, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < name.size(); i++) {
    const char c = name[i];
    if (c == '<' || c == '(' || c == '[' || c == '{') depth++;
    if (c == '>' || c == ')' || c == ']' || c == '}') depth--;
    if (depth < 0 || (depth == 0 && c == ',')) return i;
  }
  return std::string_view::npos;
}

void erase_allocators(std::string& name) {
  constexpr std::string_view kAllocator = ", std::allocator<";
  size_t at = 0;
  while ((at = name.find(kAllocator, at)) != std::string::npos) {
    const size_t end = end_of_argument(name, at + 2);
    if (end == std::string::npos) return;
    name.erase(at, end - at);
  }
}

void call_by_usual_names(std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kUsual[] = {
      {"std::basic_string<char, std::char_traits<char>>", "std::string"},
      {"std::basic_string_view<char, std::char_traits<char>>", "std::string_view"},
      {"std::basic_ostream<char, std::char_traits<char>>", "std::ostream"},
      {"std::basic_istream<char, std::char_traits<char>>", "std::istream"},
  };
  for (const auto& [long_one, short_one] : kUsual) replace_all(name, long_one, short_one);
}

// Where the list that `open` begins is over.
size_t end_of_argument_list(std::string_view name, size_t open) {
  size_t end = end_of_argument(name, open + 1);
  while (end != std::string_view::npos && name[end] == ',') end = end_of_argument(name, end + 1);
  return end;
}

// A `<` at this place opens a template's arguments: it is no operator's.
bool opens_arguments(std::string_view name, size_t at) {
  std::string_view before = name.substr(0, at);
  while (before.ends_with('<')) before.remove_suffix(1);
  return !before.ends_with("operator");
}

// Columns are narrow: without parameters, and without words that say the same for many names. What
// is in parentheses at the end goes, unless nothing but an operator would be left.
}  // namespace

std::string short_name(std::string name) {
  if (name.size() > kMostNameBytes) name.resize(kMostNameBytes);
  erase_all(name, "(anonymous namespace)::");
  erase_all(name, "[abi:cxx11]");
  erase_all(name, "__cxx11::");
  replace_all(name, "> >", ">>");
  erase_allocators(name);
  call_by_usual_names(name);
  const size_t last = name.rfind(')');
  if (last == std::string::npos || has_receiver(name)) return name;
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

std::string fit_name(std::string_view name, size_t columns) {
  std::string text(name);
  for (size_t from = 0; width(text) > columns;) {
    const size_t open = text.find('<', from);
    if (open == std::string::npos) break;
    const size_t close = end_of_argument_list(text, open);
    from = open + 1;
    if (close == std::string::npos || !opens_arguments(text, open)) continue;
    if (close > open + 1) text.replace(open + 1, close - open - 1, "…");
    from = text.find('>', open);
  }
  while (width(text) > columns) {
    const size_t next = text.find("::", text.starts_with("…") ? 5 : 0);
    if (next == std::string::npos) break;
    text.replace(0, next, "…");
  }
  return fit(text, columns);
}

}  // namespace shadowprof::report
