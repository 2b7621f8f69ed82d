// SPDX-License-Identifier: MIT
//
// How long loads take. Cycles are those of the time stamp counter, less what a pair of stamps took
// at that time without a load between them (collect/loads/stamp_cost.h); they are sorted into
// classes by a calibration on the host (probe/calibrate.h).
//
// The clock of some hosts advances in steps of dozens of cycles. One time is then a step too much
// or too little, and the mean of many is right all the same, if nothing is cut off: sums are made
// of times below zero, too.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

// Where a load was served from; `beyond` is so much slower than memory that something else
// happened: a page fault, an interruption. Such times are counted and in the histogram, but in no
// mean.
enum class LatencyClass : uint8_t { l1, l2, l3, dram, beyond };
inline constexpr size_t kLatencyClasses = 5;
inline constexpr const char* kLatencyClassNames[kLatencyClasses] = {"l1", "l2", "l3", "dram",
                                                                    "beyond"};
const char* to_string(LatencyClass c);

// By what instruction: in the order of decoder::LoadKind, without its first.
enum class LoadKind : uint8_t { move, operand, vector, arithmetic, gather, atomic, stack, branch };
inline constexpr size_t kLoadKinds = 8;
inline constexpr const char* kLoadKindNames[kLoadKinds] = {
    "move", "operand", "vector", "arithmetic", "gather", "atomic", "stack", "branch"};
const char* to_string(LoadKind kind);
std::optional<LoadKind> load_kind_from(std::string_view name);

// What most addresses of a load are. stack: through rsp, or near where that was; fixed ("static"):
// in a module that code was mapped from; unknown: thread-local, or not captured; heap: the rest.
enum class AddressKind : uint8_t { unknown, stack, heap, fixed };
inline constexpr size_t kAddressKinds = 4;
inline constexpr const char* kAddressKindNames[kAddressKinds] = {"unknown", "stack", "heap",
                                                                 "static"};
const char* to_string(AddressKind kind);
std::optional<AddressKind> address_kind_from(std::string_view name);

// Latencies in cycles as the host's clock shows them. A class ends in the geometric middle of its
// typical latency and the next one's, memory where page faults begin. Where these are slow, as
// under some hypervisors, it ends before: these fill page tables of their own, unseen by the
// kernel, in half that time.
struct LatencyCalibration {
  // What takes so many times what memory takes was interrupted by something.
  static constexpr double kBeyondFold = 8;
  double resolution = 0;            // of the clock: the least difference of two stamps
  double overhead = 0;              // of a pair of stamps without a load
  std::array<double, 4> typical{};  // l1, l2, l3, dram; of moves
  // What loads take that the first cache serves, by kind, with what the instruction does beside. 0:
  // not known.
  std::array<double, kLoadKinds> hits{};
  double fault = 0;   // of a load that the kernel had to map a page for, at the least; 0: not known
  double spread = 1;  // of the last cache's latency: the middle one of several rounds by the least
  // What a line takes that another core has loaded just before: the greatest of several rounds, as
  // some cores may be further away than others. 0: not known, or there is one core.
  double across = 0;
  LatencyClass class_of(double cycles, LoadKind kind = LoadKind::move) const;
  // Else what one core has in its caches another one loads as if from memory.
  bool cores_share_last_cache() const { return class_of(across) < LatencyClass::dram; }
  // What a load of that kind takes that hits the first cache.
  double hit(LoadKind kind) const;
  // A single load is told, that is. Else the mean of many says how many of them were of the second.
  bool tells_first_caches() const { return typical[1] - typical[0] >= 4 * resolution; }
  // The host was too busy for the border between the last cache and memory to be where it is on a
  // quiet one.
  bool is_doubtful() const { return spread > 1.5 || typical[3] < 1.5 * typical[2]; }
};

// Buckets of a histogram: four to each power of two.
inline constexpr size_t kLatencyBuckets = 80;
size_t latency_bucket(uint64_t cycles);
uint64_t bucket_begin(size_t bucket);

struct LatencyRow {
  CodeRef at;
  LoadKind by = LoadKind::move;
  uint64_t executions = 0;
  uint64_t timed = 0;          // executions whose time counts
  uint64_t first_touches = 0;  // left out: a replica's page faults, which the program does not have
  uint64_t cycles = 0;         // of the timed ones that are not `beyond`
  // Timed ones that may be slow only because a replica began with cold caches of its own, and the
  // cycles that they would save together if each had hit the first cache.
  uint64_t cold = 0;
  uint64_t cold_cycles = 0;
  std::array<uint64_t, kLatencyClasses> classes{};
  // Among several runs the one with most timed loads says the kind, and the one that has seen a
  // stride most often the stride: so their order does not matter, nor how often each was added.
  AddressKind kind = AddressKind::unknown;
  uint64_t kind_timed = 0;  // timed loads of that run
  int64_t stride = 0;       // bytes from one address to the next, as most often seen; 0: none
  uint64_t strided = 0;     // how often that run saw it
  std::vector<std::pair<uint32_t, uint64_t>> histogram;  // bucket, count; by bucket
  // Where loads were timed in bouts: the sum over these of the square of what the loads of one took
  // together beyond as many mean ones, in cycles. 0: all were timed, or there was one bout.
  uint64_t window_squares = 0;

  // Timed ones that a cache or memory served.
  uint64_t served() const { return timed - classes[static_cast<size_t>(LatencyClass::beyond)]; }
  double mean() const {
    return served() == 0 ? 0 : static_cast<double>(cycles) / static_cast<double>(served());
  }
  // The standard error of the mean, as exactly as buckets are; each timed load one observation, or
  // each bout where they were timed in bouts and these differ by more.
  double mean_error() const;
  // So many that have nothing to do with each other, at most: loads of one bout are alike.
  double observations() const;
  // How much too high the mean is if all cold loads are a replica's own.
  double cold_error() const;
  // Cycles that a share of the timed loads does not exceed, as exactly as buckets are.
  uint64_t quantile(double share) const;
  // Executions x (mean - what a load from the first cache takes): what could be saved at most. 0
  // where that difference is within its error, by chance or by cold caches, a tenth of the clock's
  // step, or a cycle and a half: such a load may hit the first cache.
  double lost_cycles(const LatencyCalibration& calibration) const;
  const CodeRef& key() const { return at; }
};

using LatencyTable = std::vector<LatencyRow>;  // by place; unique

void add_latencies(LatencyRow& a, const LatencyRow& b);

// A stride as its sign and its size. The sign is read first.
constexpr auto stride_columns() {
  return std::array{
      Column<LatencyRow>{
          .name = "backwards",
          .get = [](const LatencyRow& row) { return uint64_t{row.stride < 0}; },
          .set = [](LatencyRow& row, uint64_t is) { row.stride = is != 0 ? -1 : 1; }},
      Column<LatencyRow>{
          .name = "stride",
          .get =
              [](const LatencyRow& row) {
                const auto stride = static_cast<uint64_t>(row.stride);
                return row.stride < 0 ? -stride : stride;
              },
          .set = [](LatencyRow& row, uint64_t size) { row.stride *= static_cast<int64_t>(size); },
          .most = std::numeric_limits<int64_t>::max()}};
}

template <LatencyClass kClass>
constexpr Column<LatencyRow> class_column() {
  constexpr auto kIndex = static_cast<size_t>(kClass);
  return column<&LatencyRow::classes, kIndex>(kLatencyClassNames[kIndex]).sum();
}

inline constexpr NameList kAddressKindList{"kinds", kAddressKindNames, "kind of address"};
inline constexpr Columns kLatencyColumns{
    code_place<&LatencyRow::at>("module", "offset"),
    column<&LatencyRow::executions>("executions").sum(),
    column<&LatencyRow::timed>("timed").sum(),
    column<&LatencyRow::first_touches>("first_touches").sum(),
    column<&LatencyRow::cycles>("cycles").sum(),
    column<&LatencyRow::cold>("cold").sum().newer(),
    column<&LatencyRow::cold_cycles>("cold_cycles").sum().newer(),
    column<&LatencyRow::window_squares>("window_squares").sum().newer(),
    // Differs only where code has changed.
    choice<&LatencyRow::by>("instruction", kLoadKinds, "is no kind of load").greatest().newer(),
    class_column<LatencyClass::l1>(),
    class_column<LatencyClass::l2>(),
    class_column<LatencyClass::l3>(),
    class_column<LatencyClass::dram>(),
    class_column<LatencyClass::beyond>(),
    name_list<LatencyRow>(kAddressKindList),
    named<&LatencyRow::kind>("kind", kAddressKindList),
    column<&LatencyRow::kind_timed>("kind_timed").newer(),
    stride_columns(),
    column<&LatencyRow::strided>("strided"),
};
using LatencyBucket = std::pair<uint32_t, uint64_t>;
inline constexpr Columns kLatencyBucketColumns{
    column<&LatencyBucket::first>("bucket").below(kLatencyBuckets, "is no bucket"),
    column<&LatencyBucket::second>("count").sum(),
};
using LatencyHistograms = ChildTable<&LatencyRow::histogram>;
inline constexpr TableLayout<LatencyRow, LatencyHistograms> kLatencyLayout{
    .name = "latencies",
    .title = "latencies",
    .columns = kLatencyColumns,
    .join = add_latencies,
    .children = LatencyHistograms{
        .name = "latency_buckets", .row = "row", .columns = kLatencyBucketColumns}};

}  // namespace shadowprof::profile
