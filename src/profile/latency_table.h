// SPDX-License-Identifier: MIT
//
// How long loads take. Cycles are those of the time stamp counter, less what an empty pair of
// stamps takes; they are sorted into classes by a calibration on the host (sample/calibrate.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "profile/module_table.h"

namespace shadowprof::profile {

// Where a load was served from; `beyond` is so much slower than memory that something else
// happened: a page fault, an interruption. Such times are counted and in the histogram, but in no
// mean.
enum class LatencyClass : uint8_t { l1, l2, l3, dram, beyond };
inline constexpr size_t kLatencyClasses = 5;
const char* to_string(LatencyClass c);

// What most addresses of a load are. stack: through rsp, or near where that was; fixed ("static"):
// in a module that code was mapped from; unknown: thread-local, or not captured; heap: the rest.
enum class AddressKind : uint8_t { unknown, stack, heap, fixed };
inline constexpr size_t kAddressKinds = 4;
const char* to_string(AddressKind kind);
std::optional<AddressKind> address_kind_from(std::string_view name);

// Latencies in cycles as the host's clock shows them. A class ends in the geometric middle of its
// typical latency and the next one's.
struct LatencyCalibration {
  double resolution = 0;            // of the clock: the least difference of two stamps
  double overhead = 0;              // of an empty pair of stamps
  std::array<double, 4> typical{};  // l1, l2, l3, dram
  LatencyClass class_of(double cycles) const;
};

// Buckets of a histogram: four to each power of two.
inline constexpr size_t kLatencyBuckets = 80;
size_t latency_bucket(uint64_t cycles);
uint64_t bucket_begin(size_t bucket);

struct LatencyRow {
  CodeRef at;
  uint64_t executions = 0;
  uint64_t timed = 0;          // executions whose time counts
  uint64_t first_touches = 0;  // left out: the first load from a page
  uint64_t cycles = 0;         // of the timed ones that are not `beyond`
  std::array<uint64_t, kLatencyClasses> classes{};
  // Of several runs the one with most timed loads says the kind, and the one that has seen a stride
  // most often the stride: so their order does not matter, nor how often each was added.
  AddressKind kind = AddressKind::unknown;
  uint64_t kind_timed = 0;  // timed loads of that run
  int64_t stride = 0;       // bytes from one address to the next, as most often seen; 0: none
  uint64_t strided = 0;     // how often that run saw it
  std::vector<std::pair<uint32_t, uint64_t>> histogram;  // bucket, count; by bucket

  double mean() const {
    const uint64_t served = timed - classes[static_cast<size_t>(LatencyClass::beyond)];
    return served == 0 ? 0 : static_cast<double>(cycles) / static_cast<double>(served);
  }
  // The standard error of the mean, as exactly as buckets are; each timed load one observation.
  double mean_error() const;
  // Cycles that a share of the timed loads does not exceed, as exactly as buckets are.
  uint64_t quantile(double share) const;
  // Executions x (mean - what a load from the first cache takes).
  double lost_cycles(const LatencyCalibration& calibration) const;
};

using LatencyTable = std::vector<LatencyRow>;  // by place; unique

void add_latencies(LatencyRow& a, const LatencyRow& b);

}  // namespace shadowprof::profile
