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

struct TimeUnit {
  std::string_view name;
  uint64_t us;
};
constexpr TimeUnit kTimeUnits[] = {{"us", 1}, {"ms", 1000}, {"s", 1'000'000}};
constexpr uint64_t kLongestWindow_us = 1'000'000;

// Takes a number from the front of `text`.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// A number of executions, or so many microseconds.
struct Amount {
  uint64_t number = 0;
  bool is_time = false;
};

std::optional<Amount> take_amount(std::string_view& text) {
  const auto number = take_number(text);
  if (!number || *number == 0 || *number > kMostEvery) return std::nullopt;
  for (const TimeUnit& unit : kTimeUnits) {
    if (!text.starts_with(unit.name)) continue;
    text.remove_prefix(unit.name.size());
    return Amount{*number * unit.us, true};
  }
  return Amount{*number, false};
}

std::string time_text(uint64_t us) {
  const TimeUnit* best = &kTimeUnits[0];
  for (const TimeUnit& unit : kTimeUnits)
    if (us % unit.us == 0) best = &unit;
  return fmt::format("{}{}", us / best->us, best->name);
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
  const auto burst = take_amount(text);
  if (!burst || !text.starts_with(kEvery)) return std::nullopt;
  text.remove_prefix(kEvery.size());
  const auto every = take_amount(text);
  if (!every || !text.empty() || every->is_time != burst->is_time || every->number < burst->number)
    return std::nullopt;
  how.burst = burst->number;
  how.every = every->number;
  if (!burst->is_time) return how;
  if (burst->number > kLongestWindow_us || every->number > kMostEvery) return std::nullopt;
  how.window_us = static_cast<uint32_t>(burst->number);
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
    return fail(
        "'{}' is no condition: {}=all, {}=1/N, or N of M: {}=burst:N,every:M, or of a time "
        "burst:2ms,every:32ms",
        printable(text), type, type, type);
  return Condition{static_cast<ConditionType>(t), *how};
}

std::string to_text(const collect::CaptureCondition& how) {
  if (how.all()) return "all";
  if (how.window_us != 0)
    return fmt::format("burst:{},every:{}", time_text(how.burst), time_text(how.every));
  if (how.every % how.burst == 0) return fmt::format("1/{}", how.every / how.burst);
  return fmt::format("burst:{},every:{}", how.burst, how.every);
}

}  // namespace shadowprof::sample
