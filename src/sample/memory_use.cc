// SPDX-License-Identifier: MIT
#include "sample/memory_use.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/limits.h"
#include "kernel/proc.h"

namespace shadowprof::sample {

uint64_t own_memory() {
  const auto pages = kernel::read_statm(Tid(::getpid()));
  return pages ? pages->resident * limits::kPageBytes : 0;
}

uint64_t page_tables_of(Tid process) {
  std::ifstream file(fmt::format("/proc/{}/status", process.value));
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kName = "VmPTE:";
    if (line.starts_with(kName)) return 1024 * std::strtoull(line.c_str() + kName.size(), nullptr, 10);
  }
  return 0;
}

uint64_t memory_of_faults(uint64_t faults) {
  return faults * limits::kPageBytes;
}

uint64_t faults_of(Tid process) {
  const auto stat = kernel::read_process_stat(process);
  return stat ? stat->minor_faults : 0;
}

std::optional<uint64_t> reused_pages() {
  const auto count = kernel::read_reused_pages();
  return count ? std::optional(*count) : std::nullopt;
}

bool memory_is_short() {
  constexpr double kLeastShare = 0.05;
  std::ifstream file("/proc/meminfo");
  double total = 0, available = 0;
  std::string key, unit;
  for (double value; file >> key >> value && std::getline(file, unit);) {
    if (key == "MemTotal:") total = value;
    if (key == "MemAvailable:") {
      available = value;
      break;
    }
  }
  return total > 0 && available > 0 && available < kLeastShare * total;
}

}  // namespace shadowprof::sample
