// SPDX-License-Identifier: MIT
//
// Why a function's instructions changed, as far as the other lists of a comparison tell. The first
// of these that explains most of it:
//
//   inlining  it has its own code now, or no longer, since it was inlined in the other build; or
//             what is inlined into it changed
//   callee    it is called in the place of another one, or another one in its place
//   added     it was not executed before, or is not any more (removed)
//   calls     it is called more or less often; the caller that makes most of that
//   code      lines of it are new, or gone
//   layout    only jumps: the same branches, calls and loops, laid out in another order
//   path      a branch goes another way, or a loop goes round more or less often
//   code      its calls execute more or fewer instructions; the line that has most of that
//
// Functions are known by their names here, so static functions of one name are taken together. A
// baseline has no edges and lines: then what needs them is not said.
#pragma once

#include "profile/compare/diff.h"

namespace shadowprof::profile {

// Fills FunctionChange::reason where instructions changed by more than noise, or a branch goes
// another way.
void name_reasons(const Profile& base, const Profile& now, Diff& diff);

}  // namespace shadowprof::profile
