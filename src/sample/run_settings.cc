// SPDX-License-Identifier: MIT
#include "sample/run_settings.h"

#include <charconv>
#include <cmath>

#include "base/printable.h"

namespace shadowprof::sample {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr double kMostSamples_per_s = 1e6;
constexpr uint64_t kLargestSample_instructions = 1'000'000'000'000'000;

template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || at != end) return std::nullopt;
  return number;
}

Result<RunSetting> frequency(std::string_view value) {
  RunSetting setting{
      .what = RunSetting::What::frequency, .name = "freq", .value = std::string(value)};
  if (value == kAuto) return setting;
  const auto hertz = whole_number<double>(value);
  if (!hertz || !std::isfinite(*hertz) || *hertz <= 0 || *hertz > kMostSamples_per_s)
    return fail("'{}' is no number of samples a second above 0, nor auto", printable(value));
  setting.frequency_hz = *hertz;
  return setting;
}

Result<RunSetting> sample_size(std::string_view value) {
  RunSetting setting{
      .what = RunSetting::What::sample_size, .name = "sample-size", .value = std::string(value)};
  if (value == kAuto) return setting;
  const auto size = whole_number<uint64_t>(value);
  if (!size) return fail("'{}' is no number of instructions, nor auto", printable(value));
  if (*size < kSmallestSample_instructions || *size > kLargestSample_instructions)
    return fail("a sample has from {} to {} instructions", kSmallestSample_instructions,
                kLargestSample_instructions);
  setting.sample_size = *size;
  return setting;
}

}  // namespace

Result<RunSetting> parse_setting(std::string_view text) {
  const size_t mark = text.find('=');
  if (mark == std::string_view::npos)
    return fail("'{}' is no setting: NAME=VALUE", printable(text));
  const std::string_view name = text.substr(0, mark);
  const std::string_view value = text.substr(mark + 1);
  if (name == "freq") return frequency(value);
  if (name == "sample-size") return sample_size(value);
  SP_ASSIGN(const Condition condition, parse_condition(text));
  return RunSetting{.what = RunSetting::What::condition,
                 .name = std::string(name),
                 .value = to_text(condition.how),
                 .condition = condition};
}

}  // namespace shadowprof::sample
