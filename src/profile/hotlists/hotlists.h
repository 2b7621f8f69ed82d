// SPDX-License-Identifier: MIT
//
// The rows that people read first: complete in themselves (paths and names, not indices), ranked,
// computed from the tables. for_each_place() of a row calls visit() for each place that it names.
// At the end of this file is the list of all lists.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profile/tables/access_pair_table.h"
#include "profile/tables/column.h"
#include "profile/tables/edge_table.h"
#include "profile/tables/latency_table.h"
#include "profile/tables/sharing_table.h"
#include "profile/tables/stream_table.h"
#include "profile/tables/time_table.h"
#include "profile/tables/value_table.h"

namespace shadowprof::profile {

struct Profile;

struct SourceLine {
  std::string file;
  uint32_t line = 0;
};

// Who knows the source line of a place in code (module index, offset). May be empty.
using LineLookup = std::function<std::optional<SourceLine>(CodeRef)>;

// And who knows the instruction there, disassembled; "" when not. May be empty.
using InstructionLookup = std::function<std::string(CodeRef)>;

struct Place {
  std::string module;
  uint64_t offset = 0;
  std::string function;  // "" when unknown
  std::string file;      // "" when unknown
  uint32_t line = 0;     // 0 when unknown
  // That of what was inlined is a line of a declaration, which has no offset.
  bool is_line_of_code() const { return !file.empty() && offset != 0; }
};

// Half-width of the 95 % interval of a figure; 0 in an exact profile, nothing where it is not
// known.
using Margin = std::optional<double>;

// Processor time of a row, where it was measured.
struct RowTime {
  double user_s = 0;
  double kernel_s = 0;        // that the kernel worked for it
  double share = 0;           // user_s of all processor time
  double error = 0;           // half-width of the share's 95 % interval
  double cycles_per_insn = 0; // of user time; 0: not known

  // Parts of all processor time.
  double kernel_share(const ProcessorTime& all) const {
    return all.seconds() > 0 ? kernel_s / all.seconds() : 0;
  }
  double whole_share(const ProcessorTime& all) const { return share + kernel_share(all); }
};

struct HotEdge {
  uint32_t rank = 0;  // from 1
  Place from;
  Place to;
  EdgeKind kind = EdgeKind::taken;
  uint64_t count = 0;
  double share = 0;  // of all edge executions
  Margin share_error = {};
  void for_each_place(const auto& visit) const {
    visit(from);
    visit(to);
  }
};

struct HotMethod {
  uint32_t rank = 0;
  Place at;
  uint64_t self = 0;
  uint64_t inclusive = 0;
  double self_share = 0;  // of all attributed instructions
  double inclusive_share = 0;
  uint64_t invocations = 0;
  uint64_t loop_iterations = 0;
  Margin self_share_error = {};
  RowTime time = {};
  void for_each_place(const auto& visit) const { visit(at); }
};

// A function that was inlined (inlined_table.h).
struct HotInlined {
  uint32_t rank = 0;
  Place at;  // of the declaration; it has no offset
  uint64_t self = 0;
  uint64_t inclusive = 0;
  double self_share = 0;  // of all attributed instructions
  double inclusive_share = 0;
  uint64_t places = 0;
  Margin self_share_error = {};
  RowTime time = {};
  void for_each_place(const auto& visit) const { visit(at); }
};

struct HotCallPair {
  uint32_t rank = 0;
  Place site;
  Place callee;
  bool indirect = false;
  uint64_t count = 0;
  double share = 0;  // of all calls
  uint64_t inclusive = 0;
  Margin share_error = {};
  void for_each_place(const auto& visit) const {
    visit(site);
    visit(callee);
  }
};

// A chain of calls. What is no function (context_table.h) has a label in the place of its name.
struct HotContext {
  uint32_t rank = 0;
  uint64_t instructions = 0;  // executed in it, but for calls
  double share = 0;           // of all attributed instructions
  uint64_t calls = 0;         // of the last function, from the one before
  std::vector<Place> frames;  // outermost first
  Margin share_error = {};
  void for_each_place(const auto& visit) const {
    for (const Place& frame : frames) visit(frame);
  }
};

struct ValueShare {
  uint64_t value = 0;
  uint64_t count = 0;
  double share = 0;
};

struct HotFigures {
  uint64_t count = 0;
  double invariance = 0;  // share of the most frequent value
  double zero_share = 0;
  double last_value_share = 0;  // equal to the one before
  double stride_share = 0;      // as far from the one before as that one from its predecessor; 0
                                // where the values are no integers
  uint64_t distinct = 0;
  std::vector<ValueShare> values;
  Margin invariance_error = {};
  bool estimated = false;       // from a part of what executed, or from a full hotlist
  uint64_t distinct_error = 0;  // half-width of a 95 % interval
};

struct HotValue {
  uint32_t rank = 0;
  Place at;
  std::optional<Place> context;  // return address of the frame
  std::string disassembly;       // "" when unknown
  ValuePart part = ValuePart::result;
  uint8_t bits = 64;
  ValueType type = ValueType::integer;
  uint8_t elements = 0;  // of which the value is the first; 0: there is one only
  bool semi_invariant = false;
  bool is_address = false;  // the top value is where something was in memory in this run
  std::string advice;       // what could be done with it; "" where nothing suggests itself
  HotFigures figures;
  void for_each_place(const auto& visit) const {
    visit(at);
    if (context) visit(*context);
  }
};

struct HotArgument {
  uint32_t rank = 0;
  Place site;
  Place callee;
  std::string reg;
  ValueType type() const {
    if (is_hidden) return ValueType::hidden;
    return reg.starts_with("xmm") ? ValueType::f64 : ValueType::integer;
  }
  bool is_size = false;  // of a function that copies, fills or compares memory
  bool is_address = false;
  std::string advice;
  HotFigures figures;
  bool is_hidden = false;  // the values are
  void for_each_place(const auto& visit) const {
    visit(site);
    visit(callee);
  }
};

struct TargetShare {
  Place to;
  uint64_t count = 0;
  double share = 0;
};

struct HotTargets {
  uint32_t rank = 0;
  Place at;
  EdgeKind kind = EdgeKind::indirect_call;
  uint64_t count = 0;
  uint64_t distinct = 0;
  std::vector<TargetShare> targets;
  void for_each_place(const auto& visit) const {
    visit(at);
    for (const TargetShare& target : targets) visit(target.to);
  }
};

struct HotPath {
  uint32_t rank = 0;
  uint64_t count = 0;
  double flow = 0;            // of all path executions
  uint64_t instructions = 0;  // of all its executions
  double share = 0;           // of all attributed instructions
  std::optional<Place> from;  // call site of the frame in which it begins, as most often seen
  std::vector<Place> blocks;
  Margin share_error = {};
  RowTime time = {};
  void for_each_place(const auto& visit) const {
    if (from) visit(*from);
    for (const Place& block : blocks) visit(block);
  }
};

struct HotLoad {
  uint32_t rank = 0;
  Place at;
  uint64_t executions = 0;
  uint64_t timed = 0;
  double mean_cycles = 0;
  uint64_t p50 = 0, p90 = 0, p99 = 0;
  std::array<double, kLatencyClasses> classes{};  // shares of the timed
  double lost_cycles = 0;
  AddressKind kind = AddressKind::unknown;
  int64_t stride = 0;
  double mean_error = 0;  // of mean_cycles; times are measured in every mode
  double cold_error = 0;  // what of it may be a replica's cold caches
  LoadKind by = LoadKind::move;
  void for_each_place(const auto& visit) const { visit(at); }
};

// Data of a module, or at an address.
struct DataPlace {
  std::string module;  // "" when in none
  uint64_t offset = 0;
  Place as_place() const { return {module, offset, "", "", 0}; }
};

struct HotLatencyPage {
  uint32_t rank = 0;
  LatencyClass level = LatencyClass::l1;
  DataPlace page;
  uint64_t count = 0;
  double share = 0;  // of the timed loads of its class
  std::optional<Place> load{};
  void for_each_place(const auto& visit) const {
    visit(page.as_place());
    if (load) visit(*load);
  }
};

struct HotLatencyValue {
  uint32_t rank = 0;
  LatencyClass level = LatencyClass::l1;
  uint64_t value = 0;
  uint64_t count = 0;
  double share = 0;
  std::optional<Place> load{};
  ValueType type = ValueType::integer;
  void for_each_place(const auto& visit) const {
    if (load) visit(*load);
  }
};

struct HotCacheLine {
  uint32_t rank = 0;
  DataPlace line;
  uint64_t loads = 0;
  uint64_t stores = 0;
  double share = 0;  // of all accesses
  void for_each_place(const auto& visit) const { visit(line.as_place()); }
};

// Two accesses of one thread (access_pair_table.h), or one.
struct HotAccessPair {
  uint32_t rank = 0;
  PairKind kind = PairKind::forwarding;
  std::optional<Place> from;  // the earlier one, where there are two
  Place to;
  std::string from_instruction;  // "" when unknown
  std::string to_instruction;
  uint64_t count = 0;
  uint64_t executions = 0;
  double share = 0;  // of the executions
  Margin share_error = {};
  double mean_distance = 0;  // in instructions
  uint64_t unknown = 0;      // executions of which it could not be told
  void for_each_place(const auto& visit) const {
    if (from) visit(*from);
    visit(to);
  }
};

// Two instructions of different threads that access one line (sharing_table.h).
struct HotSharing {
  uint32_t rank = 0;
  SharingKind kind = SharingKind::false_sharing;
  Place from;  // writes
  Place to;
  std::string from_instruction;  // "" when unknown
  std::string to_instruction;
  uint64_t count = 0;  // hand-overs, at most
  uint64_t stretches = 0;
  uint64_t lines = 0;
  uint64_t from_executions = 0;
  uint64_t to_executions = 0;
  DataPlace line;                    // that most of it is about
  double line_share = 0;             // of count; of merged profiles in one of them
  std::vector<uint32_t> from_bytes;  // of that line, from 0 to 63
  std::vector<uint32_t> to_bytes;
  void for_each_place(const auto& visit) const {
    visit(from);
    visit(to);
  }
};

// Hot data streams of one set of instructions (stream_table.h); what is said of lines is true of
// the hottest one.
struct HotDataStream {
  struct Instruction {
    Place at;
    std::string disassembly;  // "" when unknown
    uint64_t references = 0;  // of the stream
  };
  uint32_t rank = 0;
  uint64_t heat = 0;  // references
  double share = 0;   // of all references that were looked at
  Margin share_error = {};
  uint64_t occurrences = 0;
  uint64_t streams = 0;  // different ones
  uint64_t length = 0;   // in references
  uint64_t lines = 0;
  uint64_t span_lines = 0;  // from the lowest to the highest
  StreamOrder order = StreamOrder::contiguous;
  int64_t stride_lines = 0;  // of strided ones
  bool is_cycle = false;
  double together = 0;  // the streams' share of the references to their lines
  std::string advice;   // "": there is nothing to be done
  std::optional<double> mean_cycles{};  // of the loads, wherever they were timed
  std::vector<Instruction> instructions;
  std::vector<StreamReference> references;
  void for_each_place(const auto& visit) const {
    for (const Instruction& instruction : instructions) visit(instruction.at);
  }
};

// What a probe of the user's has counted (probe_table.h).
struct HotProbe {
  struct Number {
    std::optional<Place> place;  // it is one
    uint64_t number = 0;
    bool is_range = false;  // of powers of two; the first number of it
    bool is_hidden = false;
  };
  uint32_t rank = 0;  // of the probe's own
  std::string probe;
  std::vector<Number> numbers;
  uint64_t count = 0;
  double share = 0;  // of all that the probe has counted
  Margin share_error = {};
  std::vector<Number> stack;  // as ProbeRow has it
  void for_each_place(const auto& visit) const {
    for (const Number& number : numbers)
      if (number.place) visit(*number.place);
    for (const Number& call : stack)
      if (call.place) visit(*call.place);
  }
};

// What a plug-in of the user's has made (plugin_table.h).
struct HotPlugin {
  struct Cell {
    std::optional<Place> place = {};  // it is one
    std::optional<std::string> text = {};
    uint64_t number = 0;
  };
  uint32_t rank = 0;  // of the plug-in's own
  std::string plugin;
  std::vector<Cell> cells = {};
  uint64_t weight = 0;
  double share = 0;  // of the weights of all rows
  void for_each_place(const auto& visit) const {
    for (const Cell& cell : cells)
      if (cell.place) visit(*cell.place);
  }
};

struct Hotlists {
  // By processor time, where it was measured; else by self instructions. Has the `limit` first of
  // both orders.
  std::vector<HotMethod> methods;
  std::vector<HotInlined> inlined;      // as methods
  std::vector<HotCallPair> call_pairs;  // by count
  std::vector<HotContext> contexts;     // by instructions
  std::vector<HotEdge> edges;           // by count
  std::vector<HotPath> paths;           // as methods
  std::vector<HotLoad> load_latency;    // by cycles lost
  // Slower classes first, each by count.
  std::vector<HotLatencyPage> latency_pages;
  std::vector<HotLatencyValue> latency_values;
  std::vector<HotCacheLine> cache_lines;  // by accesses
  std::vector<HotAccessPair> hazards;     // by count
  std::vector<HotAccessPair> waste;       // by count
  std::vector<HotSharing> sharing;        // by count
  std::vector<HotDataStream> data_streams;  // by heat
  std::vector<HotProbe> probes;             // by probe, by count
  std::vector<HotPlugin> plugins;           // by plug-in, by weight
  std::vector<HotValue> values;           // semi-invariant ones first, then by count
  std::vector<HotArgument> arguments;     // by count of the top value
  std::vector<HotTargets> targets;        // by count
};

// Places with such edges: each is a row of `targets`.
size_t indirect_branches(const Profile& profile);

// Calls visit(name, member, stored, all) for each list, in the order of the file; all(profile) is
// the number of rows that it is a choice of.
template <typename Visit>
constexpr void for_each_hotlist(Visit visit) {
  using L = Hotlists;
  constexpr Stored kAlways = Stored::always, kNewer = Stored::newer;
  visit("methods", &L::methods, kAlways, [](const auto& p) { return p.functions.size(); });
  visit("inlined", &L::inlined, kNewer, [](const auto& p) { return p.inlined.size(); });
  visit("call_pairs", &L::call_pairs, kAlways, [](const auto& p) { return p.tables.calls.size(); });
  visit("contexts", &L::contexts, kNewer, [](const auto& p) { return p.tables.contexts.size(); });
  visit("edges", &L::edges, kAlways, [](const auto& p) { return p.tables.edges.size(); });
  visit("paths", &L::paths, kNewer, [](const auto& p) { return p.tables.paths.size(); });
  visit("load_latency", &L::load_latency, kNewer,
        [](const auto& p) { return p.tables.latencies.size(); });
  visit("latency_pages", &L::latency_pages, kNewer,
        [](const auto& p) { return p.tables.latency_pages.size(); });
  visit("latency_values", &L::latency_values, kNewer,
        [](const auto& p) { return p.tables.latency_values.size(); });
  visit("cache_lines", &L::cache_lines, kNewer,
        [](const auto& p) { return p.tables.cache_lines.size(); });
  visit("hazards", &L::hazards, kNewer, [](const auto& p) { return p.tables.hazards.size(); });
  visit("waste", &L::waste, kNewer, [](const auto& p) { return p.tables.waste.size(); });
  visit("sharing", &L::sharing, kNewer, [](const auto& p) { return p.tables.sharing.size(); });
  visit("data_streams", &L::data_streams, kNewer,
        [](const auto& p) { return p.tables.streams.size(); });
  visit("probes", &L::probes, kNewer, [](const auto& p) { return p.tables.probes.size(); });
  visit("plugins", &L::plugins, kNewer, [](const auto& p) { return p.tables.plugins.size(); });
  visit("values", &L::values, kNewer, [](const auto& p) { return p.tables.values.size(); });
  visit("arguments", &L::arguments, kNewer,
        [](const auto& p) { return p.tables.arguments.size(); });
  visit("targets", &L::targets, kNewer, [](const auto& p) { return indirect_branches(p); });
}
static_assert(
    [] {
      size_t bytes = 0;
      for_each_hotlist([&](const char*, auto list, Stored, auto) {
        bytes += sizeof(std::declval<Hotlists&>().*list);
      });
      return bytes;
    }() == sizeof(Hotlists),
    "a list is missing in for_each_hotlist()");

// The `limit` hottest rows of each kind. Ties are broken by place, so equal runs give equal lists.
Hotlists compute_hotlists(const Profile& profile, size_t limit, const LineLookup& lines = {});

// The same of the lists that say what could be done better (report/leads.h), for who goes through
// many rows and shows few: without source lines. The other lists stay empty.
Hotlists compute_finding_lists(const Profile& profile, size_t limit,
                               const InstructionLookup& instructions);
// Whether the profile's own have all of these rows.
bool has_whole_finding_lists(const Profile& profile);

}  // namespace shadowprof::profile
