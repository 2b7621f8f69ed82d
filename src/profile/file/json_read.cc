// SPDX-License-Identifier: MIT
//
// Reads a profile file. The file may come from anywhere: whatever is wrong with it becomes one
// sentence that says where. Inside this file that sentence is an exception; it does not leave it.
#include <algorithm>
#include <functional>
#include <iterator>
#include <new>
#include <utility>

#include "profile/file/json_file.h"
#include "profile/file/json_object.h"
#include "profile/file/profile_input.h"
#include "profile/hidden_values.h"

namespace shadowprof::profile {

using namespace json;

namespace {

MergedRun read_merged_run(const Object& o) {
  return {o.text("file"),    o.texts("command"),
          o.text("started"), o.count("instructions"),
          o.count("weight"), o.has("instructions_total") ? o.count("instructions_total") : 0};
}

Region read_region(const Object& o) {
  Region region;
  if (o.has("within")) {
    region.within = o.text("within");
  } else {
    region.from = o.text("from");
    region.to = o.text("to");
  }
  region.functions = o.texts("functions");
  region.entries = o.count("entries");
  region.program_instructions = o.count("program_instructions");
  return region;
}

UntilError read_until_error(const Object& o) {
  return {o.number("limit"), o.number("reached"), o.count("functions"), o.text("by") == "time"};
}

StartAt read_start_at(const Object& o) {
  StartAt start{o.text("function"), {}};
  if (o.has("at_s")) start.at_s = o.number("at_s");
  return start;
}

Run read_run(const Object& o) {
  Run r;
  r.command = o.texts("command");
  r.pid = o.integer("pid");
  r.mode = o.text("mode");
  r.engine = o.text("engine");
  r.options = o.object("options").map(
      [](const Object& all, const std::string& name) { return all.text(name); });
  r.seed = o.count("seed");
  const Object host = o.object("host");
  r.host = {host.text("cpu"), host.text("kernel"), host.small("cores"), {}};
  if (host.has("latency")) {
    const Object clock = host.object("latency");
    LatencyCalibration c;
    c.resolution = clock.number("resolution");
    c.overhead = clock.number("overhead");
    for (size_t i = 0; i < c.typical.size(); i++)
      c.typical[i] = clock.number(to_string(static_cast<LatencyClass>(i)));
    if (clock.has("fault")) c.fault = clock.number("fault");
    if (clock.has("spread")) c.spread = clock.number("spread");
    if (clock.has("across")) c.across = clock.number("across");
    if (clock.has("hits")) {
      const Object hits = clock.object("hits");
      for (size_t i = 0; i < kLoadKinds; i++)
        c.hits[i] = hits.number(to_string(static_cast<LoadKind>(i)));
    }
    r.host.latency = c;
  }
  r.started = o.text("started");
  r.duration_s = o.number("duration_s");
  if (!o.at("exit").is_null()) {
    const Object exit = o.object("exit");
    const bool signalled = exit.has("signal");
    r.exit = Exit{signalled, static_cast<int>(exit.small(signalled ? "signal" : "status"))};
  }
  if (o.has("images"))
    r.images = read_rows<Image>(o, "images", [](const Object& i) -> Image {
      return {i.texts("command"), i.number("at_s")};
    });
  if (o.has("region")) {
    r.region = read_region(o.object("region"));
  }
  if (o.has("until_error")) r.until_error = read_until_error(o.object("until_error"));
  if (o.has("start_at")) r.start_at = read_start_at(o.object("start_at"));
  if (o.has("changes"))
    r.changes = read_rows<SettingChange>(o, "changes", [](const Object& c) -> SettingChange {
      return {c.number("at_s"), c.text("setting"), c.text("value")};
    });
  if (o.has("merged")) r.merged = read_rows<MergedRun>(o, "merged", read_merged_run);
  return r;
}

EndedEarly read_ended_early(const Object& o) {
  EndedEarly e{o.number("at_s"), {}, o.text("why")};
  if (!o.at("instructions").is_null()) e.instructions = o.count("instructions");
  return e;
}

Coverage read_coverage(const Object& o) {
  Coverage c;
  c.samples = o.count("samples");
  c.instructions_profiled = o.count("instructions_profiled");
  c.instructions_total = o.count("instructions_total");
  c.estimated = o.boolean("estimated");
  c.assumed_speeds = o.has("assumed_speeds") && o.boolean("assumed_speeds");
  c.assumed_total = o.has("assumed_total") && o.boolean("assumed_total");
  c.attributed = o.count("attributed");
  o.counts(kCoverageCounts, c);
  if (o.has("ended_early"))
    c.ended_early = read_rows<EndedEarly>(o, "ended_early", read_ended_early);
  if (o.has("verified")) o.object("verified").numbers(kVerifiedColumns, c.verified.emplace());
  if (o.has("paths")) {
    const Object paths = o.object("paths");
    c.paths.collected = true;
    c.paths.intra = paths.text("scope") == "intra";
    paths.numbers(kPathCountColumns, c.paths);
  }
  if (o.has("accesses")) {
    c.accesses.collected = true;
    o.object("accesses").numbers(kAccessCountColumns, c.accesses);
  }
  if (o.has("streams")) {
    c.streams.collected = true;
    o.object("streams").numbers(kStreamCountColumns, c.streams);
  }
  return c;
}

Overhead read_overhead(const Object& o) {
  Overhead overhead;
  overhead.budget_share = o.number("budget_share");
  overhead.estimated_share = o.number("estimated_share");
  const Object pauses = o.object("pause_s");
  overhead.pause_s = {pauses.number("total"), pauses.number("max"), pauses.number("p50"),
                      pauses.number("p99")};
  overhead.forks = o.count("forks");
  overhead.extra_faults = o.count("extra_faults");
  overhead.engine_cpu_s = o.number("engine_cpu_s");
  overhead.collector_cpu_s = o.number("collector_cpu_s");
  overhead.program_cpu_s = o.number("program_cpu_s");
  if (o.has("unfollowed_cpu_s")) overhead.unfollowed_cpu_s = o.number("unfollowed_cpu_s");
  overhead.translated_blocks = o.count("translated_blocks");
  overhead.translation_s = o.number("translation_s");
  o.counts(kOverheadCounts, overhead);
  if (o.has("by_cause"))
    overhead.by_cause = o.object("by_cause").map(
        [](const Object& all, const std::string& cause) { return all.number(cause); });
  if (o.has("timeline"))
    overhead.timeline = read_columns<TimelineRow>(o.object("timeline"), kTimelineColumns);
  return overhead;
}

Syscalls read_syscalls(const Object& o) {
  Syscalls s;
  s.by_class = o.counts("by_class");
  s.by_name = o.object("by_name").map([](const Object& all, const std::string& name) {
    SyscallCount count;
    all.object(name).numbers(kSyscallCountColumns, count);
    return count;
  });
  return s;
}

Module read_module(const Object& o) {
  return {o.text("path"),
          o.text("build_id"),
          o.count("address"),
          o.count("inode"),
          o.count("device"),
          o.count_or_zero("inlining_known")};
}

ProcessorTime read_time(const Object& o) {
  ProcessorTime t;
  t.source = o.text("source");
  t.sees_kernel = o.boolean("sees_kernel");
  for (const NamedSeconds& seconds : kTimeSeconds)
    if (seconds.is_required || o.has(seconds.name)) t.*seconds.member = o.number(seconds.name);
  t.ticks = o.count("ticks");
  t.lost = o.count("lost");
  t.cycles_per_s = o.number("cycles_per_s");
  t.slice_us = o.count_or_zero("slice_us");
  return t;
}

ThreadRow read_thread(const Object& o) {
  return {static_cast<int64_t>(o.small("tid")),
          static_cast<int64_t>(o.small("process")),
          o.text("name"),
          o.count("user_ns"),
          o.count("kernel_ns"),
          o.count("ticks"),
          o.count_or_zero("instructions"),
          o.count_or_zero("instructions_error"),
          o.count_or_zero("samples")};
}

// What functions have, and those that were inlined.
template <typename F>
void read_name_and_costs(const Object& o, F& f) {
  f.name = o.text("name");
  f.linkage_name = o.text_or_empty("linkage_name");
  f.file = o.text_or_empty("file");
  f.line = o.small_or_zero("line");
  f.self = o.count("self_instructions");
  f.self_error = o.count_or_zero("self_error");
  f.inclusive = o.count("inclusive_instructions");
  f.user_ns = o.count_or_zero("user_ns");
  f.kernel_ns = o.count_or_zero("kernel_ns");
}

Function read_function(const Object& o) {
  Function f;
  f.at = {o.small("module"), o.count("offset")};
  f.size = o.count("size");
  read_name_and_costs(o, f);
  f.invocations = o.count("invocations");
  f.loop_iterations = o.count("loop_iterations");
  return f;
}

InlinedPlace read_inlined_place(const Object& o) {
  return {o.count_or_zero("function"), o.text_or_empty("file"), o.small_or_zero("line"),
          o.count("self_instructions")};
}

InlinedFunction read_inlined(const Object& o) {
  InlinedFunction f;
  f.module = o.small("module");
  read_name_and_costs(o, f);
  f.places = read_rows<InlinedPlace>(o, "places", read_inlined_place);
  return f;
}

ProbeInfo read_probe(const Object& o) {
  ProbeInfo probe;
  probe.name = o.text("name");
  probe.text = o.text("text");
  probe.action = o.text("action");
  probe.columns = o.texts("columns");
  o.numbers(kProbeInfoColumns, probe);
  if (probe.keys > probe.columns.size())
    throw Bad{o.where("keys") + " are more than there are columns"};
  if (probe.stack > probe.columns.size())
    throw Bad{o.where("stack_column") + " is more than there are columns"};
  return probe;
}

PluginColumn read_plugin_column(const Object& o) {
  const std::string kind = o.text("kind");
  const auto known = std::ranges::find(kPluginCellKinds, kind);
  if (known == std::end(kPluginCellKinds)) throw Bad{o.where("kind") + " is no kind of cell"};
  return {o.text("name"), static_cast<PluginCellKind>(known - std::begin(kPluginCellKinds))};
}

PluginInfo read_plugin(const Object& o) {
  PluginInfo plugin;
  plugin.name = o.text("name");
  plugin.weight = o.text("weight");
  plugin.columns = read_rows<PluginColumn>(o, "columns", read_plugin_column);
  plugin.file = o.text("file");
  o.numbers(kPluginInfoColumns, plugin);
  plugin.problems = o.texts("problems");
  plugin.texts = o.texts("texts");
  if (std::ranges::adjacent_find(plugin.texts, std::greater_equal<>()) != plugin.texts.end())
    throw Bad{o.where("texts") + " are not in order"};
  return plugin;
}

Profile read_document(const Json& json) {
  if (json.members() == nullptr || !json.members()->contains("schema"))
    throw Bad{"it is not a profile of shadowprof"};
  const Object o(json, "");
  if (o.text("schema") != kSchema)
    throw Bad{"it is not a profile of shadowprof (schema \"" + o.text("schema") + "\")"};
  if (const uint64_t version = o.count("version"); version != kVersion)
    throw Bad{fmt::format("it has version {}, this program reads version {}", version, kVersion)};
  Profile p;
  p.tool_version = o.object("tool").text("version");
  p.run = read_run(o.object("run"));
  p.coverage = read_coverage(o.object("coverage"));
  p.overhead = read_overhead(o.object("overhead"));
  p.syscalls = read_syscalls(o.object("syscalls"));
  p.modules = read_rows<Module>(o, "modules", read_module);
  p.functions = read_rows<Function>(o, "functions", read_function);
  if (o.has("inlined")) p.inlined = read_rows<InlinedFunction>(o, "inlined", read_inlined);
  normalise_inlined(p.inlined);
  if (o.has("time")) p.time = read_time(o.object("time"));
  if (o.has("threads")) p.threads = read_rows<ThreadRow>(o, "threads", read_thread);
  if (o.has("probes")) p.probes = read_rows<ProbeInfo>(o, "probes", read_probe);
  if (o.has("plugins")) p.plugins = read_rows<PluginInfo>(o, "plugins", read_plugin);
  p.hotlists = read_hotlists(o.object("hotlists"));
  if (has_hidden_values(p)) mark_values_hidden(p.hotlists);
  p.tables = read_tables(o.object("tables"));
  const Object confidence = o.object("confidence");
  p.confidence.exact = confidence.boolean("exact");
  if (confidence.has("groups")) p.confidence.groups = confidence.small("groups");
  if (o.has("left_out")) p.left_out = o.counts("left_out");
  for (size_t i = 1; i < p.functions.size(); i++)
    if (!(p.functions[i - 1].at < p.functions[i].at))
      throw Bad{fmt::format("functions[{}] is not in order of place", i)};
  if (auto consistent = check_consistency(p); !consistent) throw Bad{consistent.error().message};
  return p;
}

class WholeText final : public TextPieces {
 public:
  explicit WholeText(std::string_view text) : text_(text) {}
  std::string_view next() override { return std::exchange(text_, {}); }

 private:
  std::string_view text_;
};

Result<Profile> read_from(TextPieces& text) {
  try {
    return read_document(json::parse(text));
  } catch (const Bad& bad) {
    return fail("{}", bad.what);
  } catch (const std::bad_alloc&) {
    throw;  // not the file's fault (base/short_memory.h)
  } catch (const std::exception& e) {
    return fail("{}", e.what());
  }
}

}  // namespace

Result<Profile> parse_profile(std::string_view text) {
  WholeText whole(text);
  return read_from(whole);
}

Result<Profile> read_profile(const std::string& path, Accept accept) {
  SP_ASSIGN(ProfileInput input, ProfileInput::open(path));
  auto profile = read_from(input);
  if (!profile) return fail("cannot use {}: {}", path, profile.error().message);
  if (accept == Accept::profiles && !profile->left_out.empty())
    return fail("cannot use {}: it is a baseline, for check, diff and report --html", path);
  return profile;
}

}  // namespace shadowprof::profile
