// SPDX-License-Identifier: MIT
#include "cli/collection_options.h"

#include <shadowprof/collector.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <set>

#include "base/check.h"
#include "cli/command_line.h"
#include "report/columns.h"
#include "sample/burst_mode.h"

namespace shadowprof::cli {
namespace {

constexpr std::string_view kProfiles[] = {"edge",  "call",    "method",  "path",
                                          "value", "latency", "address", "hazard",
                                          "waste", "stream",  "none"};
// What "all" stands for: every kind but those of addresses, of which each load and store has one.
constexpr std::string_view kAll[] = {"edge", "call", "method", "path", "value", "latency"};
// Where the program waits for all that is collected, and where an interpreter cannot time loads.
constexpr std::string_view kCounts[] = {"edge", "call", "method"};
constexpr std::string_view kWithoutTimes[] = {"edge", "call", "method", "path", "value"};
constexpr std::string_view kWithoutValues[] = {"edge", "call", "method", "path", "latency"};
constexpr std::string_view kWithPaths[] = {"edge", "call", "method", "path"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::span<const std::string_view> default_profiles(std::string_view mode, std::string_view engine,
                                                   CollectionOptions::InPart in_part) {
  if (mode == "full") return kCounts;
  if (engine == "step") return kWithPaths;
  if (mode == "burst") return kWithoutTimes;
  if (!in_part.latencies) return kWithPaths;
  return in_part.values ? std::span<const std::string_view>(kAll) : kWithoutValues;
}

// A word of --profile, without the + in front.
std::string refuse_profile(std::string word) {
  if (word.starts_with('+')) word.erase(0, 1);
  if (word == "all") return {};
  return refuse_unless_one_of("profile", word, kProfiles);
}

std::string refuse_probe(const std::string& text) {
  const auto probe = collect::parse_probe(text, 1);
  return probe ? std::string() : report::printable(probe.error().message);
}

std::string refuse_condition(const std::string& text) {
  const auto condition = sample::parse_condition(text);
  return condition ? std::string() : condition.error().message;
}

}  // namespace

std::string refuse_unless_one_of(std::string_view what, const std::string& word,
                                 std::span<const std::string_view> known) {
  if (contains(known, word)) return {};
  const std::vector<std::string> names(known.begin(), known.end());
  return fmt::format("there is no {} '{}': {}", what, report::printable(word),
                     instead_of(word, names));
}

void CollectionOptions::add_to(CLI::App& app) {
  app.add_option("--profile", profiles,
                 "kinds: edge,call,method,path,value,latency (= all);\n"
                 "address,hazard,waste,stream; none; +KIND adds one")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Validator([](std::string& word) { return refuse_profile(word); }, ""));
  app.add_option("--probe", probes, "count what PROBE describes (shadowprof probes)")
      ->type_name("PROBE")
      ->allow_extra_args(false)
      ->check(CLI::Validator([](std::string& text) { return refuse_probe(text); }, ""));
  app.add_option("--plugin", plugin_paths, "give what is recorded to a plug-in (shared object)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--path-scope", path_scope,
                 "inter: through calls; intra: within functions")
      ->type_name("SCOPE")
      ->check(CLI::IsMember({"inter", "intra"}))
      ->capture_default_str();
  app.add_option("--hotlist", hotlist,
                 "top values: by sample, or tnv, a table of 50")
      ->type_name("KIND")
      ->check(CLI::IsMember({"sample", "tnv"}))
      ->capture_default_str();
  app.add_option("--value-context", value_context,
                 "call: values by where the function was called")
      ->type_name("KIND")
      ->check(CLI::IsMember({"none", "call"}))
      ->capture_default_str();
  app.add_option("--condition", condition_texts,
                 "values=all, values=1/N, latency=1/N; repeatable")
      ->type_name("CONDITION")
      ->allow_extra_args(false)
      ->check(CLI::Validator([](std::string& text) { return refuse_condition(text); }, ""));
  app.add_flag("--redact-values", redact_values, "keep how often each value came, not what it was");
}

// Each is right: refuse_condition() has seen it.
sample::Conditions CollectionOptions::conditions() const {
  sample::Conditions all;
  for (const std::string& text : condition_texts) {
    const auto condition = sample::parse_condition(text);
    SP_CHECK(condition, "a condition that was refused: {}", text);
    all.of(condition->type) = condition->how;
  }
  return all;
}

// Each is right: refuse_probe() has seen it.
std::vector<collect::Probe> CollectionOptions::parsed_probes() const {
  std::vector<collect::Probe> parsed;
  for (const std::string& text : probes) {
    auto probe = collect::parse_probe(text, parsed.size() + 1);
    SP_CHECK(probe, "a probe that was refused: {}", text);
    parsed.push_back(std::move(*probe));
  }
  return parsed;
}

void CollectionOptions::choose_profiles(std::string_view mode, std::string_view engine,
                                        InPart in_part) {
  std::vector<std::string> chosen;
  const auto add = [&](std::string_view name) {
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.emplace_back(name);
  };
  const bool adds_to_defaults = profiles.empty() || profiles.front().starts_with('+');
  if (adds_to_defaults) std::ranges::for_each(default_profiles(mode, engine, in_part), add);
  for (std::string_view word : profiles) {
    if (word.starts_with('+')) word.remove_prefix(1);
    if (word == "none") {
      chosen.clear();
    } else if (word == "all") {
      std::ranges::for_each(kAll, add);
    } else {
      add(word);
    }
  }
  profiles = std::move(chosen);
}

bool CollectionOptions::wants(std::string_view profile) const {
  return std::find(profiles.begin(), profiles.end(), profile) != profiles.end();
}

sample::Collection CollectionOptions::collection(std::string_view mode, uint64_t seed) const {
  sample::Collection collection;
  collection.edges = wants("edge");
  collection.calls = wants("call") || wants("method");
  collection.paths = wants("path");
  if (path_scope == "intra") collection.path_scope = collect::PathScope::intra;
  collection.latencies = wants("latency");
  collection.addresses = wants("address");
  collection.hazards = wants("hazard");
  collection.waste = wants("waste");
  collection.streams = wants("stream");
  collection.values = wants("value");
  collection.hide_values = redact_values;
  collection.probes = parsed_probes();
  collection.plugins = plugins;
  if (hotlist == "tnv") {
    collection.value_options.hotlist = profile::HotlistKind::tnv;
    collection.value_options.capacity = profile::ValueHotlist::kTnvCapacity;
  }
  collection.value_options.by_call_site = value_context == "call";
  const sample::Conditions wanted = conditions();
  // A sample is short: all of it is looked at, unless the mode knows better.
  collection.any_condition = !wanted.values && mode != "full";
  if (wanted.values) collection.value_options.condition = *wanted.values;
  if (collection.any_condition)
    collection.value_options.condition = collect::CaptureCondition::one_in(1);
  collection.latency_condition = wanted.latency;
  collection.value_options.seed = seed;
  return collection;
}

Status CollectionOptions::open_plugins(std::string_view engine) {
  if (engine == "step" && !plugin_paths.empty())
    return fail("the engine step does not record what plug-ins are told");
  SP_ASSIGN(plugins, plugin::open_plugins(plugin_paths));
  const auto latency = conditions().latency;
  if (plugins.want(SHADOWPROF_WANTS_LATENCIES) && latency && !latency->all())
    return fail("a plug-in wants the latency of each load: --condition latency= leaves some out");
  if (engine == "emulator" && plugins.want(SHADOWPROF_WANTS_LATENCIES))
    return fail("a plug-in wants latencies, and the engine emulator cannot time loads");
  return {};
}

Status CollectionOptions::check_conditions(std::string_view mode, bool has_bouts) const {
  const sample::Conditions all = conditions();
  if (static_cast<size_t>(all.values.has_value()) + all.latency.has_value() !=
      condition_texts.size())
    return fail("each type has one --condition at most");
  if (!all.latency) return {};
  if (!wants("latency"))
    return fail("--condition latency= is for --profile latency, which is not collected here");
  if (all.latency->all()) return {};
  if (mode == "burst") return fail("{}", sample::kNoTimesInBursts);
  if (!has_bouts && mode == "shadow")
    return fail(
        "--condition latency= needs the translator, and no --verify: else each load is timed");
  if (!has_bouts)
    return fail(
        "--condition latency= needs counters: with --within, --from and --exact-inclusive each "
        "load is timed");
  return {};
}

Status CollectionOptions::accepted_by(std::string_view engine) const {
  if (probes.size() > collect::kMostProbes)
    return fail("there are {} probes, and {} at most", probes.size(), collect::kMostProbes);
  std::set<std::string> names;
  for (const collect::Probe& probe : parsed_probes())
    if (!names.insert(probe.name).second) return fail("two probes have the name {}", probe.name);
  if (engine == "step" && !probes.empty())
    return fail("probes follow from registers, which the engine step does not record");
  if (engine == "step" && (wants("value") || wants("latency") || wants("address"))) {
    return fail("the engine step records neither values nor latencies nor addresses");
  }
  if (engine == "step" && (wants("hazard") || wants("waste") || wants("stream"))) {
    return fail(
        "hazards, waste and streams follow from addresses, which the engine step does not record");
  }
  if (engine == "emulator" && (wants("latency") || collect::time_loads(parsed_probes())))
    return fail("the engine emulator cannot time loads; the translator can");
  return {};
}

void CollectionOptions::record_in(std::map<std::string, std::string>& options) const {
  std::string list;
  for (const std::string& profile : profiles) list += (list.empty() ? "" : ",") + profile;
  if (list.empty()) list = "none";
  options["profile"] = list;
  options["path_scope"] = path_scope;
  options["hotlist"] = hotlist;
  options["value_context"] = value_context;
  std::string conditions;
  for (const std::string& text : condition_texts)
    conditions += (conditions.empty() ? "" : " ") + text;
  options["condition"] = conditions;
  for (const collect::Probe& probe : parsed_probes()) options["probe:" + probe.name] = probe.text;
  for (size_t p = 0; p < plugins.all.size(); p++)
    options["plugin:" + plugins.all[p]->description.name] = plugin_paths[p];
}

}  // namespace shadowprof::cli
