// SPDX-License-Identifier: MIT
//
// Names of functions, demangled, as short as they may be and still tell one from another.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shadowprof::report {

// Without parameters, returned type, and words that say the same for many names: std::string is
// called so, and what allocates is not told of.
std::string short_name(std::string name);

// At most `columns` wide. What a template's arguments are goes first ("std::vector<…>::push_back"),
// then the namespaces ("…::push_back"); the function's own name comes last of all.
std::string fit_name(std::string_view name, size_t columns);

}  // namespace shadowprof::report
