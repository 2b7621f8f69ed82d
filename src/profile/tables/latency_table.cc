// SPDX-License-Identifier: MIT
#include "profile/tables/latency_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include "profile/tables/table_rows.h"

namespace shadowprof::profile {
namespace {

// A difference to the first cache below this share of a step is none.
constexpr double kLeastStepShare = 0.1;
constexpr double kErrors = 2;  // standard ones, within which a difference is none
// What a hit takes is known no better: what is around a load makes it a cycle slower or faster.
constexpr double kHitKnownTo_cycles = 1.5;

// Where two classes part. A class spreads by a factor (a load from memory may miss the translation
// buffers too, and the memory may be busy), hence the geometric middle; but no finer than the
// clock.
double between(double nearer, double farther, double resolution) {
  return std::sqrt((nearer + resolution) * (farther + resolution)) - resolution;
}

// By a clock that steps: a time is as many steps as begin in it.
double greatest_time(double cycles, double resolution) {
  return (std::floor(cycles / resolution) + 1) * resolution;
}

}  // namespace

const char* to_string(LatencyClass c) {
  const auto i = static_cast<size_t>(c);
  return i < kLatencyClasses ? kLatencyClassNames[i] : "?";
}

const char* to_string(AddressKind kind) {
  const auto i = static_cast<size_t>(kind);
  return i < kAddressKinds ? kAddressKindNames[i] : "?";
}

std::optional<AddressKind> address_kind_from(std::string_view name) {
  for (size_t i = 0; i < kAddressKinds; i++)
    if (name == kAddressKindNames[i]) return static_cast<AddressKind>(i);
  return std::nullopt;
}

const char* to_string(LoadKind kind) {
  const auto i = static_cast<size_t>(kind);
  return i < kLoadKinds ? kLoadKindNames[i] : "?";
}

std::optional<LoadKind> load_kind_from(std::string_view name) {
  for (size_t i = 0; i < kLoadKinds; i++)
    if (name == kLoadKindNames[i]) return static_cast<LoadKind>(i);
  return std::nullopt;
}

double LatencyCalibration::hit(LoadKind kind) const {
  const double known = hits[static_cast<size_t>(kind)];
  return known > 0 ? known : typical[0];
}

// Where the clock does not tell the first caches apart, all that may come from the second one is
// l1.
LatencyClass LatencyCalibration::class_of(double cycles, LoadKind kind) const {
  const double beside = hit(kind) - typical[0];
  const bool tells = tells_first_caches();
  if (!tells && cycles <= greatest_time(overhead + beside + typical[1], resolution) - overhead)
    return LatencyClass::l1;
  cycles -= beside;
  for (size_t i = tells ? 0 : 2; i + 1 < typical.size(); i++)
    if (cycles < between(typical[i], typical[i + 1], resolution))
      return static_cast<LatencyClass>(i);
  const double slow = kBeyondFold * typical[3];
  const double end = fault > typical[3] ? std::min(fault - resolution, slow) : slow;
  return cycles < end ? LatencyClass::dram : LatencyClass::beyond;
}

size_t latency_bucket(uint64_t cycles) {
  if (cycles < 4) return static_cast<size_t>(cycles);
  const auto power = static_cast<size_t>(std::bit_width(cycles) - 1);
  return std::min(kLatencyBuckets - 1, 4 * (power - 1) + (cycles >> (power - 2) & 3));
}

uint64_t bucket_begin(size_t bucket) {
  if (bucket < 4) return bucket;
  return (4 + (bucket & 3)) << (bucket / 4 - 1);
}

uint64_t LatencyRow::quantile(double share) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(share * static_cast<double>(timed)));
  uint64_t seen = 0;
  for (const auto& [bucket, count] : histogram) {
    seen += count;
    if (seen >= wanted) return bucket_begin(bucket + 1) - 1;
  }
  return 0;
}

double LatencyRow::mean_error() const {
  const uint64_t all = served();
  if (all < 2) return mean();
  const double middle = mean();
  double squares = 0;
  uint64_t left = all;
  for (const auto& [bucket, count] : histogram) {
    const uint64_t n = std::min(left, count);  // those beyond are in the last buckets
    const double typical_cycles =
        static_cast<double>(bucket_begin(bucket) + bucket_begin(bucket + 1) - 1) / 2;
    squares += static_cast<double>(n) * (typical_cycles - middle) * (typical_cycles - middle);
    left -= n;
  }
  const auto n = static_cast<double>(all);
  const double by_load = std::sqrt(squares / n / (n - 1));
  const double by_window = std::sqrt(static_cast<double>(window_squares)) / n;
  return std::max(by_load, by_window);
}

double LatencyRow::observations() const {
  constexpr double kLoadsOfBout = 32;
  const auto all = static_cast<double>(served());
  const bool are_all = 2 * timed > executions;
  return are_all ? all : std::max(1.0, all / kLoadsOfBout);
}

double LatencyRow::cold_error() const {
  const uint64_t all = served();
  return all == 0 ? 0 : static_cast<double>(cold_cycles) / static_cast<double>(all);
}

double LatencyRow::lost_cycles(const LatencyCalibration& calibration) const {
  const double saved = mean() - calibration.hit(by);
  const double noise = std::max({kErrors * mean_error(), cold_error(),
                                 kLeastStepShare * calibration.resolution, kHitKnownTo_cycles});
  return saved <= noise ? 0 : saved * static_cast<double>(executions);
}

void add_latencies(LatencyRow& a, const LatencyRow& b) {
  if (std::tie(b.kind_timed, b.kind) > std::tie(a.kind_timed, a.kind)) {
    a.kind = b.kind;
    a.kind_timed = b.kind_timed;
  }
  if (std::tie(b.strided, b.stride) > std::tie(a.strided, a.stride)) {
    a.stride = b.stride;
    a.strided = b.strided;
  }
  add_columns(kLatencyColumns, a, b);
  std::map<uint32_t, uint64_t> buckets(a.histogram.begin(), a.histogram.end());
  for (const auto& [bucket, count] : b.histogram) buckets[bucket] += count;
  a.histogram.assign(buckets.begin(), buckets.end());
}

}  // namespace shadowprof::profile
