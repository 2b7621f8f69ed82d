// SPDX-License-Identifier: MIT
//
// A probe: a profile that the user describes (docs/probes.md). It matches instructions, by what
// they are and where; for each execution that its condition holds for, it counts a tuple of
// numbers.
//
//   [NAME:] [on] PATTERN [capture EXPR, ...] [key EXPR, ...] [when CONDITION] [=> ACTION]
//
// Numbers are of 64 bits, without a sign. An expression that divides by 0, or asks for what is not
// known, has no value: such an execution is counted as unknown. One of a tuple's numbers may be
// that of a call stack (probe_stacks.h).
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shadowprof::collect {

// What is known of an execution. Registers, by encoding, are as they were before the instruction.
enum class ProbeFact : uint8_t {
  rax,
  r15 = 15,
  value,    // its result, or what it stores
  address,  // of what it reads or writes
  size,     // of that, in bytes
  target,   // where it leads
  caller,   // the call that its function was entered by
  place,    // the instruction itself
  divisor,
  latency,  // cycles that its load took, without what it takes to measure them
  stack,    // the number of its call stack; of a column alone, and of no expression
  end,
};
inline constexpr size_t kProbeFacts = static_cast<size_t>(ProbeFact::end);
constexpr size_t index_of(ProbeFact fact) {
  return static_cast<size_t>(fact);
}
// An address of code: the profile has it as a place, which is the same in each run.
constexpr bool is_place(ProbeFact fact) {
  return fact == ProbeFact::target || fact == ProbeFact::caller || fact == ProbeFact::place;
}

struct ProbeFacts {
  std::array<uint64_t, kProbeFacts> values{};
  std::bitset<kProbeFacts> known;

  void set(ProbeFact fact, uint64_t value) {
    values[index_of(fact)] = value;
    known.set(index_of(fact));
  }
};

enum class ProbeOperator : uint8_t {
  number,
  fact,
  every,   // number: true for every n-th time that it is asked
  after,   // true when it was asked more than n times
  either,  // the right side is looked at where the left one does not decide
  both,
  no,
  equal,
  unequal,
  less,
  at_most,
  greater,
  at_least,
  or_,
  xor_,
  and_,
  left,
  right,
  add,
  subtract,
  multiply,
  divide,
  remainder,
  negate,
  invert,
};

// A tree, in a list: sides are numbers of nodes.
struct ProbeNode {
  ProbeOperator what = ProbeOperator::number;
  ProbeFact fact = ProbeFact::rax;
  uint16_t left = 0;
  uint16_t right = 0;
  uint64_t number = 0;
  uint64_t asked = 0;  // of `every` and `after`
};

enum class ProbeClass : uint8_t {
  load,
  store,
  call,
  ret,
  branch,
  jump,
  atomic,
  div,
  vector,
  any,
};
inline constexpr const char* kProbeClassNames[] = {"load", "store",  "call", "ret",    "branch",
                                                   "jump", "atomic", "div",  "vector", "any"};

struct ProbePattern {
  bool entry = false;    // the first instruction of a function that was entered
  uint16_t classes = 0;  // all of them, as bits of ProbeClass
  std::string mnemonic;  // "": any
  std::string module;    // of the function; "": any
  std::string function;  // where it is, or what is entered; "": anywhere
  std::string thread;    // its name; "": any
  std::string file;      // of the source; "": any
  uint32_t first_line = 0;
  uint32_t last_line = 0;
  bool has(ProbeClass c) const { return (classes >> static_cast<unsigned>(c) & 1) != 0; }
};

enum class ProbeAction : uint8_t { count, values, log2 };
inline constexpr const char* kProbeActionNames[] = {"count", "values", "log2"};

struct ProbeColumn {
  std::string text;
  uint16_t root = 0;               // of nodes
  std::optional<ProbeFact> place;  // it is no more than this fact
  bool is_stack = false;
};

struct Probe {
  static constexpr size_t kMostColumns = 4;
  static constexpr size_t kMostStack = 64;  // calls
  static constexpr size_t kUsualStack = 8;
  std::string name;
  std::string text;  // as it was written, without the name
  ProbePattern pattern;
  ProbeAction action = ProbeAction::count;
  std::vector<ProbeColumn> columns;  // keys first
  uint32_t keys = 0;
  size_t stack = 0;  // calls of a stack, at most
  std::vector<ProbeNode> nodes;
  std::optional<uint16_t> condition;
  std::bitset<kProbeFacts> uses;
  bool uses_fact(ProbeFact fact) const { return uses[index_of(fact)]; }
};

inline constexpr size_t kMostProbes = 16;

// Some load's time is to be measured.
inline bool time_loads(const std::vector<Probe>& probes) {
  for (const Probe& probe : probes)
    if (probe.uses_fact(ProbeFact::latency)) return true;
  return false;
}

// `number`: of the probe among others, from 1: who gives it no name gets "probeN". An error says in
// which column of the text (from 1) something is wrong.
Result<Probe> parse_probe(std::string_view text, size_t number);

// Nothing: it has no value.
std::optional<uint64_t> evaluate(Probe& probe, uint16_t node, const ProbeFacts& facts);

}  // namespace shadowprof::collect
