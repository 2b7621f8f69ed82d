// SPDX-License-Identifier: MIT
//
// What changed between two profiles, and by how much: by function, call pair, edge, source line and
// system call, each ranked by its effect on instructions. function_match.h says what is taken to be
// the same in both.
//
// Where one build-id ran both times, call pairs and edges are compared place by place. Elsewhere
// places move; there they are the same where function and source line are, and their counts are
// added up.
//
// Exact profiles have no noise. For a sampled one each count is scaled to the whole run, and has
// the half-width of its 95 % interval, each sample taken as one observation of the function's
// share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/function_match.h"
#include "profile/hotlists.h"
#include "profile/profile.h"

namespace shadowprof::profile {

// Before and after.
struct Change {
  uint64_t base = 0;
  uint64_t now = 0;

  int64_t delta() const { return static_cast<int64_t>(now) - static_cast<int64_t>(base); }
  // Of the base; infinite for what was not there.
  double ratio() const;
};

enum class Presence : uint8_t { both, added, removed };
const char* to_string(Presence presence);

struct FunctionChange {
  Place at;  // in the new profile; in the base if it was removed
  std::string linkage_name;
  Presence presence = Presence::both;
  Change self;
  Change inclusive;
  Change invocations;
  Change loop_iterations;
  double noise = 0;  // half-width for the difference of `self`; 0 where both are exact
};

struct CallChange {
  Place site;
  Place callee;
  bool indirect = false;
  Change count;
  Change inclusive;
};

struct EdgeChange {
  Place from;
  Place to;
  EdgeKind kind = EdgeKind::taken;
  Change count;
  Change instructions;  // that the target block executed because of it
};

struct LineChange {
  std::string function;
  std::string file;
  uint32_t line = 0;
  Change instructions;
};

struct SyscallChange {
  std::string name;
  Change count;
};

struct Diff {
  bool exact = false;
  Change instructions;
  Change calls;
  Change syscalls;
  // Everything, changed or not, the largest effect first.
  std::vector<FunctionChange> functions;
  std::vector<CallChange> call_pairs;
  std::vector<EdgeChange> edges;
  std::vector<LineChange> lines;
  std::vector<SyscallChange> syscall_names;
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
