// SPDX-License-Identifier: MIT
//
// When threads spent processor time, and in which functions: of the ticks of time_table.h, those
// whose place is known, by slices of the time since sampling began. All slices are equally long
// (ProcessorTime::slice_us). Runs that were added up have none.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

struct CourseRow {
  uint32_t slice = 0;
  uint32_t thread = 0;  // index into the table of threads
  CodeRef at;           // the function, when functions are known; else a place in no function
  uint64_t user_ns = 0;
  uint64_t kernel_ns = 0;
  auto key() const { return std::tuple(slice, thread, at); }
};
using CourseTable = std::vector<CourseRow>;

inline constexpr Columns kCourseColumns{
    column<&CourseRow::slice>("slice"),
    column<&CourseRow::thread>("thread"),
    code_place<&CourseRow::at>("module", "offset"),
    column<&CourseRow::user_ns>("user_ns").sum(),
    column<&CourseRow::kernel_ns>("kernel_ns").sum(),
};
inline constexpr TableLayout<CourseRow> kCourseLayout{
    .name = "time_course", .title = "time by moment", .columns = kCourseColumns};

}  // namespace shadowprof::profile
