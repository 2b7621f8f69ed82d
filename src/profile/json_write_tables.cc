// SPDX-License-Identifier: MIT
//
// The tables of a profile file: columns of numbers.
#include <algorithm>

#include "profile/json_writer.h"

namespace shadowprof::profile::json {
namespace {

// Of the hotlist of an instruction: the rest is in nobody's top ten.
constexpr size_t kValuesInFile = 10;

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

template <typename Rows>
void write_figures(Writer& w, const Rows& rows) {
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
  if (std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.figures.estimated; }))
    w.column("estimated", rows, [](const Row& r) { return r.figures.estimated ? 1 : 0; });
  if (std::any_of(rows.begin(), rows.end(),
                  [](const Row& r) { return r.figures.distinct_error != 0; }))
    w.column("distinct_error", rows, [](const Row& r) { return r.figures.distinct_error; });
  w.close();
}

template <typename Rows>
void write_entries(Writer& w, const char* name, const Rows& rows) {
  const std::vector<EntryOfRow> entries = entries_of(rows);
  w.open(name);
  w.column("row", entries, [](const EntryOfRow& e) { return e.row; });
  w.column("value", entries, [](const EntryOfRow& e) { return e.value.value; });
  w.column("count", entries, [](const EntryOfRow& e) { return e.value.count; });
  w.close();
}

void write_latency_tables(Writer& w, const Tables& t) {
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
  w.column("cold", t.latencies, [](const LatencyRow& l) { return l.cold; });
  w.column("cold_cycles", t.latencies, [](const LatencyRow& l) { return l.cold_cycles; });
  w.column("instruction", t.latencies,
           [](const LatencyRow& l) { return static_cast<uint64_t>(l.by); });
  for (size_t c = 0; c < kLatencyClasses; c++)
    w.column(to_string(static_cast<LatencyClass>(c)), t.latencies,
             [c](const LatencyRow& l) { return l.classes[c]; });
  OrderedJson kinds = OrderedJson::array();
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

void write_path_tables(Writer& w, const Tables& t, bool errors) {
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
template <typename Rows, typename RefOf>
void write_data_refs(Writer& w, const Rows& rows, RefOf ref_of) {
  using Row = typename Rows::value_type;
  w.column("in_module", rows, [&](const Row& r) { return ref_of(r).in_module ? 1 : 0; });
  w.column("module", rows, [&](const Row& r) { return ref_of(r).at.module; });
  w.column("offset", rows, [&](const Row& r) { return ref_of(r).at.offset; });
}

// Which load a page or value is of.
template <typename Rows>
void write_loads_of(Writer& w, const Rows& rows) {
  using Row = typename Rows::value_type;
  w.column("of_load", rows, [](const Row& r) { return r.load ? 1 : 0; });
  w.column("load_module", rows, [](const Row& r) { return r.load.value_or(CodeRef{}).module; });
  w.column("load_offset", rows, [](const Row& r) { return r.load.value_or(CodeRef{}).offset; });
}

void write_memory_tables(Writer& w, const Tables& t) {
  if (!t.latencies.empty()) {
    w.open("latency_pages");
    w.column("class", t.latency_pages,
             [](const LatencyPageRow& r) { return static_cast<int>(r.level); });
    write_data_refs(w, t.latency_pages, [](const LatencyPageRow& r) { return r.page; });
    w.column("count", t.latency_pages, [](const LatencyPageRow& r) { return r.count; });
    write_loads_of(w, t.latency_pages);
    w.close();
    w.open("latency_values");
    w.column("class", t.latency_values,
             [](const LatencyValueRow& r) { return static_cast<int>(r.level); });
    w.column("value", t.latency_values, [](const LatencyValueRow& r) { return r.value; });
    w.column("count", t.latency_values, [](const LatencyValueRow& r) { return r.count; });
    write_loads_of(w, t.latency_values);
    w.close();
  }
  if (t.cache_lines.empty()) return;
  w.open("cache_lines");
  write_data_refs(w, t.cache_lines, [](const CacheLineRow& r) { return r.line; });
  w.column("loads", t.cache_lines, [](const CacheLineRow& r) { return r.loads; });
  w.column("stores", t.cache_lines, [](const CacheLineRow& r) { return r.stores; });
  w.close();
}

void write_value_tables(Writer& w, const Tables& t) {
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

// A caller by its number from 1; 0 is none.
void write_contexts(Writer& w, const ContextTable& contexts, bool errors) {
  if (contexts.empty()) return;
  OrderedJson kinds = {"code", "unknown", "deeper", "other"};
  static_assert(kContextKinds == 4);
  w.open("contexts");
  w.value("kinds", kinds);
  w.column("caller", contexts, [](const ContextRow& c) { return c.parent + 1; });
  w.column("kind", contexts, [](const ContextRow& c) { return static_cast<uint64_t>(c.kind); });
  w.column("module", contexts, [](const ContextRow& c) { return c.at.module; });
  w.column("offset", contexts, [](const ContextRow& c) { return c.at.offset; });
  w.column("self", contexts, [](const ContextRow& c) { return c.self; });
  w.column("calls", contexts, [](const ContextRow& c) { return c.calls; });
  if (errors) w.column("error", contexts, [](const ContextRow& c) { return c.error; });
  w.close();
}

}  // namespace

namespace {

void write_time(Writer& w, const TimeTable& rows) {
  if (rows.empty()) return;
  w.open("time");
  w.column("module", rows, [](const TimeRow& r) { return r.at.module; });
  w.column("offset", rows, [](const TimeRow& r) { return r.at.offset; });
  w.column("thread", rows, [](const TimeRow& r) { return r.thread; });
  w.column("user_ns", rows, [](const TimeRow& r) { return r.user_ns; });
  w.column("kernel_ns", rows, [](const TimeRow& r) { return r.kernel_ns; });
  w.close();
}

}  // namespace

void write_tables(Writer& w, const Tables& t, bool errors) {
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
  OrderedJson kinds = OrderedJson::array();
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
  write_contexts(w, t.contexts, errors);
  write_path_tables(w, t, errors);
  write_latency_tables(w, t);
  write_memory_tables(w, t);
  write_value_tables(w, t);
  write_time(w, t.time);
  w.close();
}

}  // namespace shadowprof::profile::json
