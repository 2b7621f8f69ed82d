// SPDX-License-Identifier: MIT
//
// Which code of which files has been seen to run: what is kept of a code cache between runs. Not
// the translations, which hold addresses and are made in two microseconds each; where they begin is
// what is expensive to find out. A list is a hint: whatever it says, code is read from the program.
//
// The file is text, so that people can look at it:
//
//   shadowprof code list 1
//   program build-id:5f1c...          what must be the same for it to be of use: one line each
//   ...
//   module build-id:8b01... 3         a file, and how many places of it follow
//   1040                              offsets in the file, hexadecimal, ascending; each but a
//   +2f                               module's first as the distance from the one before
//   +11
//   end 7a0b11c2                      CRC-32 of all above
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shadowprof::sample {

// Offsets ascend, and are unique.
using CodeList = std::map<std::string, std::vector<uint64_t>>;  // by module

// What is never exceeded, in memory or on disk.
inline constexpr size_t kMostListedPlaces = 200'000;
inline constexpr size_t kMostListBytes = size_t{8} << 20;

// `conditions`: lines, each with its newline.
std::string write_code_list(const CodeList& list, std::string_view conditions);
// An Error says what is wrong with the text.
Result<CodeList> parse_code_list(std::string_view text, std::string_view conditions);

// Adds what `list` does not have, as far as there is room for it.
void add_places(CodeList& list, const CodeList& more);
size_t place_count(const CodeList& list);

uint32_t checksum(std::string_view text);

}  // namespace shadowprof::sample
