// SPDX-License-Identifier: MIT
//
// Reads a profile file. The file may come from anywhere: whatever is wrong with it becomes one
// sentence that says where. Inside this file that sentence is an exception; it does not leave it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "profile/compression.h"
#include "profile/json_file.h"

namespace shadowprof::profile {
namespace {

using Json = nlohmann::json;

// Unpacked. The largest that were seen are some hundred megabytes.
constexpr size_t kMaxProfileBytes = size_t{4} << 30;

struct Bad {
  std::string what;
};

// A JSON object and where it stands in the document.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) throw Bad{where_ + " is not an object"};
  }

  std::string where(const std::string& key) const {
    return where_.empty() ? key : where_ + "." + key;
  }
  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const std::string& key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) throw Bad{where(key) + " is missing"};
    return *it;
  }
  Object object(const std::string& key) const { return Object(at(key), where(key)); }
  const Json& array(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_array()) throw Bad{where(key) + " is not a list"};
    return j;
  }
  std::string text(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_string()) throw Bad{where(key) + " is not a string"};
    return j.get<std::string>();
  }
  std::string text_or_empty(const char* key) const { return has(key) ? text(key) : std::string(); }
  bool boolean(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_boolean()) throw Bad{where(key) + " is not true or false"};
    return j.get<bool>();
  }
  double number(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_number()) throw Bad{where(key) + " is not a number"};
    return j.get<double>();
  }
  uint64_t count(const std::string& key) const { return count_of(at(key), where(key)); }
  uint32_t small(const std::string& key) const { return small_of(at(key), where(key)); }
  std::map<std::string, uint64_t> counts(const std::string& key) const {
    std::map<std::string, uint64_t> result;
    const Object all = object(key);
    for (const auto& [name, value] : all.json_.items())
      result[name] = count_of(value, all.where(name));
    return result;
  }
  const Json& json() const { return json_; }

  static uint64_t count_of(const Json& j, const std::string& where) {
    if (!j.is_number_unsigned()) throw Bad{where + " is not a count"};
    return j.get<uint64_t>();
  }
  static uint32_t small_of(const Json& j, const std::string& where) {
    const uint64_t value = count_of(j, where);
    if (value > std::numeric_limits<uint32_t>::max()) throw Bad{where + " is too large"};
    return static_cast<uint32_t>(value);
  }

 private:
  const Json& json_;
  std::string where_;
};

// A table of columns: all of one length.
class Columns {
 public:
  Columns(const Object& table, std::vector<const char*> names) : table_(table) {
    for (const char* name : names) {
      columns_.push_back(&table.array(name));
      if (columns_.back()->size() != columns_.front()->size())
        throw Bad{table.where(name) + " is not as long as the other columns"};
    }
    names_ = std::move(names);
  }
  size_t rows() const { return columns_.front()->size(); }
  uint64_t count(size_t column, size_t row) const {
    const Json& j = (*columns_[column])[row];
    if (!j.is_number_unsigned()) throw Bad{where(column, row) + " is not a count"};
    return j.get<uint64_t>();
  }
  uint32_t small(size_t column, size_t row) const {
    const uint64_t value = count(column, row);
    if (value > std::numeric_limits<uint32_t>::max())
      throw Bad{where(column, row) + " is too large"};
    return static_cast<uint32_t>(value);
  }
  CodeRef place(size_t module_column, size_t row) const {
    return {small(module_column, row), count(module_column + 1, row)};
  }

 private:
  std::string where(size_t column, size_t row) const {
    return fmt::format("{}[{}]", table_.where(names_[column]), row);
  }

  const Object& table_;
  std::vector<const char*> names_;
  std::vector<const Json*> columns_;
};

std::vector<std::string> read_command(const Object& o) {
  std::vector<std::string> command;
  for (const Json& word : o.array("command")) {
    if (!word.is_string()) throw Bad{o.where("command") + " has a word that is not a string"};
    command.push_back(word.get<std::string>());
  }
  return command;
}

template <typename Row, typename Read>
std::vector<Row> read_rows(const Object& parent, const char* key, Read read) {
  std::vector<Row> rows;
  const Json& all = parent.array(key);
  rows.reserve(all.size());
  for (size_t i = 0; i < all.size(); i++)
    rows.push_back(read(Object(all[i], fmt::format("{}[{}]", parent.where(key), i))));
  return rows;
}

MergedRun read_merged_run(const Object& o) {
  return {o.text("file"), read_command(o), o.text("started"), o.count("instructions"),
          o.count("weight")};
}

Run read_run(const Object& o) {
  Run r;
  r.command = read_command(o);
  if (!o.at("pid").is_number_integer()) throw Bad{"run.pid is not a number"};
  r.pid = o.at("pid").get<int64_t>();
  r.mode = o.text("mode");
  r.engine = o.text("engine");
  const Object options = o.object("options");
  for (const auto& [name, value] : options.json().items()) r.options[name] = options.text(name);
  r.seed = o.count("seed");
  const Object host = o.object("host");
  r.host = {host.text("cpu"), host.text("kernel"), host.small("cores"), {}};
  if (host.has("latency")) {
    const Object clock = host.object("latency");
    LatencyCalibration c{clock.number("resolution"), clock.number("overhead"), {}};
    for (size_t i = 0; i < c.typical.size(); i++)
      c.typical[i] = clock.number(to_string(static_cast<LatencyClass>(i)));
    r.host.latency = c;
  }
  r.started = o.text("started");
  r.duration_s = o.number("duration_s");
  if (!o.at("exit").is_null()) {
    const Object exit = o.object("exit");
    const bool signalled = exit.has("signal");
    r.exit = Exit{signalled, static_cast<int>(exit.small(signalled ? "signal" : "status"))};
  }
  if (o.has("merged")) r.merged = read_rows<MergedRun>(o, "merged", read_merged_run);
  return r;
}

Coverage read_coverage(const Object& o) {
  Coverage c;
  c.samples = o.count("samples");
  c.instructions_profiled = o.count("instructions_profiled");
  c.instructions_total = o.count("instructions_total");
  c.estimated = o.boolean("estimated");
  c.attributed = o.count("attributed");
  c.dropped = o.counts("dropped");
  c.ended = o.counts("ended");
  c.events = o.counts("events");
  if (o.has("paths")) {
    const Object paths = o.object("paths");
    c.paths = {true,
               paths.text("scope") == "intra",
               paths.count("executions"),
               paths.count("distinct"),
               paths.count("pruned"),
               paths.count("error_bound"),
               paths.count("dropped")};
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
  overhead.translated_blocks = o.count("translated_blocks");
  overhead.translation_s = o.number("translation_s");
  overhead.stops = o.counts("stops");
  return overhead;
}

Syscalls read_syscalls(const Object& o) {
  Syscalls s;
  s.by_class = o.counts("by_class");
  const Object by_name = o.object("by_name");
  for (const auto& [name, value] : by_name.json().items()) {
    const Object row = by_name.object(name);
    s.by_name[name] = {row.count("count"), row.count("ended")};
  }
  return s;
}

Module read_module(const Object& o) {
  return {o.text("path"), o.text("build_id"), o.count("address"), o.count("inode"),
          o.count("device")};
}

Function read_function(const Object& o) {
  Function f;
  f.at = {o.small("module"), o.count("offset")};
  f.size = o.count("size");
  f.name = o.text("name");
  f.linkage_name = o.text_or_empty("linkage_name");
  f.file = o.text_or_empty("file");
  f.line = o.has("line") ? o.small("line") : 0;
  f.self = o.count("self_instructions");
  f.inclusive = o.count("inclusive_instructions");
  f.invocations = o.count("invocations");
  f.loop_iterations = o.count("loop_iterations");
  return f;
}

Place read_place(const Object& o) {
  return {o.text("module"), o.count("offset"), o.text_or_empty("function"), o.text_or_empty("file"),
          o.has("line") ? o.small("line") : 0};
}

EdgeKind read_kind(const std::string& name, const std::string& where) {
  const auto kind = edge_kind_from(name);
  if (!kind) throw Bad{where + " is not a kind of edge"};
  return *kind;
}

HotFigures read_hot_figures(const Object& r) {
  return {r.count("count"),
          r.number("invariance"),
          r.number("zero_share"),
          r.number("last_value_share"),
          r.number("stride_share"),
          r.count("distinct"),
          read_rows<ValueShare>(r, "values", [](const Object& v) -> ValueShare {
            return {v.count("value"), v.count("count"), v.number("share")};
          })};
}

HotValue read_hot_value(const Object& r) {
  HotValue v;
  v.rank = r.small("rank");
  v.at = read_place(r);
  if (r.has("context")) v.context = read_place(r.object("context"));
  v.disassembly = r.text_or_empty("disassembly");
  v.bits = static_cast<uint8_t>(r.small("bits"));
  v.semi_invariant = r.boolean("semi_invariant");
  v.figures = read_hot_figures(r);
  return v;
}

HotTargets read_hot_targets(const Object& r) {
  return {r.small("rank"),
          read_place(r),
          read_kind(r.text("kind"), r.where("kind")),
          r.count("count"),
          r.count("distinct"),
          read_rows<TargetShare>(r, "targets", [](const Object& t) -> TargetShare {
            return {read_place(t.object("to")), t.count("count"), t.number("share")};
          })};
}

AddressKind read_address_kind(const std::string& name, const std::string& where) {
  const auto kind = address_kind_from(name);
  if (!kind) throw Bad{where + " is no kind of address"};
  return *kind;
}

HotLoad read_hot_load(const Object& r) {
  HotLoad l{r.small("rank"),    read_place(r),   r.count("executions"),   r.count("timed"),
            r.number("mean_cycles"), r.count("p50"), r.count("p90"), r.count("p99"),
            {},                 r.number("lost_cycles"),
            read_address_kind(r.text("address_kind"), r.where("address_kind")), 0};
  const Object classes = r.object("classes");
  for (size_t c = 0; c < kLatencyClasses; c++)
    l.classes[c] = classes.number(to_string(static_cast<LatencyClass>(c)));
  if (!r.at("stride").is_number_integer()) throw Bad{r.where("stride") + " is not a number"};
  l.stride = r.at("stride").get<int64_t>();
  return l;
}

// The lists that profiles of earlier versions do not have.
void read_value_hotlists(const Object& o, Hotlists& h) {
  if (o.has("paths"))
    h.paths = read_rows<HotPath>(o, "paths", [](const Object& r) -> HotPath {
      HotPath p{r.small("rank"), r.count("count"), r.number("flow"), r.count("instructions"),
                r.number("share"), {}, read_rows<Place>(r, "blocks", read_place)};
      if (r.has("from")) p.from = read_place(r.object("from"));
      return p;
    });
  if (o.has("load_latency"))
    h.load_latency = read_rows<HotLoad>(o, "load_latency", read_hot_load);
  if (o.has("values")) h.values = read_rows<HotValue>(o, "values", read_hot_value);
  if (o.has("arguments"))
    h.arguments = read_rows<HotArgument>(o, "arguments", [](const Object& r) -> HotArgument {
      return {r.small("rank"),        read_place(r.object("from")), read_place(r.object("to")),
              r.text("register"), r.boolean("is_size"),         read_hot_figures(r)};
    });
  if (o.has("targets")) h.targets = read_rows<HotTargets>(o, "targets", read_hot_targets);
}

Hotlists read_hotlists(const Object& o) {
  Hotlists h;
  h.methods = read_rows<HotMethod>(o, "methods", [](const Object& r) -> HotMethod {
    return {r.small("rank"),
            read_place(r),
            r.count("self_instructions"),
            r.count("inclusive_instructions"),
            r.number("self_share"),
            r.number("inclusive_share"),
            r.count("invocations"),
            r.count("loop_iterations")};
  });
  h.call_pairs = read_rows<HotCallPair>(o, "call_pairs", [](const Object& r) -> HotCallPair {
    return {r.small("rank"),
            read_place(r.object("from")),
            read_place(r.object("to")),
            r.boolean("indirect"),
            r.count("count"),
            r.number("share"),
            r.count("inclusive_instructions")};
  });
  h.edges = read_rows<HotEdge>(o, "edges", [](const Object& r) -> HotEdge {
    return {r.small("rank"),
            read_place(r.object("from")),
            read_place(r.object("to")),
            read_kind(r.text("kind"), r.where("kind")),
            r.count("count"),
            r.number("share")};
  });
  read_value_hotlists(o, h);
  return h;
}

// The figures of row `i`, whose columns begin at `first`.
ValueFigures read_figures(const Columns& c, size_t first, size_t i) {
  return {c.count(first, i),     c.count(first + 1, i), c.count(first + 2, i),
          c.count(first + 3, i), c.count(first + 4, i), {}};
}

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
  const Columns c(table, {"module", "offset", "executions", "timed", "first_touches", "cycles",
                          "kind", "backwards", "stride", "strided", "l1", "l2", "l3", "dram",
                          "beyond"});
  std::vector<AddressKind> kinds;
  for (const Json& name : table.array("kinds"))
    kinds.push_back(read_address_kind(name.is_string() ? name.get<std::string>() : "",
                                      table.where("kinds")));
  for (size_t i = 0; i < c.rows(); i++) {
    LatencyRow l;
    l.at = c.place(0, i);
    l.executions = c.count(2, i);
    l.timed = c.count(3, i);
    l.first_touches = c.count(4, i);
    l.cycles = c.count(5, i);
    if (c.count(6, i) >= kinds.size())
      throw Bad{fmt::format("{}[{}] is not in the list of kinds", table.where("kind"), i)};
    l.kind = kinds[c.count(6, i)];
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
    t.latencies[buckets.count(0, i)].histogram.push_back({buckets.small(1, i), buckets.count(2, i)});
  }
}

void read_path_tables(const Object& o, Tables& t) {
  if (!o.has("paths")) return;
  const Object table = o.object("paths");
  const Columns c(table, {"count", "insns", "called", "from_module", "from_offset"});
  t.paths.reserve(c.rows());
  for (size_t i = 0; i < c.rows(); i++)
    t.paths.push_back({c.count(0, i), c.count(1, i), c.count(2, i) != 0, c.place(3, i), {}});
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
    t.values.reserve(c.rows());
    for (size_t i = 0; i < c.rows(); i++)
      t.values.push_back({c.place(0, i), c.count(2, i) != 0, c.place(3, i),
                          static_cast<uint8_t>(c.small(5, i)), c.count(6, i) != 0,
                          read_figures(c, 7, i), {}});
    read_entries(o, "value_entries", t.values);
  }
  if (o.has("arguments")) {
    const Object table = o.object("arguments");
    const Columns c(table, {"from_module", "from_offset", "to_module", "to_offset", "argument",
                            "count", "zero", "same", "strided", "distinct"});
    t.arguments.reserve(c.rows());
    for (size_t i = 0; i < c.rows(); i++) {
      if (c.count(4, i) >= kArguments)
        throw Bad{fmt::format("{}[{}] is no argument", table.where("argument"), i)};
      t.arguments.push_back({c.place(0, i), c.place(2, i), static_cast<uint8_t>(c.count(4, i)),
                             read_figures(c, 5, i)});
    }
    read_entries(o, "argument_entries", t.arguments);
  }
}

void read_edges(const Object& o, EdgeTable& edges) {
  std::vector<EdgeKind> kinds;
  for (const Json& name : o.array("kinds")) {
    if (!name.is_string()) throw Bad{o.where("kinds") + " has a kind that is not a string"};
    kinds.push_back(read_kind(name.get<std::string>(), o.where("kinds")));
  }
  const Columns c(o, {"from_module", "from_offset", "to_module", "to_offset", "kind", "count"});
  edges.reserve(c.rows());
  for (size_t i = 0; i < c.rows(); i++) {
    const uint64_t kind = c.count(4, i);
    if (kind >= kinds.size())
      throw Bad{fmt::format("{}[{}] is not in the list of kinds", o.where("kind"), i)};
    edges.push_back({c.place(0, i), c.place(2, i), kinds[kind], c.count(5, i)});
  }
}

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
  t.calls.reserve(calls.rows());
  for (size_t i = 0; i < calls.rows(); i++)
    t.calls.push_back({calls.place(0, i), calls.place(2, i), calls.count(4, i) != 0,
                       calls.count(5, i), calls.count(6, i)});
  const Object entry_table = o.object("entries");
  const Columns entries(entry_table, {"module", "offset", "invocations", "inclusive"});
  t.entries.reserve(entries.rows());
  for (size_t i = 0; i < entries.rows(); i++)
    t.entries.push_back({entries.place(0, i), entries.count(2, i), entries.count(3, i)});
  read_path_tables(o, t);
  read_latency_tables(o, t);
  read_value_tables(o, t);
  return t;
}

Profile read_document(const Json& json) {
  if (!json.is_object() || !json.contains("schema")) throw Bad{"it is not a profile of shadowprof"};
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
  p.hotlists = read_hotlists(o.object("hotlists"));
  p.tables = read_tables(o.object("tables"));
  p.confidence.exact = o.object("confidence").boolean("exact");
  for (size_t i = 1; i < p.functions.size(); i++)
    if (!(p.functions[i - 1].at < p.functions[i].at))
      throw Bad{fmt::format("functions[{}] is not in order of place", i)};
  if (auto consistent = check_consistency(p); !consistent) throw Bad{consistent.error().message};
  return p;
}

Result<std::string> read_whole_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd.valid()) return fail_errno(errno, "cannot read {}", path);
  struct stat info {};
  std::string text;
  if (::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode))
    text.reserve(static_cast<size_t>(info.st_size) + 1);
  char buffer[size_t{1} << 16];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof(buffer));
    if (n > 0) {
      text.append(buffer, static_cast<size_t>(n));
    } else if (n == 0) {
      return text;
    } else if (errno != EINTR) {
      return fail_errno(errno, "cannot read {}", path);
    }
  }
}

}  // namespace

Result<Profile> parse_profile(std::string_view text) {
  try {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) throw Bad{"it is empty"};
    const Json json = Json::parse(text.begin(), text.end());
    return read_document(json);
  } catch (const Bad& bad) {
    return fail("{}", bad.what);
  } catch (const Json::parse_error& e) {
    if (e.byte > text.size()) return fail("it is cut off after {} bytes", text.size());
    return fail("it is not JSON at byte {}", e.byte);
  } catch (const std::exception& e) {
    return fail("{}", e.what());
  }
}

Result<Profile> read_profile(const std::string& path) {
  SP_ASSIGN(std::string bytes, read_whole_file(path));
  const auto text = decompress(std::move(bytes), kMaxProfileBytes);
  if (!text) return fail("cannot use {}: {}", path, text.error().message);
  auto profile = parse_profile(*text);
  if (!profile) return fail("cannot use {}: {}", path, profile.error().message);
  return profile;
}

}  // namespace shadowprof::profile
