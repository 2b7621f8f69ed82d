// SPDX-License-Identifier: MIT
//
// Writes the profile file.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "profile/evidence.h"
#include "profile/file/compression.h"
#include "profile/file/json_file.h"
#include "profile/file/json_writer.h"
#include "profile/file/output_file.h"

namespace shadowprof::profile {
namespace {

using Json = json::OrderedJson;
using json::Writer;

Json module_json(const Module& m) {
  Json j = {{"path", m.path},
            {"build_id", m.build_id},
            {"address", m.address},
            {"inode", m.inode},
            {"device", m.device}};
  if (m.inlining_known != 0) j["inlining_known"] = m.inlining_known;
  return j;
}

// What functions have, and those that were inlined.
template <typename F>
void add_name_and_instructions(Json& j, const F& f) {
  j["name"] = f.name;
  if (!f.linkage_name.empty()) j["linkage_name"] = f.linkage_name;
  if (!f.file.empty()) j["file"] = f.file;
  if (f.line != 0) j["line"] = f.line;
  j["self_instructions"] = f.self;
  if (f.self_error != 0) j["self_error"] = f.self_error;
  j["inclusive_instructions"] = f.inclusive;
}
template <typename F>
void add_time(Json& j, const F& f) {
  if (f.user_ns != 0) j["user_ns"] = f.user_ns;
  if (f.kernel_ns != 0) j["kernel_ns"] = f.kernel_ns;
}

Json function_json(const Function& f) {
  Json j = {{"module", f.at.module}, {"offset", f.at.offset}, {"size", f.size}};
  add_name_and_instructions(j, f);
  j["invocations"] = f.invocations;
  j["loop_iterations"] = f.loop_iterations;
  add_time(j, f);
  return j;
}

Json inlined_json(const InlinedFunction& f) {
  Json j = {{"module", f.module}};
  add_name_and_instructions(j, f);
  add_time(j, f);
  Json& places = j["places"] = Json::array();
  for (const InlinedPlace& place : f.places) {
    Json& one = places.emplace_back(Json::object());
    if (place.function != 0) one["function"] = place.function;
    if (!place.file.empty()) one["file"] = place.file;
    if (place.line != 0) one["line"] = place.line;
    one["self_instructions"] = place.self;
  }
  return j;
}

Json time_json(const Profile& p) {
  const ProcessorTime& t = p.time;
  Json j = {{"source", t.source}, {"sees_kernel", t.sees_kernel}};
  for (const NamedSeconds& seconds : kTimeSeconds) j[seconds.name] = t.*seconds.member;
  j["ticks"] = t.ticks;
  j["lost"] = t.lost;
  j["cycles_per_s"] = t.cycles_per_s;
  j["slice_us"] = t.slice_us;
  j["unmet_share"] = unmet_time_share(p);
  return j;
}

Json thread_json(const ThreadRow& t) {
  return {{"tid", t.tid},
          {"process", t.process},
          {"name", t.name},
          {"user_ns", t.user_ns},
          {"kernel_ns", t.kernel_ns},
          {"ticks", t.ticks},
          {"instructions", t.instructions},
          {"instructions_error", t.instructions_error},
          {"samples", t.samples}};
}

Json merged_json(const MergedRun& m) {
  return {{"file", m.file},       {"command", m.command},
          {"started", m.started}, {"instructions", m.instructions},
          {"weight", m.weight},   {"instructions_total", m.instructions_total}};
}

Json region_json(const Region& region) {
  Json j = {{"functions", region.functions},
            {"entries", region.entries},
            {"program_instructions", region.program_instructions}};
  if (region.is_between()) {
    j["from"] = region.from;
    j["to"] = region.to;
  } else {
    j["within"] = region.within;
  }
  return j;
}

Json until_error_json(const UntilError& u) {
  return {{"limit", u.limit},
          {"reached", u.reached},
          {"functions", u.functions},
          {"by", u.by_time ? "time" : "instructions"}};
}

Json start_at_json(const StartAt& s) {
  Json j = {{"function", s.function}, {"by", "looks"}};
  if (s.at_s) j["at_s"] = *s.at_s;
  return j;
}

Json run_json(const Run& r) {
  Json j = {{"command", r.command}, {"pid", r.pid},         {"mode", r.mode},
            {"engine", r.engine},   {"options", r.options}, {"seed", r.seed}};
  j["host"] = {{"cpu", r.host.cpu}, {"kernel", r.host.kernel}, {"cores", r.host.cores}};
  if (const auto& c = r.host.latency) {
    Json& clock = j["host"]["latency"] = {{"resolution", c->resolution}, {"overhead", c->overhead}};
    for (size_t i = 0; i < c->typical.size(); i++)
      clock[to_string(static_cast<LatencyClass>(i))] = c->typical[i];
    clock["fault"] = c->fault;
    clock["spread"] = c->spread;
    clock["across"] = c->across;
    for (size_t i = 0; i < kLoadKinds; i++)
      clock["hits"][to_string(static_cast<LoadKind>(i))] = c->hits[i];
  }
  j["started"] = r.started;
  j["duration_s"] = r.duration_s;
  j["exit"] = nullptr;
  if (r.exit) j["exit"] = {{r.exit->signalled ? "signal" : "status", r.exit->value}};
  for (const MergedRun& m : r.merged) j["merged"].push_back(merged_json(m));
  for (const Image& image : r.images)
    j["images"].push_back({{"command", image.command}, {"at_s", image.at_s}});
  if (const auto& region = r.region)
    j["region"] = region_json(*region);
  if (r.until_error) j["until_error"] = until_error_json(*r.until_error);
  for (const SettingChange& change : r.changes)
    j["changes"].push_back(
        {{"at_s", change.at_s}, {"setting", change.setting}, {"value", change.value}});
  if (r.start_at) j["start_at"] = start_at_json(*r.start_at);
  return j;
}

// As members of an object.
template <typename Columns, typename Row>
void add_numbers(Json& j, const Columns& columns, const Row& row) {
  for (const auto& column : columns) j[column.name] = column.get(row);
}

template <typename Object, size_t N>
void add_maps(Json& j, const NamedCounts<Object> (&all)[N], const Object& object) {
  for (const auto& counts : all)
    if (counts.required || !(object.*counts.member).empty()) j[counts.name] = object.*counts.member;
}

Json ended_early_json(const EndedEarly& e) {
  const Json instructions = e.instructions ? Json(*e.instructions) : Json(nullptr);
  return {{"at_s", e.at_s}, {"instructions", instructions}, {"why", e.why}};
}

Json coverage_json(const Coverage& c) {
  Json j = {{"samples", c.samples},
          {"instructions_profiled", c.instructions_profiled},
          {"instructions_total", c.instructions_total},
          {"estimated", c.estimated},
          {"share", c.share() ? Json(*c.share()) : Json(nullptr)},
          {"attributed", c.attributed}};
  add_maps(j, kCoverageCounts, c);
  if (c.assumed_speeds) j["assumed_speeds"] = true;
  if (c.assumed_total) j["assumed_total"] = true;
  for (const EndedEarly& e : c.ended_early) j["ended_early"].push_back(ended_early_json(e));
  if (c.verified) {
    add_numbers(j["verified"], kVerifiedColumns, *c.verified);
  }
  if (c.paths.collected) {
    j["paths"] = {{"scope", c.paths.intra ? "intra" : "interprocedural"}};
    add_numbers(j["paths"], kPathCountColumns, c.paths);
  }
  if (c.accesses.collected) add_numbers(j["accesses"], kAccessCountColumns, c.accesses);
  if (c.streams.collected) add_numbers(j["streams"], kStreamCountColumns, c.streams);
  return j;
}

Json probe_json(const ProbeInfo& probe) {
  Json j = {{"name", probe.name},
            {"text", probe.text},
            {"action", probe.action},
            {"columns", probe.columns}};
  add_numbers(j, kProbeInfoColumns, probe);
  return j;
}

Json plugin_json(const PluginInfo& plugin) {
  Json j = {{"name", plugin.name}, {"weight", plugin.weight}};
  Json& columns = j["columns"] = Json::array();
  for (const PluginColumn& column : plugin.columns)
    columns.push_back(
        {{"name", column.name}, {"kind", kPluginCellKinds[static_cast<size_t>(column.kind)]}});
  j["file"] = plugin.file;
  add_numbers(j, kPluginInfoColumns, plugin);
  j["problems"] = plugin.problems;
  j["texts"] = plugin.texts;
  return j;
}

Json timeline_json(const Timeline& timeline) {
  Json columns = Json::object();
  for (const auto& column : kTimelineColumns) {
    Json& numbers = columns[column.name] = Json::array();
    for (const TimelineRow& row : timeline) numbers.push_back(column.get(row));
  }
  return columns;
}

Json overhead_json(const Overhead& o) {
  const Json pauses = {{"total", o.pause_s.total},
                       {"max", o.pause_s.max},
                       {"p50", o.pause_s.p50},
                       {"p99", o.pause_s.p99}};
  Json j = {{"budget_share", o.budget_share},
            {"estimated_share", o.estimated_share},
            {"pause_s", pauses},
            {"forks", o.forks},
            {"extra_faults", o.extra_faults},
            {"engine_cpu_s", o.engine_cpu_s},
            {"collector_cpu_s", o.collector_cpu_s},
            {"program_cpu_s", o.program_cpu_s},
            {"translated_blocks", o.translated_blocks},
            {"translation_s", o.translation_s},
            {"stops", Json::object()}};
  if (o.unfollowed_cpu_s > 0) j["unfollowed_cpu_s"] = o.unfollowed_cpu_s;
  if (!o.by_cause.empty()) j["by_cause"] = o.by_cause;
  add_maps(j, kOverheadCounts, o);
  if (!o.timeline.empty()) j["timeline"] = timeline_json(o.timeline);
  return j;
}

Json syscalls_json(const Syscalls& s) {
  Json by_name = Json::object();
  for (const auto& [name, c] : s.by_name) add_numbers(by_name[name], kSyscallCountColumns, c);
  return {{"by_class", s.by_class}, {"by_name", by_name}};
}

// The first key is "schema": is_profile_file() looks for it at the beginning.
void write_document(json::TextSink& out, const Profile& p) {
  Writer w(out);
  w.open();
  w.value("schema", kSchema);
  w.value("version", kVersion);
  w.value("tool", {{"name", "shadowprof"}, {"version", p.tool_version}});
  w.value("run", run_json(p.run));
  w.value("coverage", coverage_json(p.coverage));
  w.value("overhead", overhead_json(p.overhead));
  w.value("syscalls", syscalls_json(p.syscalls));
  w.rows("modules", p.modules, module_json);
  w.rows("functions", p.functions, function_json);
  w.rows("inlined", p.inlined, inlined_json);
  if (p.time.is_known()) w.value("time", time_json(p));
  if (p.time.is_known() || !p.threads.empty()) w.rows("threads", p.threads, thread_json);
  if (!p.probes.empty()) w.rows("probes", p.probes, probe_json);
  if (!p.plugins.empty()) w.rows("plugins", p.plugins, plugin_json);
  json::write_hotlists(w, "hotlists", p.hotlists);
  json::write_tables(w, p.tables, p.confidence.groups != 0);
  const Evidence evidence = evidence_of(p);
  Json confidence = {{"exact", p.confidence.exact},
                     {"level", kConfidenceLevel},
                     {"groups", p.confidence.groups},
                     {"enough", evidence.enough}};
  if (!evidence.enough) confidence["advice"] = evidence.advice;
  w.value("confidence", confidence);
  if (!p.left_out.empty()) w.value("left_out", p.left_out);
  w.close();
  out.write("\n");
}

class StringOut final : public json::TextSink {
 public:
  void write(std::string_view s) override { text += s; }
  std::string text;
};

class FileOut final : public json::TextSink {
 public:
  explicit FileOut(OutputFile& file) : file_(file) {}
  void write(std::string_view s) override { file_.write(s); }

 private:
  OutputFile& file_;
};

}  // namespace

Result<bool> is_profile_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, "cannot read {}", path);
  std::string head(kHeadBytes, '\0');
  const ssize_t n = ::read(fd.get(), head.data(), head.size());
  if (n < 0) return fail_errno(errno, "cannot read {}", path);
  std::string squeezed;
  for (char c : decompress_head(std::string_view(head).substr(0, static_cast<size_t>(n)), 256))
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') squeezed += c;
  return n == 0 || squeezed.starts_with(std::string("{\"schema\":\"") + kSchema + '"');
}

Status check_output(const std::string& path) {
  if (path == "-") {
    SP_ASSIGN([[maybe_unused]] const OutputFile open, OutputFile::open(path));
    return {};
  }
  if (path.empty()) return fail("the name of the profile is empty");
  SP_TRY(target_of(path));
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return fail("cannot write the profile to {}: it is a directory", path);
    if (!S_ISREG(info.st_mode)) {
      // Kept open: a pipe's reader would take it for the end if the only writer went away.
      static UniqueFd kept;
      SP_ASSIGN(kept, open_in_place(path, info.st_mode));
      return {};
    }
    SP_ASSIGN(const bool ours, is_profile_file(path));
    if (!ours)
      return fail("{} exists and is not a profile of shadowprof: choose another file with -o",
                  path);
  } else if (errno != ENOENT) {
    return fail_errno(errno, "cannot write {}", path);
  }
  // Permissions do not say it all (/proc, a read-only mount): make the file and take it back.
  SP_ASSIGN([[maybe_unused]] const OutputFile trial, OutputFile::open(path));
  return {};
}

Status write_profile(const Profile& profile, const std::string& path, Effort effort) {
  SP_TRY(check_output(path));
  SP_ASSIGN(OutputFile file, OutputFile::open(path, effort));
  FileOut out(file);
  write_document(out, profile);
  return file.finish();
}

std::string profile_json(const Profile& profile) {
  StringOut out;
  write_document(out, profile);
  return std::move(out.text);
}

std::string hotlists_json(const Hotlists& hotlists) {
  StringOut out;
  Writer w(out);
  json::write_hotlists(w, nullptr, hotlists);
  return out.text + "\n";
}

}  // namespace shadowprof::profile
