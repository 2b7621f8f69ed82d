// SPDX-License-Identifier: MIT
//
// What a program is told of the machine around its processor, where it must be the same one on
// every host: one core, so much memory, a kernel that is old enough for every host, one user.
// System calls and the files of /proc and /sys say the same.
#pragma once

#include <sys/sysinfo.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "machine/cpu_model.h"

namespace shadowprof::machine {

inline constexpr uint64_t kMemoryBytes = uint64_t{4} << 30;
inline constexpr uint64_t kFreeMemoryBytes = uint64_t{3} << 30;
inline constexpr uint64_t kUptimeSeconds = 100'000;
// Whose the program is, and all files.
inline constexpr uint32_t kUserId = 1000;
inline constexpr uint32_t kGroupId = 1000;
// The oldest kernel that we run on: a program that looks expects nothing that a host may lack.
inline constexpr std::string_view kKernelRelease = "4.18.0";
inline constexpr std::string_view kKernelVersion = "#1 SMP";

// sysinfo(2).
struct sysinfo system_information();

// What reading this file gives. Nothing: it is not one of those that are the machine's.
std::optional<std::string> content_of(std::string_view path, const CpuModel& processor);

}  // namespace shadowprof::machine
