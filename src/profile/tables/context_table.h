// SPDX-License-Identifier: MIT
//
// Calling contexts: a tree whose rows are functions, each below the one that called it, with the
// instructions that were executed in just that context. A sample begins below the stack that its
// thread had (unwound from its replica), and goes on with the calls and returns that it executes; a
// thread that is followed from its start needs no stack.
//
// All instructions of a profile are somewhere in the tree, if contexts were collected at all:
//   sum of `self` = instructions profiled
// Rows whose callers, or whose own place, are not known say so by their kind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

enum class ContextKind : uint8_t {
  code,     // `at` says which function
  unknown,  // callers that the stack did not tell: what they called is below
  deeper,   // calls nested deeper than contexts are kept
  other,    // contexts that were too many
};
inline constexpr size_t kContextKinds = 4;
// "[callers unknown]"; "" for code.
const char* context_label(ContextKind kind);

inline constexpr uint32_t kNoContext = ~uint32_t{0};

struct ContextRow {
  uint32_t parent = kNoContext;  // an earlier row; kNoContext: nothing called it
  ContextKind kind = ContextKind::code;
  CodeRef at;          // first instruction of the function; (0, 0) where the kind is not code
  uint64_t self = 0;   // instructions
  uint64_t calls = 0;  // that were executed and led here
  uint64_t error = 0;  // of `self`, see confidence.h
};

using ContextTable = std::vector<ContextRow>;  // callers first; siblings by kind and place; unique

inline bool is_code(const ContextRow& row) {
  return row.kind == ContextKind::code;
}

// A caller by its number from 1; 0 is none.
constexpr Column<ContextRow> caller_column() {
  return {.name = "caller",
          .get = [](const ContextRow& row) { return uint64_t{row.parent + 1}; },
          .set = [](ContextRow& row,
                    uint64_t number) { row.parent = static_cast<uint32_t>(number) - 1; },
          .most = kNoContext};
}
inline constexpr const char* kContextKindNames[kContextKinds] = {"code", "unknown", "deeper",
                                                                 "other"};
inline constexpr NameList kContextKindList{"kinds", kContextKindNames, "kind of context"};
inline constexpr Columns kContextColumns{
    name_list<ContextRow>(kContextKindList),
    caller_column(),
    named<&ContextRow::kind>("kind", kContextKindList),
    code_place<&ContextRow::at>("module", "offset", is_code),
    column<&ContextRow::self>("self").sum(),
    column<&ContextRow::calls>("calls").sum(),
    column<&ContextRow::error>("error").error().with_errors(),
};
inline constexpr TableLayout<ContextRow> kContextLayout{
    .name = "contexts", .title = "contexts", .columns = kContextColumns};

// What rows have of one group of samples. Not in the file: errors are made of it.
struct ContextGroup {
  struct Entry {
    uint32_t row = 0;
    uint64_t instructions = 0;
  };
  std::vector<Entry> entries;
  double instructions = 0;  // in all
  double by_time = 1;       // of confidence.h
};
using ContextGroups = std::vector<ContextGroup>;

// Which row each row has become.
using ContextMoves = std::vector<uint32_t>;

// Rows are moved to what `place` says of their code, and equal ones become one.
ContextMoves regroup_contexts(ContextTable& contexts, const std::function<CodeRef(CodeRef)>& place);

struct AddedContexts {
  ContextMoves into, from;
};
// Adds `from`, whose modules are `module_in_into`'s.
AddedContexts add_contexts(ContextTable& into, const ContextTable& from,
                           const std::vector<uint32_t>& module_in_into);

void move_groups(ContextGroups& groups, const ContextMoves& moves);

// Instructions of each row with all below it.
std::vector<uint64_t> context_totals(const ContextTable& contexts);

// Leaves the `most` rows with the most instructions in and below them; each of those has one more
// row, of kind other, for what else was below it.
ContextMoves keep_hottest_contexts(ContextTable& contexts, size_t most);

// From the outermost caller to the row itself.
std::vector<uint32_t> context_chain(const ContextTable& contexts, uint32_t row);

struct Profile;

// For a profile that was made without: each function below unknown callers.
ContextTable contexts_of_functions(const Profile& profile);

// After functions are named: rows begin where their functions do, the table is bounded, and
// functions have the instructions below them wherever contexts know of more than calls do.
void attribute_contexts(Profile& profile);

}  // namespace shadowprof::profile
