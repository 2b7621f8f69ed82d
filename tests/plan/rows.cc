// SPDX-License-Identifier: MIT
#include "rows.h"

#include <stdexcept>

namespace shadowprof::plan {
namespace {

template <class Row>
const Row& find(const std::vector<Row>& rows, const std::string& name) {
  for (const Row& row : rows) {
    if (row.name == name) return row;
  }
  throw std::runtime_error("no row " + name);
}

// Much code, each piece for a moment: what a compiler does.
std::vector<Phase> many_phases() {
  std::vector<Phase> phases;
  for (int i = 0; i < 40; i++) phases.push_back({0.37 + 0.01 * (i % 7), i % 16, 25, 1});
  return phases;
}

}  // namespace

const std::vector<ProgramRow>& program_rows() {
  static const std::vector<ProgramRow> rows = {
      {.name = "gzip", .pages = 400, .writes_pages = 200, .phases = {{3, 0, 6, 1}, {1, 1, 5, 1}}},
      {.name = "bzip2",
       .pages = 2000,
       .writes_pages = 1900,
       .writes_within_s = 0.1,
       .phases = {{0.25, 0, 8, 1}, {0.1, 1, 5, 1}, {0.08, 2, 12, 0.5}, {0.05, 3, 6, 1}}},
      {.name = "xz",
       .pages = 24000,
       .writes_pages = 1750,
       .phases = {{5, 0, 7, 1}, {0.5, 1, 5, 1}}},
      {.name = "sqlite3",
       .pages = 2500,
       .grows_pages_per_s = 4000,
       .most_pages = 250000,
       .writes_pages = 2000,
       .writes_share = 0.4,
       .writes_within_s = 1,
       .phases = {{20, 0, 10, 1}, {15, 1, 12, 0.3}, {10, 2, 10, 0.1}}},
      {.name = "perl",
       .pages = 1200,
       .writes_pages = 150,
       .phases = {{2, 0, 15, 1}, {2, 1, 15, 1}}},
      {.name = "python3",
       .pages = 2600,
       .writes_pages = 500,
       .phases = {{1, 0, 15, 1}, {3, 1, 15, 1}, {1, 2, 20, 1}}},
      {.name = "cc1plus",
       .pages = 3000,
       .grows_pages_per_s = 2900,
       .most_pages = 180000,
       .writes_pages = 2000,
       .writes_share = 0.55,
       .writes_within_s = 3,
       .phases = many_phases()},
      {.name = "sleeper", .pages = 3000, .writes_pages = 100, .runs_s = 0.001, .sleeps_s = 0.1},
      {.name = "server",
       .pages = 50000,
       .writes_pages = 4000,
       .phases = {{0.7, 0, 12, 1}, {0.3, 1, 12, 1}},
       .threads = 8,
       .runs_s = 0.003,
       .sleeps_s = 0.007},
      {.name = "16 GB",
       .pages = 4e6,
       .writes_pages = 300000,
       .writes_within_s = 2,
       .phases = {{5, 0, 10, 1}, {2, 1, 10, 1}},
       .threads = 16},
      {.name = "threads",
       .pages = 20000,
       .writes_pages = 3000,
       .phases = {{1, 0, 8, 1}, {1, 1, 8, 1}},
       .threads = 4},
      // Dear to fork, and slow to record: what a sample loses bounds how far they are apart.
      {.name = "slow",
       .pages = 60000,
       .writes_pages = 40000,
       .writes_within_s = 1,
       .phases = {{1.1, 0, 60, 1}, {0.9, 1, 10, 1}}},
  };
  return rows;
}

const std::vector<HostRow>& host_rows() {
  static const std::vector<HostRow> rows = {
      {.name = "quiet"},
      {.name = "busy", .pause_s = 1e-3, .burst_s = 2e-3, .busy_core_share = 0.05},
      {.name = "small", .busy_core_share = 1},  // one core: replicas run at the program's expense
      {.name = "jump", .dearer_from_s = 500, .dearer_times = 100},
  };
  return rows;
}

const ProgramRow& program_row(const std::string& name) {
  return find(program_rows(), name);
}
const HostRow& host_row(const std::string& name) {
  return find(host_rows(), name);
}

}  // namespace shadowprof::plan
