// SPDX-License-Identifier: MIT
//
// The source of an annotation, from figures by line. For annotations of functions and of what was
// inlined.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "report/annotation.h"

namespace shadowprof::report {

using LineSums = std::map<std::pair<std::string, uint32_t>, AnnotatedLine>;  // by file and line

// Fills into.lines, and what is missing into its notes. Only the figures of `sums` are read, and of
// `into` the function's file. `module` may be null.
void add_lines(const profile::Profile& profile, const symbols::ModuleSymbols* module,
               SourceFiles& sources, LineSums sums, Annotation& into);

// Inlined functions whose names contain `part`, each with the place of its declaration, the hottest
// first; "" where there is none, or `part` is empty.
std::string inlined_names(const profile::Profile& profile, std::string_view part);

}  // namespace shadowprof::report
