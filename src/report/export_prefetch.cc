// SPDX-License-Identifier: MIT
//
// Prefetch hints as CSV, one line for each load that misses the caches at a stride, the one that
// loses most cycles first: "pc,delta,type", as create_llvm_prof --profiler=prefetch reads them. pc
// is the load's link-time address in hexadecimal without 0x (of a position-independent file from
// its first segment on), delta is added to the address that the load computes, and type says into
// which caches.
//
// How far ahead: as many executions as fit into the time that the load takes. From one execution to
// the next about as many cycles pass as its function has instructions for each: more where it calls
// others, so the distance is rather too long than too short.
#include <algorithm>
#include <cmath>

#include "report/export.h"

namespace shadowprof::report {
namespace {

using profile::LatencyClass;
using profile::LatencyRow;

constexpr uint64_t kLeastTimed = 100;
constexpr double kLeastMisses = 0.05;     // a stride of 4 bytes misses one line in 16 loads
constexpr int64_t kLargestStride = 4096;  // beyond that few are of one loop
constexpr double kFarthest = 64;          // executions
constexpr int64_t kLine = 64;

bool is_worth_a_hint(const LatencyRow& load) {
  if (load.timed < kLeastTimed || load.stride == 0 || std::abs(load.stride) > kLargestStride)
    return false;
  const uint64_t misses = load.classes[static_cast<size_t>(LatencyClass::l3)] +
                          load.classes[static_cast<size_t>(LatencyClass::dram)];
  return static_cast<double>(misses) >= kLeastMisses * static_cast<double>(load.timed);
}

// For what comes from beyond the second level: the mean hides it where most loads hit.
double typical_miss(const LatencyRow& load, const profile::LatencyCalibration& clock) {
  const auto l3 = static_cast<double>(load.classes[static_cast<size_t>(LatencyClass::l3)]);
  const auto dram = static_cast<double>(load.classes[static_cast<size_t>(LatencyClass::dram)]);
  return (l3 * clock.typical[2] + dram * clock.typical[3]) / (l3 + dram);
}

int64_t delta_of(const profile::Profile& profile, const LatencyRow& load) {
  double between = 1;
  if (const profile::Function* f = find_function(profile.functions, load.at))
    between = std::max(1.0, static_cast<double>(f->self) / static_cast<double>(load.executions));
  const double latency = typical_miss(load, *profile.run.host.latency);
  const double ahead = std::clamp(std::ceil(latency / between), 1.0, kFarthest);
  const int64_t delta = load.stride * static_cast<int64_t>(ahead);
  if (std::abs(delta) >= kLine) return delta;
  return delta < 0 ? -kLine : kLine;
}

}  // namespace

Result<std::string> export_prefetch(const ExportInput& input) {
  const profile::Profile& profile = input.profile;
  if (profile.tables.latencies.empty() || !profile.run.host.latency)
    return fail("the profile has no load latencies (run --profile latency)");
  SP_ASSIGN(const symbols::ModuleSymbols* file, input.modules.open(input.module));
  const symbols::AddressMap& addresses = file->addresses();
  const bool relative = file->position_independent() && !addresses.segments().empty();
  const uint64_t base = relative ? addresses.segments()[0].vaddr : 0;
  std::vector<const LatencyRow*> loads;
  for (const LatencyRow& load : profile.tables.latencies)
    if (load.at.module == input.module && is_worth_a_hint(load)) loads.push_back(&load);
  const auto lost = [&](const LatencyRow* l) { return l->lost_cycles(*profile.run.host.latency); };
  std::stable_sort(loads.begin(), loads.end(),
                   [&](const auto* a, const auto* b) { return lost(a) > lost(b); });
  std::string text;
  for (const LatencyRow* load : loads)
    if (const auto address = addresses.to_vaddr(load->at.offset))
      text += fmt::format("{:x},{},t0\n", *address - base, delta_of(profile, *load));
  return text;
}

}  // namespace shadowprof::report
