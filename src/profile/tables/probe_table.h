// SPDX-License-Identifier: MIT
//
// What the user's probes have counted (docs/probes.md): how often each tuple of numbers. The rows
// of all probes are one table.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

// A probe itself, and what its rows are a part of.
struct ProbeInfo {
  std::string name;
  std::string text;                  // as it was written
  std::string action;                // "count", "values", "log2"
  std::vector<std::string> columns;  // of its tuples, as they were written; the keys first
  uint32_t keys = 0;
  uint64_t matched = 0;  // executions that the pattern is about
  uint64_t counted = 0;  // of these: the condition holds; all rows, and others
  uint64_t unknown = 0;  // of these: it has no value, or an expression has none
  uint64_t others = 0;   // of those counted: there was no room for a row
  uint32_t stack = 0;    // the column that is a call stack, from 1; 0: none is
  auto same() const { return std::tie(name, text, action, columns, keys); }
};
using ProbeList = std::vector<ProbeInfo>;  // by name and text

// With action log2 a captured number is the first one of a range: 0, 1, 2 to 3, 4 to 7, ...
struct ProbeNumber {
  bool is_place = false;  // in code: `module` and an offset
  uint32_t module = 0;
  uint64_t number = 0;
  // Numbers of modules depend on which profile came first.
  auto key() const { return std::tuple(number, is_place, module); }
  bool operator==(const ProbeNumber& other) const { return key() == other.key(); }
  auto operator<=>(const ProbeNumber& other) const { return key() <=> other.key(); }
};

struct ProbeRow {
  uint32_t probe = 0;  // index in Profile::probes
  std::vector<ProbeNumber> numbers;
  uint64_t count = 0;
  uint64_t error = 0;  // of the count: confidence.h
  // The calls of its stack, the innermost first; the stack's number in `numbers` says how many. The
  // last one may be the number 0: who called the one before is not known.
  std::vector<ProbeNumber> stack = {};
  auto key() const { return std::tie(probe, numbers, stack); }
};
using ProbeTable = std::vector<ProbeRow>;  // by probe, numbers, stack; unique

inline constexpr Columns kProbeInfoColumns{
    column<&ProbeInfo::keys>("keys"),
    column<&ProbeInfo::matched>("matched").sum(),
    column<&ProbeInfo::counted>("counted").sum(),
    column<&ProbeInfo::unknown>("unknown").sum(),
    column<&ProbeInfo::others>("others").sum(),
    column<&ProbeInfo::stack>("stack_column").newer(),
};
inline constexpr Columns kProbeColumns{
    column<&ProbeRow::probe>("probe"),
    column<&ProbeRow::count>("count").sum(),
    column<&ProbeRow::error>("error").error().with_errors(),
};
inline constexpr Columns kProbeNumberColumns{
    column<&ProbeNumber::is_place>("is_place"),
    column<&ProbeNumber::module>("module").module_if(is_set<&ProbeNumber::is_place>),
    column<&ProbeNumber::number>("number"),
};
using ProbeNumbers = ChildTable<&ProbeRow::numbers>;
using ProbeStackCalls = ChildTable<&ProbeRow::stack>;
inline constexpr TableLayout<ProbeRow, ProbeNumbers, ProbeStackCalls> kProbeLayout{
    .name = "probes",
    .title = "probes",
    .columns = kProbeColumns,
    .children = {
        ProbeNumbers{.name = "probe_numbers", .row = "row", .columns = kProbeNumberColumns},
        ProbeStackCalls{.name = "probe_stacks", .row = "row", .columns = kProbeNumberColumns}}};

// Adds those of another profile, whose rows get the numbers that the list then has for them; as do
// the ones of `into`.
void add_probes(ProbeList& into, ProbeTable& into_rows, const ProbeList& from,
                ProbeTable& from_rows);

}  // namespace shadowprof::profile
