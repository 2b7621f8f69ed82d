// SPDX-License-Identifier: MIT
#include "profile/hidden_values.h"

#include <algorithm>
#include <random>
#include <unordered_map>

#include "profile/tables/address_of_run.h"

namespace shadowprof::profile {
namespace {

class Replacements {
 public:
  explicit Replacements(const ModuleTable& modules)
      : modules_(modules),
        random_((uint64_t{std::random_device{}()} << 32) | std::random_device{}()) {}

  void replace(uint64_t& value) {
    const auto [at, is_new] = of_.try_emplace(value, 0);
    if (is_new) at->second = is_address_of_run(modules_, value) ? address() : no_address();
    value = at->second;
  }
  void replace(ValueFigures& figures) {
    for (ValueCount& top : figures.top) replace(top.value);
  }
  void replace(HotFigures& figures) {
    for (ValueShare& share : figures.values) replace(share.value);
  }
  // All but the number of calls of a stack.
  template <typename Numbers>
  void replace(Numbers& numbers, uint32_t stack, auto is_place) {
    for (size_t i = 0; i < numbers.size(); i++)
      if (i + 1 != stack && !is_place(numbers[i])) replace(numbers[i].number);
  }

 private:
  uint64_t address() { return std::uniform_int_distribution(kLeastMapped, kMostMapped)(random_); }
  uint64_t no_address() { return random_() | uint64_t{1} << 63; }

  const ModuleTable& modules_;
  std::unordered_map<uint64_t, uint64_t> of_;
  std::mt19937_64 random_;
};

void hide(Profile& profile, Replacements& others) {
  Tables& tables = profile.tables;
  for (ValueRow& row : tables.values) {
    others.replace(row.figures);
    // Differences of a number's bits say nothing, and its type is hidden now.
    if (is_float(row.type)) row.figures.strided = 0;
    row.type = ValueType::hidden;
  }
  for (ArgumentRow& row : tables.arguments) others.replace(row.figures);
  for (LatencyValueRow& row : tables.latency_values) others.replace(row.value);
  std::ranges::sort(tables.latency_values, {}, &LatencyValueRow::key);
  for (ProbeRow& row : tables.probes)
    others.replace(row.numbers, profile.probes[row.probe].stack,
                   [](const ProbeNumber& number) { return number.is_place; });
  std::ranges::sort(tables.probes,
                    [](const ProbeRow& a, const ProbeRow& b) { return a.key() < b.key(); });
}

void hide(const ProbeList& probes, Hotlists& lists, Replacements& others) {
  for (HotValue& row : lists.values) others.replace(row.figures);
  for (HotArgument& row : lists.arguments) others.replace(row.figures);
  for (HotLatencyValue& row : lists.latency_values) others.replace(row.value);
  for (HotProbe& row : lists.probes) {
    const auto probe = std::ranges::find(probes, row.probe, &ProbeInfo::name);
    others.replace(row.numbers, probe == probes.end() ? 0 : probe->stack,
                   [](const HotProbe::Number& number) { return number.place.has_value(); });
  }
}

}  // namespace

bool has_hidden_values(const Profile& profile) {
  const auto option = profile.run.options.find(kValuesOption);
  return option != profile.run.options.end() && option->second == kHiddenValues;
}

void hide_values(Profile& profile) {
  if (has_hidden_values(profile)) return;
  Replacements others(profile.modules);
  hide(profile, others);
  hide(profile.probes, profile.hotlists, others);
  mark_values_hidden(profile.hotlists);
  profile.run.options[kValuesOption] = kHiddenValues;
}

void mark_values_hidden(Hotlists& lists) {
  for (HotValue& row : lists.values) row.type = ValueType::hidden;
  for (HotArgument& row : lists.arguments) row.is_hidden = true;
  for (HotLatencyValue& row : lists.latency_values) row.type = ValueType::hidden;
  for (HotProbe& row : lists.probes)
    for (HotProbe::Number& number : row.numbers) number.is_hidden = !number.place;
}

}  // namespace shadowprof::profile
