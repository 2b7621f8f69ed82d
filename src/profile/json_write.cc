// SPDX-License-Identifier: MIT
//
// Writes the profile file. Small parts are built as JSON values; tables, functions and hotlists go
// row by row (or column by column) to the file, so memory does not depend on their size.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "profile/compression.h"
#include "profile/json_file.h"
#include "profile/output_file.h"

namespace shadowprof::profile {
namespace {

using Json = nlohmann::ordered_json;

// Of the hotlist of an instruction: the rest is in nobody's top ten.
constexpr size_t kValuesInFile = 10;

std::string text_of(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json place_json(const Place& p) {
  Json j = {{"module", p.module}, {"offset", p.offset}};
  if (!p.function.empty()) j["function"] = p.function;
  if (!p.file.empty()) j["file"] = p.file;
  if (p.line != 0) j["line"] = p.line;
  return j;
}

void add_margin(Json& j, const char* name, const Margin& margin) {
  if (margin) j[name] = *margin;
}

Json row_json(const HotMethod& m) {
  Json j = {{"rank", m.rank}};
  j.update(place_json(m.at));
  j["self_instructions"] = m.self;
  j["inclusive_instructions"] = m.inclusive;
  j["self_share"] = m.self_share;
  add_margin(j, "self_share_error", m.self_share_error);
  j["inclusive_share"] = m.inclusive_share;
  j["invocations"] = m.invocations;
  j["loop_iterations"] = m.loop_iterations;
  return j;
}

Json row_json(const HotCallPair& c) {
  Json j = {{"rank", c.rank},
            {"from", place_json(c.site)},
            {"to", place_json(c.callee)},
            {"indirect", c.indirect},
            {"count", c.count},
            {"share", c.share},
            {"inclusive_instructions", c.inclusive}};
  add_margin(j, "share_error", c.share_error);
  return j;
}

Json row_json(const HotEdge& e) {
  Json j = {{"rank", e.rank},         {"from", place_json(e.from)},
            {"to", place_json(e.to)}, {"kind", to_string(e.kind)},
            {"count", e.count},       {"share", e.share}};
  add_margin(j, "share_error", e.share_error);
  return j;
}

void add_figures_json(Json& j, const HotFigures& f, bool as_doubles = false) {
  j["count"] = f.count;
  j["invariance"] = f.invariance;
  add_margin(j, "invariance_error", f.invariance_error);
  j["zero_share"] = f.zero_share;
  j["last_value_share"] = f.last_value_share;
  j["stride_share"] = f.stride_share;
  j["distinct"] = f.distinct;
  Json& values = j["values"] = Json::array();
  for (const ValueShare& v : f.values) {
    values.push_back({{"value", v.value}, {"count", v.count}, {"share", v.share}});
    const double as_double = std::bit_cast<double>(v.value);
    if (as_doubles && std::isfinite(as_double)) values.back()["as_double"] = as_double;
  }
}

Json row_json(const HotValue& v) {
  Json j = {{"rank", v.rank}};
  j.update(place_json(v.at));
  if (v.context) j["context"] = place_json(*v.context);
  if (!v.disassembly.empty()) j["disassembly"] = v.disassembly;
  j["part"] = to_string(v.part);
  j["bits"] = v.bits;
  j["semi_invariant"] = v.semi_invariant;
  add_figures_json(j, v.figures);
  return j;
}

Json row_json(const HotArgument& a) {
  Json j = {{"rank", a.rank},
            {"from", place_json(a.site)},
            {"to", place_json(a.callee)},
            {"register", a.reg},
            {"is_size", a.is_size}};
  add_figures_json(j, a.figures, a.is_double());
  return j;
}

Json row_json(const HotTargets& t) {
  Json j = {{"rank", t.rank}};
  j.update(place_json(t.at));
  j["kind"] = to_string(t.kind);
  j["count"] = t.count;
  j["distinct"] = t.distinct;
  Json& targets = j["targets"] = Json::array();
  for (const TargetShare& to : t.targets)
    targets.push_back({{"to", place_json(to.to)}, {"count", to.count}, {"share", to.share}});
  return j;
}

void add_data_place(Json& j, const DataPlace& p) {
  if (!p.module.empty()) j["module"] = p.module;
  j[p.module.empty() ? "address" : "offset"] = p.offset;
}

Json row_json(const HotLatencyPage& p) {
  Json j = {{"rank", p.rank}, {"class", to_string(p.level)}};
  add_data_place(j, p.page);
  j["count"] = p.count;
  j["share"] = p.share;
  return j;
}

Json row_json(const HotLatencyValue& v) {
  return {{"rank", v.rank},
          {"class", to_string(v.level)},
          {"value", v.value},
          {"count", v.count},
          {"share", v.share}};
}

Json row_json(const HotCacheLine& l) {
  Json j = {{"rank", l.rank}};
  add_data_place(j, l.line);
  j["loads"] = l.loads;
  j["stores"] = l.stores;
  j["share"] = l.share;
  return j;
}

Json row_json(const HotPath& p) {
  Json j = {{"rank", p.rank},
            {"count", p.count},
            {"flow", p.flow},
            {"instructions", p.instructions},
            {"share", p.share}};
  add_margin(j, "share_error", p.share_error);
  if (p.from) j["from"] = place_json(*p.from);
  Json& blocks = j["blocks"] = Json::array();
  for (const Place& block : p.blocks) blocks.push_back(place_json(block));
  return j;
}

Json row_json(const HotLoad& l) {
  Json j = {{"rank", l.rank}};
  j.update(place_json(l.at));
  j["executions"] = l.executions;
  j["timed"] = l.timed;
  j["mean_cycles"] = l.mean_cycles;
  j["mean_error"] = l.mean_error;
  j["p50"] = l.p50;
  j["p90"] = l.p90;
  j["p99"] = l.p99;
  for (size_t c = 0; c < kLatencyClasses; c++)
    j["classes"][to_string(static_cast<LatencyClass>(c))] = l.classes[c];
  j["lost_cycles"] = l.lost_cycles;
  j["address_kind"] = to_string(l.kind);
  j["stride"] = l.stride;
  return j;
}

Json row_json(const Module& m) {
  return {{"path", m.path},
          {"build_id", m.build_id},
          {"address", m.address},
          {"inode", m.inode},
          {"device", m.device}};
}

Json row_json(const Function& f) {
  Json j = {{"module", f.at.module}, {"offset", f.at.offset}, {"size", f.size}, {"name", f.name}};
  if (!f.linkage_name.empty()) j["linkage_name"] = f.linkage_name;
  if (!f.file.empty()) j["file"] = f.file;
  if (f.line != 0) j["line"] = f.line;
  j["self_instructions"] = f.self;
  if (f.self_error != 0) j["self_error"] = f.self_error;
  j["inclusive_instructions"] = f.inclusive;
  j["invocations"] = f.invocations;
  j["loop_iterations"] = f.loop_iterations;
  return j;
}

Json merged_json(const MergedRun& m) {
  return {{"file", m.file},
          {"command", m.command},
          {"started", m.started},
          {"instructions", m.instructions},
          {"weight", m.weight}};
}

Json run_json(const Run& r) {
  Json j = {{"command", r.command}, {"pid", r.pid},         {"mode", r.mode},
            {"engine", r.engine},   {"options", r.options}, {"seed", r.seed}};
  j["host"] = {{"cpu", r.host.cpu}, {"kernel", r.host.kernel}, {"cores", r.host.cores}};
  if (const auto& c = r.host.latency) {
    Json& clock = j["host"]["latency"] = {{"resolution", c->resolution}, {"overhead", c->overhead}};
    for (size_t i = 0; i < c->typical.size(); i++)
      clock[to_string(static_cast<LatencyClass>(i))] = c->typical[i];
  }
  j["started"] = r.started;
  j["duration_s"] = r.duration_s;
  j["exit"] = nullptr;
  if (r.exit) j["exit"] = {{r.exit->signalled ? "signal" : "status", r.exit->value}};
  for (const MergedRun& m : r.merged) j["merged"].push_back(merged_json(m));
  return j;
}

Json coverage_json(const Coverage& c) {
  Json j = {{"samples", c.samples},
          {"instructions_profiled", c.instructions_profiled},
          {"instructions_total", c.instructions_total},
          {"estimated", c.estimated},
          {"share", c.share()},
          {"attributed", c.attributed},
          {"dropped", c.dropped},
          {"ended", c.ended},
          {"events", c.events}};
  if (c.verified) {
    j["verified"] = {{"samples", c.verified->samples},
                     {"instructions", c.verified->instructions},
                     {"diverged", c.verified->diverged}};
  }
  if (c.paths.collected)
    j["paths"] = {{"scope", c.paths.intra ? "intra" : "interprocedural"},
                  {"executions", c.paths.executions},
                  {"distinct", c.paths.distinct},
                  {"pruned", c.paths.pruned},
                  {"error_bound", c.paths.error_bound},
                  {"dropped", c.paths.dropped}};
  if (c.accesses.collected)
    j["accesses"] = {{"known", c.accesses.accesses},
                     {"lines", c.accesses.lines},
                     {"pruned", c.accesses.pruned},
                     {"error_bound", c.accesses.error_bound},
                     {"unknown", c.accesses.unknown}};
  return j;
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
            {"stops", o.stops}};
  if (!o.sampling.empty()) j["sampling"] = o.sampling;
  return j;
}

Json syscalls_json(const Syscalls& s) {
  Json by_name = Json::object();
  for (const auto& [name, c] : s.by_name) by_name[name] = {{"count", c.count}, {"ended", c.ended}};
  return {{"by_class", s.by_class}, {"by_name", by_name}};
}

// Writes the parts of a JSON document in order. Out has write(string_view).
template <typename Out>
class Writer {
 public:
  explicit Writer(Out& out) : out_(out) {}

  void open(const char* name = nullptr) { begin(name, "{"); }
  void close() {
    out_.write("}");
    first_ = false;
  }
  void value(const char* name, const Json& v) {
    begin(name, text_of(v));
    first_ = false;
  }

  template <typename Rows>
  void rows(const char* name, const Rows& all) {
    begin(name, "[");
    for (const auto& row : all) {
      out_.write(first_ ? "\n" : ",\n");
      out_.write(text_of(row_json(row)));
      first_ = false;
    }
    out_.write("]");
    first_ = false;
  }

  template <typename Rows, typename Get>
  void column(const char* name, const Rows& all, Get get) {
    begin(name, "[");
    char digits[24];
    for (const auto& row : all) {
      char* at = digits;
      if (!first_) *at++ = ',';
      first_ = false;
      at = std::to_chars(at, digits + sizeof(digits), static_cast<uint64_t>(get(row))).ptr;
      out_.write({digits, static_cast<size_t>(at - digits)});
    }
    out_.write("]");
    first_ = false;
  }

 private:
  void begin(const char* name, std::string_view text) {
    if (name != nullptr) {
      out_.write(first_ ? "\n\"" : ",\n\"");
      out_.write(name);
      out_.write("\":");
    }
    out_.write(text);
    first_ = true;
  }

  Out& out_;
  bool first_ = true;
};

struct EntryOfRow {
  size_t row;
  ValueCount value;
};

// The hottest values of each row, as a table of its own.
template <typename Rows>
std::vector<EntryOfRow> entries_of(const Rows& rows) {
  std::vector<EntryOfRow> entries;
  for (size_t i = 0; i < rows.size(); i++) {
    const auto& top = rows[i].figures.top;
    for (size_t k = 0; k < std::min(kValuesInFile, top.size()); k++) entries.push_back({i, top[k]});
  }
  return entries;
}

template <typename Out, typename Rows>
void write_figures(Writer<Out>& w, const Rows& rows) {
  using Row = typename Rows::value_type;
  w.column("count", rows, [](const Row& r) { return r.figures.count; });
  w.column("zero", rows, [](const Row& r) { return r.figures.zero; });
  w.column("same", rows, [](const Row& r) { return r.figures.same; });
  w.column("strided", rows, [](const Row& r) { return r.figures.strided; });
  w.column("distinct", rows, [](const Row& r) { return r.figures.distinct; });
  const bool errors =
      std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.figures.samples != 0; });
  if (errors) {
    w.column("top_error", rows, [](const Row& r) { return r.figures.top_error; });
    w.column("samples", rows, [](const Row& r) { return r.figures.samples; });
  }
  w.close();
}

template <typename Out, typename Rows>
void write_entries(Writer<Out>& w, const char* name, const Rows& rows) {
  const std::vector<EntryOfRow> entries = entries_of(rows);
  w.open(name);
  w.column("row", entries, [](const EntryOfRow& e) { return e.row; });
  w.column("value", entries, [](const EntryOfRow& e) { return e.value.value; });
  w.column("count", entries, [](const EntryOfRow& e) { return e.value.count; });
  w.close();
}

template <typename Out>
void write_latency_tables(Writer<Out>& w, const Tables& t) {
  if (t.latencies.empty()) return;
  struct Bucket {
    size_t row;
    uint32_t bucket;
    uint64_t count;
  };
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < t.latencies.size(); i++)
    for (const auto& [bucket, count] : t.latencies[i].histogram)
      buckets.push_back({i, bucket, count});
  w.open("latencies");
  w.column("module", t.latencies, [](const LatencyRow& l) { return l.at.module; });
  w.column("offset", t.latencies, [](const LatencyRow& l) { return l.at.offset; });
  w.column("executions", t.latencies, [](const LatencyRow& l) { return l.executions; });
  w.column("timed", t.latencies, [](const LatencyRow& l) { return l.timed; });
  w.column("first_touches", t.latencies, [](const LatencyRow& l) { return l.first_touches; });
  w.column("cycles", t.latencies, [](const LatencyRow& l) { return l.cycles; });
  for (size_t c = 0; c < kLatencyClasses; c++)
    w.column(to_string(static_cast<LatencyClass>(c)), t.latencies,
             [c](const LatencyRow& l) { return l.classes[c]; });
  Json kinds = Json::array();
  for (size_t i = 0; i < kAddressKinds; i++)
    kinds.push_back(to_string(static_cast<AddressKind>(i)));
  w.value("kinds", kinds);
  w.column("kind", t.latencies, [](const LatencyRow& l) { return static_cast<uint64_t>(l.kind); });
  w.column("kind_timed", t.latencies, [](const LatencyRow& l) { return l.kind_timed; });
  w.column("backwards", t.latencies, [](const LatencyRow& l) { return l.stride < 0 ? 1 : 0; });
  w.column("stride", t.latencies, [](const LatencyRow& l) {
    return l.stride < 0 ? -static_cast<uint64_t>(l.stride) : static_cast<uint64_t>(l.stride);
  });
  w.column("strided", t.latencies, [](const LatencyRow& l) { return l.strided; });
  w.close();
  w.open("latency_buckets");
  w.column("row", buckets, [](const Bucket& b) { return b.row; });
  w.column("bucket", buckets, [](const Bucket& b) { return b.bucket; });
  w.column("count", buckets, [](const Bucket& b) { return b.count; });
  w.close();
}

template <typename Out>
void write_path_tables(Writer<Out>& w, const Tables& t, bool errors) {
  if (t.paths.empty()) return;
  struct BlockOfPath {
    size_t path;
    CodeRef at;
  };
  std::vector<BlockOfPath> blocks;
  for (size_t i = 0; i < t.paths.size(); i++)
    for (const CodeRef at : t.paths[i].blocks) blocks.push_back({i, at});
  w.open("paths");
  w.column("count", t.paths, [](const PathRow& p) { return p.count; });
  w.column("insns", t.paths, [](const PathRow& p) { return p.insns; });
  if (errors) w.column("error", t.paths, [](const PathRow& p) { return p.error; });
  w.column("called", t.paths, [](const PathRow& p) { return p.from_count; });
  w.column("from_module", t.paths, [](const PathRow& p) { return p.from.module; });
  w.column("from_offset", t.paths, [](const PathRow& p) { return p.from.offset; });
  w.close();
  w.open("path_blocks");
  w.column("path", blocks, [](const BlockOfPath& b) { return b.path; });
  w.column("module", blocks, [](const BlockOfPath& b) { return b.at.module; });
  w.column("offset", blocks, [](const BlockOfPath& b) { return b.at.offset; });
  w.close();
}

// Columns "in_module", "module" and "offset" (of the module, or of nothing: an address).
template <typename Out, typename Rows, typename RefOf>
void write_data_refs(Writer<Out>& w, const Rows& rows, RefOf ref_of) {
  using Row = typename Rows::value_type;
  w.column("in_module", rows, [&](const Row& r) { return ref_of(r).in_module ? 1 : 0; });
  w.column("module", rows, [&](const Row& r) { return ref_of(r).at.module; });
  w.column("offset", rows, [&](const Row& r) { return ref_of(r).at.offset; });
}

template <typename Out>
void write_memory_tables(Writer<Out>& w, const Tables& t) {
  if (!t.latencies.empty()) {
    w.open("latency_pages");
    w.column("class", t.latency_pages,
             [](const LatencyPageRow& r) { return static_cast<int>(r.level); });
    write_data_refs(w, t.latency_pages, [](const LatencyPageRow& r) { return r.page; });
    w.column("count", t.latency_pages, [](const LatencyPageRow& r) { return r.count; });
    w.close();
    w.open("latency_values");
    w.column("class", t.latency_values,
             [](const LatencyValueRow& r) { return static_cast<int>(r.level); });
    w.column("value", t.latency_values, [](const LatencyValueRow& r) { return r.value; });
    w.column("count", t.latency_values, [](const LatencyValueRow& r) { return r.count; });
    w.close();
  }
  if (t.cache_lines.empty()) return;
  w.open("cache_lines");
  write_data_refs(w, t.cache_lines, [](const CacheLineRow& r) { return r.line; });
  w.column("loads", t.cache_lines, [](const CacheLineRow& r) { return r.loads; });
  w.column("stores", t.cache_lines, [](const CacheLineRow& r) { return r.stores; });
  w.close();
}

template <typename Out>
void write_value_tables(Writer<Out>& w, const Tables& t) {
  if (!t.values.empty()) {
    w.open("values");
    w.column("module", t.values, [](const ValueRow& v) { return v.at.module; });
    w.column("offset", t.values, [](const ValueRow& v) { return v.at.offset; });
    w.column("in_context", t.values, [](const ValueRow& v) { return v.has_context ? 1 : 0; });
    w.column("context_module", t.values, [](const ValueRow& v) { return v.context.module; });
    w.column("context_offset", t.values, [](const ValueRow& v) { return v.context.offset; });
    w.column("part", t.values, [](const ValueRow& v) { return static_cast<int>(v.part); });
    w.column("bits", t.values, [](const ValueRow& v) { return v.bits; });
    w.column("constant", t.values, [](const ValueRow& v) { return v.constant ? 1 : 0; });
    write_figures(w, t.values);
    write_entries(w, "value_entries", t.values);
  }
  if (!t.arguments.empty()) {
    w.open("arguments");
    w.column("from_module", t.arguments, [](const ArgumentRow& a) { return a.site.module; });
    w.column("from_offset", t.arguments, [](const ArgumentRow& a) { return a.site.offset; });
    w.column("to_module", t.arguments, [](const ArgumentRow& a) { return a.callee.module; });
    w.column("to_offset", t.arguments, [](const ArgumentRow& a) { return a.callee.offset; });
    w.column("argument", t.arguments, [](const ArgumentRow& a) { return a.argument; });
    write_figures(w, t.arguments);
    write_entries(w, "argument_entries", t.arguments);
  }
}

// `errors`: there are any.
template <typename Out>
void write_tables(Writer<Out>& w, const Tables& t, bool errors) {
  w.open("tables");
  w.open("blocks");
  w.column("module", t.blocks, [](const BlockCount& b) { return b.at.module; });
  w.column("offset", t.blocks, [](const BlockCount& b) { return b.at.offset; });
  w.column("size", t.blocks, [](const BlockCount& b) { return b.size; });
  w.column("insns", t.blocks, [](const BlockCount& b) { return b.insns; });
  w.column("count", t.blocks, [](const BlockCount& b) { return b.count; });
  w.close();
  w.open("interruptions");
  w.column("block", t.interruptions, [](const Interruption& i) { return i.block; });
  w.column("executed", t.interruptions, [](const Interruption& i) { return i.executed; });
  w.column("count", t.interruptions, [](const Interruption& i) { return i.count; });
  w.close();
  w.open("edges");
  Json kinds = Json::array();
  for (size_t i = 0; i < kEdgeKinds; i++) kinds.push_back(to_string(static_cast<EdgeKind>(i)));
  w.value("kinds", kinds);
  w.column("from_module", t.edges, [](const Edge& e) { return e.from.module; });
  w.column("from_offset", t.edges, [](const Edge& e) { return e.from.offset; });
  w.column("to_module", t.edges, [](const Edge& e) { return e.to.module; });
  w.column("to_offset", t.edges, [](const Edge& e) { return e.to.offset; });
  w.column("kind", t.edges, [](const Edge& e) { return e.kind; });
  w.column("count", t.edges, [](const Edge& e) { return e.count; });
  if (errors) w.column("error", t.edges, [](const Edge& e) { return e.error; });
  w.close();
  w.open("calls");
  w.column("from_module", t.calls, [](const CallPair& c) { return c.site.module; });
  w.column("from_offset", t.calls, [](const CallPair& c) { return c.site.offset; });
  w.column("to_module", t.calls, [](const CallPair& c) { return c.callee.module; });
  w.column("to_offset", t.calls, [](const CallPair& c) { return c.callee.offset; });
  w.column("indirect", t.calls, [](const CallPair& c) { return c.indirect ? 1 : 0; });
  w.column("count", t.calls, [](const CallPair& c) { return c.count; });
  w.column("inclusive", t.calls, [](const CallPair& c) { return c.inclusive; });
  if (errors) w.column("error", t.calls, [](const CallPair& c) { return c.error; });
  w.close();
  w.open("entries");
  w.column("module", t.entries, [](const Entry& e) { return e.at.module; });
  w.column("offset", t.entries, [](const Entry& e) { return e.at.offset; });
  w.column("invocations", t.entries, [](const Entry& e) { return e.invocations; });
  w.column("inclusive", t.entries, [](const Entry& e) { return e.inclusive; });
  w.close();
  write_path_tables(w, t, errors);
  write_latency_tables(w, t);
  write_memory_tables(w, t);
  write_value_tables(w, t);
  w.close();
}

template <typename Out>
void write_hotlists(Writer<Out>& w, const char* name, const Hotlists& h) {
  w.open(name);
  w.rows("methods", h.methods);
  w.rows("call_pairs", h.call_pairs);
  w.rows("edges", h.edges);
  w.rows("paths", h.paths);
  w.rows("load_latency", h.load_latency);
  w.rows("latency_pages", h.latency_pages);
  w.rows("latency_values", h.latency_values);
  w.rows("cache_lines", h.cache_lines);
  w.rows("values", h.values);
  w.rows("arguments", h.arguments);
  w.rows("targets", h.targets);
  w.close();
}

// The first key is "schema": is_profile_file() looks for it at the beginning.
template <typename Out>
void write_document(Out& out, const Profile& p) {
  Writer<Out> w(out);
  w.open();
  w.value("schema", kSchema);
  w.value("version", kVersion);
  w.value("tool", {{"name", "shadowprof"}, {"version", p.tool_version}});
  w.value("run", run_json(p.run));
  w.value("coverage", coverage_json(p.coverage));
  w.value("overhead", overhead_json(p.overhead));
  w.value("syscalls", syscalls_json(p.syscalls));
  w.rows("modules", p.modules);
  w.rows("functions", p.functions);
  write_hotlists(w, "hotlists", p.hotlists);
  write_tables(w, p.tables, p.confidence.groups != 0);
  w.value("confidence", {{"exact", p.confidence.exact},
                         {"level", kConfidenceLevel},
                         {"groups", p.confidence.groups}});
  w.close();
  out.write("\n");
}

struct StringOut {
  std::string text;
  void write(std::string_view s) { text += s; }
};

// A profile of ours, or nothing yet.
Result<bool> is_profile_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, "cannot read {}, which is there already", path);
  std::string head(kHeadBytes, '\0');
  const ssize_t n = ::read(fd.get(), head.data(), head.size());
  if (n < 0) return fail_errno(errno, "cannot read {}, which is there already", path);
  std::string squeezed;
  for (char c : decompress_head(std::string_view(head).substr(0, static_cast<size_t>(n)), 256))
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') squeezed += c;
  return n == 0 || squeezed.starts_with(std::string("{\"schema\":\"") + kSchema + '"');
}

}  // namespace

Status check_output(const std::string& path) {
  if (path == "-") {
    SP_ASSIGN([[maybe_unused]] const OutputFile open, OutputFile::open(path));
    return {};
  }
  if (path.empty()) return fail("the name of the profile is empty");
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return fail("cannot write the profile to {}: it is a directory", path);
    if (!S_ISREG(info.st_mode)) {
      if (::access(path.c_str(), W_OK) != 0) return fail_errno(errno, "cannot write {}", path);
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

Status write_profile(const Profile& profile, const std::string& path) {
  SP_TRY(check_output(path));
  SP_ASSIGN(OutputFile file, OutputFile::open(path));
  write_document(file, profile);
  return file.finish();
}

std::string profile_json(const Profile& profile) {
  StringOut out;
  write_document(out, profile);
  return std::move(out.text);
}

std::string hotlists_json(const Hotlists& hotlists) {
  StringOut out;
  Writer<StringOut> w(out);
  write_hotlists(w, nullptr, hotlists);
  return out.text + "\n";
}

}  // namespace shadowprof::profile
