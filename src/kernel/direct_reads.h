// SPDX-License-Identifier: MIT
//
// Reads past the page cache (O_DIRECT), which go straight to pages of the process. While one is
// under way, a fork makes these pages copied on the next write, and what is read may then go to a
// page that the process has no more (open(2), NOTES). Since Linux 6.5, on some file systems since
// 6.3, pages that are being read into stay the process's own.
#pragma once

#include <string_view>

namespace shadowprof::kernel {

// `release`: as uname(2) has it. One that is no version is taken for an old kernel.
bool forks_lose_direct_reads(std::string_view release);
// The kernel that runs.
bool forks_lose_direct_reads();

// What a descriptor's fdinfo (fdinfo.h) says of how it was opened.
bool is_opened_for_direct_reads(std::string_view fdinfo);

}  // namespace shadowprof::kernel
