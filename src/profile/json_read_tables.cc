// SPDX-License-Identifier: MIT
//
// The tables of a profile file: columns of numbers.
#include <algorithm>

#include "profile/json_object.h"

namespace shadowprof::profile::json {
namespace {

LatencyClass read_class(uint64_t number, const std::string& where) {
  if (number >= kLatencyClasses) throw Bad{where + " is no class of latency"};
  return static_cast<LatencyClass>(number);
}

// The figures of row `i`, whose columns begin at `first`.
// Of row `i`: the five columns from number `first` on, and errors, if there are any.
class FigureColumns {
 public:
  FigureColumns(const Object& table, const Columns& columns, size_t first)
      : columns_(columns),
        first_(first),
        errors_(table, "top_error", columns.rows()),
        samples_(table, "samples", columns.rows()),
        estimated_(table, "estimated", columns.rows()),
        distinct_errors_(table, "distinct_error", columns.rows()) {}
  ValueFigures at(size_t i) const {
    ValueFigures f;
    uint64_t* const figures[] = {&f.count, &f.zero, &f.same, &f.strided, &f.distinct};
    for (size_t k = 0; k < std::size(figures); k++) *figures[k] = columns_.count(first_ + k, i);
    f.top_error = errors_.count(i);
    f.samples = static_cast<uint32_t>(samples_.count(i));
    f.estimated = estimated_.count(i) != 0;
    f.distinct_error = distinct_errors_.count(i);
    return f;
  }

 private:
  const Columns& columns_;
  const size_t first_;
  const OptionalColumn errors_;
  const OptionalColumn samples_;
  const OptionalColumn estimated_;
  const OptionalColumn distinct_errors_;
};

template <typename Rows>
void read_entries(const Object& tables, const char* name, Rows& rows) {
  const Object table = tables.object(name);
  const Columns c(table, {"row", "value", "count"});
  for (size_t i = 0; i < c.rows(); i++) {
    const uint64_t row = c.count(0, i);
    if (row >= rows.size()) throw Bad{fmt::format("{}[{}] is not a row", table.where("row"), i)};
    rows[row].figures.top.push_back({c.count(1, i), c.count(2, i)});
  }
}

void read_latency_tables(const Object& o, Tables& t) {
  if (!o.has("latencies")) return;
  const Object table = o.object("latencies");
  const Columns c(table,
                  {"module", "offset", "executions", "timed", "first_touches", "cycles", "kind",
                   "backwards", "stride", "strided", "l1", "l2", "l3", "dram", "beyond"});
  const OptionalColumn kind_timed(table, "kind_timed", c.rows());
  const OptionalColumn cold(table, "cold", c.rows());
  const OptionalColumn cold_cycles(table, "cold_cycles", c.rows());
  const OptionalColumn instruction(table, "instruction", c.rows());
  std::vector<AddressKind> kinds;
  for (const std::string& name : table.texts("kinds"))
    kinds.push_back(read_address_kind(name, table.where("kinds")));
  for (size_t i = 0; i < c.rows(); i++) {
    LatencyRow l;
    l.at = c.place(0, i);
    l.executions = c.count(2, i);
    l.timed = c.count(3, i);
    l.first_touches = c.count(4, i);
    l.cycles = c.count(5, i);
    l.cold = cold.count(i);
    l.cold_cycles = cold_cycles.count(i);
    if (instruction.count(i) >= kLoadKinds)
      throw Bad{fmt::format("{}[{}] is no kind of load", table.where("instruction"), i)};
    l.by = static_cast<LoadKind>(instruction.count(i));
    if (c.count(6, i) >= kinds.size())
      throw Bad{fmt::format("{}[{}] is not in the list of kinds", table.where("kind"), i)};
    l.kind = kinds[c.count(6, i)];
    l.kind_timed = kind_timed.count(i);
    if (c.count(8, i) > kMostMagnitude)
      throw Bad{fmt::format("{}[{}] is too large", table.where("stride"), i)};
    const auto stride = static_cast<int64_t>(c.count(8, i));
    l.stride = c.count(7, i) != 0 ? -stride : stride;
    l.strided = c.count(9, i);
    for (size_t k = 0; k < kLatencyClasses; k++) l.classes[k] = c.count(10 + k, i);
    if (l.classes[static_cast<size_t>(LatencyClass::beyond)] > l.timed)
      throw Bad{fmt::format("{}[{}] is more than were timed", table.where("beyond"), i)};
    t.latencies.push_back(std::move(l));
  }
  const Object bucket_table = o.object("latency_buckets");
  const Columns buckets(bucket_table, {"row", "bucket", "count"});
  for (size_t i = 0; i < buckets.rows(); i++) {
    if (buckets.count(0, i) >= t.latencies.size() || buckets.count(1, i) >= kLatencyBuckets)
      throw Bad{fmt::format("{}[{}] is no bucket of a row", bucket_table.where("row"), i)};
    t.latencies[buckets.count(0, i)].histogram.push_back(
        {buckets.small(1, i), buckets.count(2, i)});
  }
}

DataRef read_data_ref(const Columns& c, size_t first, size_t row) {
  return {c.count(first, row) != 0, c.place(first + 1, row)};
}

// Which load a page or value is of: not in older profiles.
class LoadColumns {
 public:
  LoadColumns(const Object& table, size_t rows)
      : known_(table, "of_load", rows), module_(table, "load_module", rows), offset_(table, "load_offset", rows),
        where_(table.where("load_module")) {}
  std::optional<CodeRef> load(size_t row) const {
    if (known_.count(row) == 0) return std::nullopt;
    if (module_.count(row) > UINT32_MAX) throw Bad{fmt::format("{}[{}] is no module", where_, row)};
    return CodeRef{static_cast<uint32_t>(module_.count(row)), offset_.count(row)};
  }

 private:
  OptionalColumn known_, module_, offset_;
  std::string where_;
};

void read_memory_tables(const Object& o, Tables& t) {
  if (o.has("latency_pages")) {
    const Object table = o.object("latency_pages");
    const Columns c(table, {"class", "in_module", "module", "offset", "count"});
    const LoadColumns loads(table, c.rows());
    for (size_t i = 0; i < c.rows(); i++)
      t.latency_pages.push_back(
          {read_class(c.count(0, i), table.where("class")), read_data_ref(c, 1, i), c.count(4, i), loads.load(i)});
  }
  if (o.has("latency_values")) {
    const Object table = o.object("latency_values");
    const Columns c(table, {"class", "value", "count"});
    const LoadColumns loads(table, c.rows());
    for (size_t i = 0; i < c.rows(); i++)
      t.latency_values.push_back(
          {read_class(c.count(0, i), table.where("class")), c.count(1, i), c.count(2, i), loads.load(i)});
  }
  if (o.has("cache_lines")) {
    const Object table = o.object("cache_lines");
    const Columns c(table, {"in_module", "module", "offset", "loads", "stores"});
    for (size_t i = 0; i < c.rows(); i++)
      t.cache_lines.push_back({read_data_ref(c, 0, i), c.count(3, i), c.count(4, i)});
  }
}

void read_path_tables(const Object& o, Tables& t) {
  if (!o.has("paths")) return;
  const Object table = o.object("paths");
  const Columns c(table, {"count", "insns", "called", "from_module", "from_offset"});
  const OptionalColumn errors(table, "error", c.rows());
  t.paths.reserve(c.rows());
  for (size_t i = 0; i < c.rows(); i++)
    t.paths.push_back(
        {c.count(0, i), c.count(1, i), c.count(2, i), c.place(3, i), {}, errors.count(i)});
  const Object block_table = o.object("path_blocks");
  const Columns blocks(block_table, {"path", "module", "offset"});
  for (size_t i = 0; i < blocks.rows(); i++) {
    const uint64_t path = blocks.count(0, i);
    if (path >= t.paths.size())
      throw Bad{fmt::format("{}[{}] is not a path", block_table.where("path"), i)};
    t.paths[path].blocks.push_back(blocks.place(1, i));
  }
}

void read_value_tables(const Object& o, Tables& t) {
  if (o.has("values")) {
    const Object table = o.object("values");
    const Columns c(table, {"module", "offset", "in_context", "context_module", "context_offset",
                            "bits", "constant", "count", "zero", "same", "strided", "distinct"});
    const OptionalColumn parts(table, "part", c.rows());
    const FigureColumns figures(table, c, 7);
    t.values.reserve(c.rows());
    for (size_t i = 0; i < c.rows(); i++) {
      if (parts.count(i) >= kValueParts)
        throw Bad{fmt::format("{}[{}] is no part of an instruction", table.where("part"), i)};
      t.values.push_back({c.place(0, i),
                          c.count(2, i) != 0,
                          c.place(3, i),
                          static_cast<ValuePart>(parts.count(i)),
                          static_cast<uint8_t>(c.small(5, i)),
                          c.count(6, i) != 0,
                          figures.at(i),
                          {}});
    }
    read_entries(o, "value_entries", t.values);
  }
  if (o.has("arguments")) {
    const Object table = o.object("arguments");
    const Columns c(table, {"from_module", "from_offset", "to_module", "to_offset", "argument",
                            "count", "zero", "same", "strided", "distinct"});
    const FigureColumns figures(table, c, 5);
    t.arguments.reserve(c.rows());
    for (size_t i = 0; i < c.rows(); i++) {
      if (c.count(4, i) >= kArguments)
        throw Bad{fmt::format("{}[{}] is no argument", table.where("argument"), i)};
      t.arguments.push_back(
          {c.place(0, i), c.place(2, i), static_cast<uint8_t>(c.count(4, i)), figures.at(i)});
    }
    read_entries(o, "argument_entries", t.arguments);
  }
}

void read_contexts(const Object& o, ContextTable& contexts) {
  if (!o.has("contexts")) return;
  const Object table = o.object("contexts");
  const size_t kinds = table.list("kinds").size();
  const Columns c(table, {"module", "offset", "caller", "kind", "self", "calls"});
  const OptionalColumn errors(table, "error", c.rows());
  contexts.reserve(c.rows());
  for (size_t i = 0; i < c.rows(); i++) {
    if (c.count(2, i) > i)
      throw Bad{fmt::format("{}[{}] is no row before it", table.where("caller"), i)};
    if (c.count(3, i) >= std::min(kinds, kContextKinds))
      throw Bad{fmt::format("{}[{}] is not in the list of kinds", table.where("kind"), i)};
    // Number 0 wraps to kNoContext.
    contexts.push_back({static_cast<uint32_t>(c.count(2, i)) - 1,
                        static_cast<ContextKind>(c.count(3, i)), c.place(0, i), c.count(4, i),
                        c.count(5, i), errors.count(i)});
  }
}

void read_edges(const Object& o, EdgeTable& edges) {
  std::vector<EdgeKind> kinds;
  for (const std::string& name : o.texts("kinds"))
    kinds.push_back(read_kind(name, o.where("kinds")));
  const Columns c(o, {"from_module", "from_offset", "to_module", "to_offset", "kind", "count"});
  const OptionalColumn errors(o, "error", c.rows());
  edges.reserve(c.rows());
  for (size_t i = 0; i < c.rows(); i++) {
    const uint64_t kind = c.count(4, i);
    if (kind >= kinds.size())
      throw Bad{fmt::format("{}[{}] is not in the list of kinds", o.where("kind"), i)};
    edges.push_back({c.place(0, i), c.place(2, i), kinds[kind], c.count(5, i), errors.count(i)});
  }
}

}  // namespace

namespace {

void read_time(const Object& o, TimeTable& rows) {
  if (!o.has("time")) return;
  const Object table = o.object("time");
  const Columns c(table, {"module", "offset", "thread", "user_ns", "kernel_ns"});
  rows.reserve(c.rows());
  for (size_t i = 0; i < c.rows(); i++)
    rows.push_back({c.place(0, i), c.small(2, i), c.count(3, i), c.count(4, i)});
}

}  // namespace

Tables read_tables(const Object& o) {
  Tables t;
  const Object block_table = o.object("blocks");
  const Columns blocks(block_table, {"module", "offset", "size", "insns", "count"});
  t.blocks.reserve(blocks.rows());
  for (size_t i = 0; i < blocks.rows(); i++)
    t.blocks.push_back(
        {blocks.place(0, i), blocks.small(2, i), blocks.small(3, i), blocks.count(4, i)});
  const Object interruption_table = o.object("interruptions");
  const Columns interruptions(interruption_table, {"block", "executed", "count"});
  for (size_t i = 0; i < interruptions.rows(); i++)
    t.interruptions.push_back(
        {interruptions.small(0, i), interruptions.small(1, i), interruptions.count(2, i)});
  read_edges(o.object("edges"), t.edges);
  const Object call_table = o.object("calls");
  const Columns calls(call_table, {"from_module", "from_offset", "to_module", "to_offset",
                                   "indirect", "count", "inclusive"});
  const OptionalColumn call_errors(call_table, "error", calls.rows());
  t.calls.reserve(calls.rows());
  for (size_t i = 0; i < calls.rows(); i++)
    t.calls.push_back({calls.place(0, i), calls.place(2, i), calls.count(4, i) != 0,
                       calls.count(5, i), calls.count(6, i), call_errors.count(i)});
  const Object entry_table = o.object("entries");
  const Columns entries(entry_table, {"module", "offset", "invocations", "inclusive"});
  t.entries.reserve(entries.rows());
  for (size_t i = 0; i < entries.rows(); i++)
    t.entries.push_back({entries.place(0, i), entries.count(2, i), entries.count(3, i)});
  read_contexts(o, t.contexts);
  read_path_tables(o, t);
  read_latency_tables(o, t);
  read_memory_tables(o, t);
  read_value_tables(o, t);
  read_time(o, t.time);
  return t;
}

}  // namespace shadowprof::profile::json
