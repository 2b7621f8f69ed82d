// SPDX-License-Identifier: MIT
#include "sample/conditions.h"

#include <charconv>

#include "base/printable.h"

namespace shadowprof::sample {
namespace {

constexpr uint64_t kMostEvery = 1'000'000'000'000;
constexpr uint64_t kMostOneIn = 1'000'000;
constexpr std::string_view kAll = "all";
constexpr std::string_view kOneIn = "1/";
constexpr std::string_view kBurst = "burst:";
constexpr std::string_view kEvery = ",every:";

// Kinds of profiles that have no condition, and why not.
struct WithoutCondition {
  std::string_view kind;
  std::string_view why;
};
constexpr std::string_view kCounted = "they are counted all the time, which costs next to nothing";
constexpr std::string_view kInOrder = "they follow every access in order, and a gap hides the next";
constexpr WithoutCondition kWithout[] = {
    {"edge", kCounted},
    {"call", kCounted},
    {"method", kCounted},
    {"path", "paths are made of all that executes, one after another, and gaps would cut them"},
    {"address", "which lines were touched at all is what they tell, and windows would miss some"},
    {"hazard", kInOrder},
    {"waste", kInOrder},
    {"stream", kInOrder},
};

// Also where it is written as a plural.
bool is_kind(std::string_view type, std::string_view kind) {
  if (!type.starts_with(kind)) return false;
  type.remove_prefix(kind.size());
  return type.empty() || type == "s" || type == "es";
}

// Takes a number from the front of `text`.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

std::optional<collect::CaptureCondition> parse_how(std::string_view text) {
  collect::CaptureCondition how;
  if (text == kAll) {
    how.burst = how.every = 1;
    return how;
  }
  if (text.starts_with(kOneIn)) {
    text.remove_prefix(kOneIn.size());
    const auto n = take_number(text);
    if (!n || !text.empty() || *n == 0 || *n > kMostOneIn) return std::nullopt;
    return collect::CaptureCondition::one_in(*n);
  }
  if (!text.starts_with(kBurst)) return std::nullopt;
  text.remove_prefix(kBurst.size());
  const auto burst = take_number(text);
  if (!burst || !text.starts_with(kEvery)) return std::nullopt;
  text.remove_prefix(kEvery.size());
  const auto every = take_number(text);
  if (!every || !text.empty() || *burst == 0 || *every < *burst || *every > kMostEvery)
    return std::nullopt;
  how.burst = *burst;
  how.every = *every;
  return how;
}

}  // namespace

Result<Condition> parse_condition(std::string_view text) {
  const size_t mark = text.find('=');
  const std::string_view type = text.substr(0, mark);
  for (const WithoutCondition& without : kWithout)
    if (is_kind(type, without.kind))
      return fail("{} has no condition: {}", type, without.why);
  size_t t = 0;
  while (t < std::size(kConditionTypes) && kConditionTypes[t] != type) t++;
  if (t == std::size(kConditionTypes) || mark == std::string_view::npos)
    return fail("'{}' is no condition: there are values= and latency=", printable(text));
  const auto how = parse_how(text.substr(mark + 1));
  if (!how)
    return fail("'{}' is no condition: {}=all, {}=1/N, or N of M: {}=burst:N,every:M",
                printable(text), type, type, type);
  return Condition{static_cast<ConditionType>(t), *how};
}

std::string to_text(const collect::CaptureCondition& how) {
  if (how.all()) return "all";
  if (how.every % how.burst == 0) return fmt::format("1/{}", how.every / how.burst);
  return fmt::format("burst:{},every:{}", how.burst, how.every);
}

}  // namespace shadowprof::sample
