// SPDX-License-Identifier: MIT
#include "sample/code_list.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

namespace shadowprof::sample {
namespace {

constexpr std::string_view kTitle = "shadowprof code list 1\n";
constexpr std::string_view kModule = "module ";
constexpr std::string_view kEnd = "end ";

// Takes one line off the front, without its newline.
std::optional<std::string_view> take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

std::optional<uint64_t> number(std::string_view text, int base) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// `count` lines behind a module's.
std::optional<std::vector<uint64_t>> take_places(std::string_view& text, uint64_t count) {
  std::vector<uint64_t> places;
  places.reserve(count);
  while (places.size() < count) {
    std::optional<std::string_view> line = take_line(text);
    if (!line) return std::nullopt;
    const bool relative = line->starts_with('+');
    if (relative) line->remove_prefix(1);
    const auto value = number(*line, 16);
    if (!value || relative == places.empty()) return std::nullopt;
    const uint64_t before = relative ? places.back() : 0;
    if (relative && (*value == 0 || before + *value < before)) return std::nullopt;
    places.push_back(before + *value);
  }
  return places;
}

tl::unexpected<Error> damaged() {
  return fail("it is damaged");
}

}  // namespace

uint32_t checksum(std::string_view text) {
  const auto* bytes = reinterpret_cast<const Bytef*>(text.data());
  return static_cast<uint32_t>(::crc32_z(0, bytes, text.size()));
}

std::string write_code_list(const CodeList& list, std::string_view conditions) {
  std::string text(kTitle);
  text += conditions;
  for (const auto& [module, places] : list) {
    fmt::format_to(std::back_inserter(text), "{}{} {}\n", kModule, module, places.size());
    for (size_t i = 0; i < places.size(); i++) {
      if (i == 0) {
        fmt::format_to(std::back_inserter(text), "{:x}\n", places[i]);
      } else {
        fmt::format_to(std::back_inserter(text), "+{:x}\n", places[i] - places[i - 1]);
      }
    }
  }
  const uint32_t sum = checksum(text);
  fmt::format_to(std::back_inserter(text), "{}{:08x}\n", kEnd, sum);
  return text;
}

Result<CodeList> parse_code_list(std::string_view text, std::string_view conditions) {
  const size_t last = text.rfind(fmt::format("\n{}", kEnd));
  if (last == std::string_view::npos || text.size() > kMostListBytes) return damaged();
  std::string_view body = text.substr(0, last + 1);
  std::string_view rest = text.substr(last + 1 + kEnd.size());
  const auto sum = take_line(rest);
  if (!sum || !rest.empty() || number(*sum, 16) != checksum(body)) return damaged();
  if (!body.starts_with(kTitle)) return fail("it is of another version");
  body.remove_prefix(kTitle.size());
  if (!body.starts_with(conditions)) return fail("it is for something else");
  body.remove_prefix(conditions.size());
  CodeList list;
  size_t all = 0;
  while (!body.empty()) {
    const std::optional<std::string_view> line = take_line(body);
    if (!line || !line->starts_with(kModule)) return damaged();
    const std::string_view what = line->substr(kModule.size());
    const size_t blank = what.rfind(' ');
    if (blank == std::string_view::npos) return damaged();
    const auto count = number(what.substr(blank + 1), 10);
    if (!count || *count > kMostListedPlaces - all) return damaged();
    auto places = take_places(body, *count);
    if (!places) return damaged();
    all += places->size();
    list[std::string(what.substr(0, blank))] = std::move(*places);
  }
  return list;
}

size_t place_count(const CodeList& list) {
  size_t sum = 0;
  for (const auto& [module, places] : list) sum += places.size();
  return sum;
}

void add_places(CodeList& list, const CodeList& more) {
  size_t room = kMostListedPlaces - std::min(kMostListedPlaces, place_count(list));
  for (const auto& [module, places] : more) {
    std::vector<uint64_t>& known = list[module];
    std::vector<uint64_t> fresh;
    std::set_difference(places.begin(), places.end(), known.begin(), known.end(),
                        std::back_inserter(fresh));
    fresh.resize(std::min(fresh.size(), room));
    room -= fresh.size();
    const auto middle = static_cast<ptrdiff_t>(known.size());
    known.insert(known.end(), fresh.begin(), fresh.end());
    std::inplace_merge(known.begin(), known.begin() + middle, known.end());
    if (known.empty()) list.erase(module);
  }
}

}  // namespace shadowprof::sample
