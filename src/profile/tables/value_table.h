// SPDX-License-Identifier: MIT
//
// What values instructions compute, and what functions are called with. Figures are of the stream
// of one place: `count` values, of which
//   zero     were 0
//   same     were equal to the one before
//   strided  differed from the one before by what that one differed from its predecessor
//   top      hottest values with estimated counts, most frequent first (value_hotlist.h); the
//            share of the first is the invariance
// Streams of several threads (or samples) are put one behind the other; a prediction is never made
// across the seam.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "profile/hotlists/value_hotlist.h"
#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

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

// What a row's values are: what the instruction wrote to a register (the first that it names), to
// another one (the upper half of a product, a remainder), what a compare tells of its operands (cmp
// their difference, test the bits that they have in common), or what a division divides by.
enum class ValuePart : uint8_t { result, second, comparison, divisor };
inline constexpr size_t kValueParts = 4;
inline constexpr const char* kValuePartNames[kValueParts] = {"result", "second", "comparison",
                                                             "divisor"};
const char* to_string(ValuePart part);
std::optional<ValuePart> value_part_from(std::string_view name);

// What the bits of a value are. Shares, distinct values and predictions are of the bits. Hidden
// ones only tell equal values from others (hidden_values.h).
enum class ValueType : uint8_t { integer, f32, f64, hidden };
inline constexpr size_t kValueTypes = 4;
inline bool is_float(ValueType type) {
  return type == ValueType::f32 || type == ValueType::f64;
}
const char* to_string(ValueType type);  // "int", "f32", "f64", "hidden"
std::optional<ValueType> value_type_from(std::string_view name);
// Nothing: it is an integer.
std::optional<double> number_from(ValueType type, uint64_t bits);
// "2.0", "0.1"; an integer as "12", or from a million on "0x..."; a hidden one as "#3f2a91".
std::string value_text(ValueType type, uint64_t bits);

// What an instruction computed: the bits that it names, zero-extended. Where that is several
// elements, in a vector register, the value is the first.
struct ValueRow {
  CodeRef at;
  // Return address of the frame that executed it; only with --value-context call.
  bool has_context = false;
  CodeRef context;
  ValuePart part = ValuePart::result;
  uint8_t bits = 64;
  bool constant = false;  // the code alone, or what it cannot write to, says what it computes
  ValueType type = ValueType::integer;
  uint8_t elements = 0;  // of which the value is the first; 0: there is one only
  ValueFigures figures;
  std::string text;  // disassembled; only of the hottest rows, and not in the file's table
  // Not in the file either: it only loads what is so far from it. 0: it does not.
  int64_t loads_static = 0;
  auto key() const { return std::tuple(at, has_context, context, part); }
};

// An argument register at calls from one place to one function.
struct ArgumentRow {
  CodeRef site;
  CodeRef callee;
  // 0 rdi, 1 rsi, 2 rdx, 3 rcx, 4 r8, 5 r9; then xmm0 to xmm3: the bits of the double in them
  uint8_t argument = 0;
  ValueFigures figures;
  auto key() const { return std::tuple(site, callee, argument); }
};
inline constexpr uint8_t kIntegerArguments = 6;
inline constexpr uint8_t kArguments = 10;
const char* argument_register(uint8_t argument);

using ValueTable = std::vector<ValueRow>;        // by at, context, part; unique
using ArgumentTable = std::vector<ArgumentRow>;  // by site, callee, argument; unique

// Adds b's figures to a's: counts are added up, of equal values too; distinct values that both
// have seen are recognised only as far as the hotlists name them.
void add_figures(ValueFigures& a, const ValueFigures& b);
template <typename Row>
void add_figures_of(Row& a, const Row& b) {
  add_figures(a.figures, b.figures);
}

// A count of ValueFigures within a row that has them.
template <typename Row, auto Figure>
constexpr Column<Row> figure(const char* name) {
  return column<&Row::figures, Figure>(name);
}
template <typename Row>
constexpr auto figure_columns() {
  using F = ValueFigures;
  constexpr bool (*kSampled)(const Row&) = is_set<&Row::figures, &F::samples>;
  return Columns{
      figure<Row, &F::count>("count").sum(),
      figure<Row, &F::zero>("zero").sum(),
      figure<Row, &F::same>("same").sum(),
      figure<Row, &F::strided>("strided").sum(),
      figure<Row, &F::distinct>("distinct"),
      figure<Row, &F::top_error>("top_error").error().if_any(kSampled),
      figure<Row, &F::samples>("samples").if_any(kSampled),
      figure<Row, &F::estimated>("estimated").if_any(is_set<&Row::figures, &F::estimated>),
      figure<Row, &F::distinct_error>("distinct_error")
          .if_any(is_set<&Row::figures, &F::distinct_error>),
  };
}

// What is beyond is in nobody's top ten.
inline constexpr size_t kValuesInFile = 10;
inline constexpr Columns kTopValueColumns{
    column<&ValueCount::value>("value"),
    column<&ValueCount::count>("count").sum(),
};

inline constexpr Columns kValueColumns{
    code_place<&ValueRow::at>("module", "offset"),
    column<&ValueRow::has_context>("in_context"),
    code_place<&ValueRow::context>("context_module", "context_offset",
                                   is_set<&ValueRow::has_context>),
    choice<&ValueRow::part>("part", kValueParts, "is no part of an instruction").newer(),
    column<&ValueRow::bits>("bits"),
    column<&ValueRow::constant>("constant"),
    choice<&ValueRow::type>("type", kValueTypes, "is no type of a value").newer(),
    column<&ValueRow::elements>("elements").newer(),
    figure_columns<ValueRow>(),
};
using ValueEntries = ChildTable<&ValueRow::figures, &ValueFigures::top>;
inline constexpr TableLayout<ValueRow, ValueEntries> kValueLayout{
    .name = "values",
    .title = "values",
    .columns = kValueColumns,
    .join = add_figures_of<ValueRow>,
    .children = ValueEntries{.name = "value_entries",
                             .row = "row",
                             .columns = kTopValueColumns,
                             .most_written = kValuesInFile}};

inline constexpr Columns kArgumentColumns{
    code_place<&ArgumentRow::site>("from_module", "from_offset"),
    code_place<&ArgumentRow::callee>("to_module", "to_offset"),
    column<&ArgumentRow::argument>("argument").below(kArguments, "is no argument"),
    figure_columns<ArgumentRow>(),
};
using ArgumentEntries = ChildTable<&ArgumentRow::figures, &ValueFigures::top>;
inline constexpr TableLayout<ArgumentRow, ArgumentEntries> kArgumentLayout{
    .name = "arguments",
    .title = "arguments",
    .columns = kArgumentColumns,
    .join = add_figures_of<ArgumentRow>,
    .children = ArgumentEntries{.name = "argument_entries",
                                .row = "row",
                                .columns = kTopValueColumns,
                                .most_written = kValuesInFile}};

}  // namespace shadowprof::profile
