// SPDX-License-Identifier: MIT
//
// What values instructions compute, and what functions are called with. Figures are of the stream
// of one place: `count` values, of which
//   zero     were 0
//   same     were equal to the one before
//   strided  differed from the one before by what that one differed from its predecessor
//   top      hottest values with estimated counts, most frequent first (value_hotlist.h);
//   invariance
//            is the share of the first
// Streams of several threads (or samples) are put one behind the other; a prediction is never made
// across the seam.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/module_table.h"
#include "profile/value_hotlist.h"

namespace shadowprof::profile {

// So many that an error has a normal distribution.
inline constexpr uint32_t kNoSamples = 1000;

struct ValueFigures {
  uint64_t count = 0;
  uint64_t zero = 0;
  uint64_t same = 0;
  uint64_t strided = 0;
  uint64_t distinct = 0;  // an estimate where more values occurred than a hotlist holds
  // Standard error of the hottest value's count, from how its share differs between samples (or
  // windows), and how many samples that is from: kNoSamples where it has other reasons. 0 where it
  // is not known, or nothing was estimated.
  uint64_t top_error = 0;
  uint32_t samples = 0;
  std::vector<ValueCount> top = {};
  // Something of them is an estimate from a part of what executed, or from a full hotlist.
  bool estimated = false;
  uint64_t distinct_error = 0;  // standard error

  double invariance() const {
    if (count == 0 || top.empty()) return 0;
    return static_cast<double>(top[0].count) / static_cast<double>(count);
  }
};

// What a row's values are: what the instruction wrote to a general-purpose register (the first that
// it names), to another one (the upper half of a product, a remainder), or what a compare tells of
// its operands: cmp their difference, test the bits that they have in common.
enum class ValuePart : uint8_t { result, second, comparison };
inline constexpr size_t kValueParts = 3;
const char* to_string(ValuePart part);
std::optional<ValuePart> value_part_from(std::string_view name);

// What an instruction computed: the bits that it names, zero-extended.
struct ValueRow {
  CodeRef at;
  // Return address of the frame that executed it; only with --value-context call.
  bool has_context = false;
  CodeRef context;
  ValuePart part = ValuePart::result;
  uint8_t bits = 64;
  bool constant = false;  // the encoding alone says what it computes
  ValueFigures figures;
  std::string text;  // disassembled; only of the hottest rows, and not in the file's table
};

// An argument register at calls from one place to one function.
struct ArgumentRow {
  CodeRef site;
  CodeRef callee;
  // 0 rdi, 1 rsi, 2 rdx, 3 rcx, 4 r8, 5 r9; then xmm0 to xmm3: the bits of the double in them
  uint8_t argument = 0;
  ValueFigures figures;
};
inline constexpr uint8_t kIntegerArguments = 6;
inline constexpr uint8_t kArguments = 10;
const char* argument_register(uint8_t argument);

using ValueTable = std::vector<ValueRow>;        // by at, context, part; unique
using ArgumentTable = std::vector<ArgumentRow>;  // by site, callee, argument; unique

// Adds b's figures to a's: counts are added up, of equal values too; distinct values that both
// have seen are recognised only as far as the hotlists name them.
void add_figures(ValueFigures& a, const ValueFigures& b);

}  // namespace shadowprof::profile
