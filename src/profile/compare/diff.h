// SPDX-License-Identifier: MIT
//
// What changed between two profiles, and by how much: by function, inlined function, call pair,
// edge, path, source line and system call, each ranked by its effect on instructions; by load,
// ranked by cycles lost; by value, ranked by the executions that compute another one.
// function_match.h says what is taken to be the same in both.
//
// Where one build-id ran both times, places are compared one by one. Elsewhere places move; there
// they are the same where function and source line are. Counts of what then is the same are added
// up; only instructions whose values are compared stay apart while a line has as many of them as it
// had.
//
// Exact profiles have no noise. A sampled profile knows shares well and the program's total badly,
// so where one takes part all counts are on the scale of the base's total: what changed is a
// share. Each change has a standard error (confidence.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "profile/compare/function_match.h"
#include "profile/hotlists/hotlists.h"
#include "profile/profile.h"

namespace shadowprof::profile {

// Before and after.
struct Change {
  uint64_t base = 0;
  uint64_t now = 0;

  int64_t delta() const;  // at most what fits
  // A share of the base; infinite for what was not there.
  double ratio() const;
};

enum class Presence : uint8_t { both, added, removed };
const char* to_string(Presence presence);

// diff_reasons.h says what they mean.
enum class ReasonKind : uint8_t {
  unknown,
  calls,
  callee,
  path,
  code,
  layout,
  inlining,
  added,
  removed
};
const char* to_string(ReasonKind kind);

struct Reason {
  ReasonKind kind = ReasonKind::unknown;
  std::string text;  // half a sentence; "" where it is not known
};

// Functions of a comparison have numbers, the same in both profiles.
inline constexpr uint32_t kNoFunction = ~uint32_t{0};

struct FunctionChange {
  Place at;  // in the new profile; in the base if it was removed
  std::string linkage_name;
  Presence presence = Presence::both;
  Change self;
  Change inclusive;
  Change invocations;
  Change loop_iterations;
  double error = 0;  // of the difference of `self`
  Reason reason{};
  uint32_t number = kNoFunction;
};

// A function that was inlined (inlined_table.h). What changed in it changed in the functions that
// it is in, too.
struct InlinedChange {
  Place at;  // of the declaration, as that of functions; it has no offset
  std::string linkage_name;
  Presence presence = Presence::both;
  Change self;
  Change inclusive;
  Change places;
  double error = 0;  // of the difference of `self`
};

// A call pair or an edge.
struct TransferChange {
  Place from;
  Place to;
  EdgeKind kind = EdgeKind::taken;  // of a call pair: call or indirect_call
  Change count;
  Change instructions;  // of the calls, callees included; that the edge's target block executed
  double error = 0;     // of the difference of `count`
  uint32_t from_function = kNoFunction;
  uint32_t to_function = kNoFunction;
};

struct PathChange {
  Place at;                       // where it begins
  std::vector<Place> functions;   // it goes through, each once for each stay; at the line it enters
  std::vector<SourceLine> lines;  // in order, those of one block after the other that differ
  size_t blocks = 0;
  Change count;
  Change instructions;
  double error = 0;  // of the difference of `instructions`
};

struct ValueChange {
  Place at;
  std::string instruction;  // "" when unknown
  uint64_t value = 0;       // the most frequent one of the base; of the new profile if it is new
  ValueType type = ValueType::integer;
  Change executions;
  Change invariance;  // millionths of the executions that computed `value`
  // Standard error of the difference of `invariance` where samples or windows tell it; else 0.
  double error = 0;
  // Executions of the larger number that compute `value` now and did not before, or the reverse.
  uint64_t effect() const;
};

struct LoadChange {
  Place at;
  Change executions;
  Change lost_cycles;
  Change misses;  // millionths of the timed loads that neither first nor second level cache served
  double base_mean = 0;  // cycles
  double new_mean = 0;
  double error = 0;       // of the difference of `lost_cycles`
  double miss_error = 0;  // of that of `misses`
};

struct LineChange {
  std::string function;
  std::string file;
  uint32_t line = 0;
  Change instructions;
  uint32_t number = kNoFunction;  // of the function
};

struct SyscallChange {
  std::string name;
  Change count;
};

// A function below the callers that it had (context_table.h). What only one profile has is 0 in the
// other one.
struct ContextChange {
  uint32_t parent = kNoContext;  // an earlier row
  ContextKind kind = ContextKind::code;
  uint32_t function = 0;  // index into ContextChanges::functions; of code
  Change self{};
  Change calls{};
  double error = 0;  // of the difference of `self`
};

struct ContextChanges {
  // Functions, each once; in the base where it has the function. Code without a name has no number.
  std::vector<std::pair<uint32_t, Place>> functions;
  std::vector<ContextChange> rows;  // callers first
};

struct Diff {
  bool exact = false;
  // Why a profile has not all of its program (evidence.h); "": it has.
  std::string base_incomplete;
  std::string new_incomplete;
  // Fewest groups of samples that an error of a sampled profile is based on; 0: errors are unknown.
  uint32_t groups = 0;
  // Both profiles have such a table.
  bool has_calls = false;
  bool has_edges = false;
  bool has_paths = false;
  bool has_values = false;
  bool hides_values = false;  // one of them does: they are not compared
  bool has_loads = false;
  bool has_inlined = false;  // both know of some code what was inlined there
  bool has_contexts = false;
  bool estimates_inclusive =
      false;            // in one of them what callees cost is divided by counts of calls
  // Not where of one of them too little was profiled to estimate what it executed.
  bool knows_totals = true;
  Change instructions;  // sampled: as each profile estimates it
  Change calls;
  Change syscalls;
  // Everything, changed or not, the largest effect first.
  std::vector<FunctionChange> functions;
  std::vector<InlinedChange> inlined;
  std::vector<TransferChange> call_pairs;
  std::vector<TransferChange> edges;
  std::vector<PathChange> paths;
  std::vector<ValueChange> values;
  std::vector<LoadChange> loads;
  std::vector<LineChange> lines;
  std::vector<SyscallChange> syscall_names;
  ContextChanges contexts;  // a tree, so not ranked

  // For critical_value(): errors of exact profiles are those of times, which are many.
  uint32_t error_groups() const { return exact ? uint32_t{1} << 20 : groups; }
};

// Instructions of one source line, by index into the profile's functions.
struct LineCost {
  uint32_t function = 0;
  std::string file;
  uint32_t line = 0;
  uint64_t instructions = 0;
};

// What is known beyond a profile from the files that it was made of. Both may be empty.
struct SourceKnowledge {
  LineLookup lines;
  std::vector<LineCost> costs;
};

Diff compare_profiles(const Profile& base, const SourceKnowledge& base_source, const Profile& now,
                      const SourceKnowledge& new_source);

}  // namespace shadowprof::profile
