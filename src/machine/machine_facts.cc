// SPDX-License-Identifier: MIT
#include "machine/machine_facts.h"

#include <fmt/format.h>

namespace shadowprof::machine {
namespace {

std::string memory_table() {
  constexpr uint64_t kTotal = kMemoryBytes >> 10, kFree = kFreeMemoryBytes >> 10;
  std::string text;
  const auto row = [&](std::string_view name, uint64_t kilobytes) {
    text += fmt::format("{:<15} {:>8} kB\n", fmt::format("{}:", name), kilobytes);
  };
  row("MemTotal", kTotal);
  row("MemFree", kFree);
  row("MemAvailable", kFree);
  for (const std::string_view name : {"Buffers", "Cached", "SwapCached", "Active", "Inactive",
                                      "SwapTotal", "SwapFree", "Dirty", "Writeback"})
    row(name, 0);
  row("AnonPages", kTotal - kFree);
  for (const std::string_view name : {"Mapped", "Shmem", "Slab"}) row(name, 0);
  row("CommitLimit", kTotal);
  row("Committed_AS", kTotal - kFree);
  text += "HugePages_Total:       0\nHugePages_Free:        0\n";
  row("Hugepagesize", 2048);
  return text;
}

}  // namespace

struct sysinfo system_information() {
  struct sysinfo info {};
  info.uptime = kUptimeSeconds;
  info.totalram = kMemoryBytes;
  info.freeram = kFreeMemoryBytes;
  info.procs = 1;
  info.mem_unit = 1;
  return info;
}

std::optional<std::string> content_of(std::string_view path, const CpuModel& processor) {
  if (path == "/proc/cpuinfo") return processor.description();
  if (path == "/proc/meminfo") return memory_table();
  for (const std::string_view list : {"online", "possible", "present"}) {
    if (path == fmt::format("/sys/devices/system/cpu/{}", list)) return "0\n";
  }
  return std::nullopt;
}

}  // namespace shadowprof::machine
