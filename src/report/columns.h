// SPDX-License-Identifier: MIT
//
// Names, places and numbers, made to fit columns of text. What comes from the profiled program goes
// through printable().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_name.h"
#include "base/printable.h"
#include "profile/profile.h"

namespace shadowprof::report {

// Characters, taken as one column each.
size_t width(std::string_view text);
// At most `columns` wide; what is cut off is marked.
std::string fit(std::string_view text, size_t columns);
// The same, filled up with blanks.
std::string left(std::string_view text, size_t columns);
// 1234567 as "1.23 M": never wider than 6.
std::string short_count(uint64_t n);
std::string percent(double share);
// "12.5% of 1.37 M references were looked at"; nothing where all were.
std::optional<std::string> streams_seen(const profile::StreamCounts& counts);
// "file.cc:12"; "" where the file is not known.
std::string source(const profile::Place& place);
std::string module_name(const profile::Place& place);
std::string function_or_address(const profile::Place& place);
std::string function_or_address(const profile::Place& place, size_t columns);
// A place within code: the line if it is known, before it as much of the function's name as there
// is room for; else how far into the function it is ("name+0x1c"), or its address.
std::string point(const profile::Place& place, size_t columns,
                  std::optional<uint64_t> into_function = std::nullopt);

// How far places are from the beginnings of their functions.
class FunctionOffsets {
 public:
  // `profile` must outlive this.
  explicit FunctionOffsets(const profile::Profile& profile);
  // Nothing where the line is known, which says more, or the function is not.
  std::optional<uint64_t> of(const profile::Place& place) const;

 private:
  const profile::Profile& profile_;
  std::map<std::string, uint32_t> modules_;
};

using shadowprof::printable;

}  // namespace shadowprof::report
