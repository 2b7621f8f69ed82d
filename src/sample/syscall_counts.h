// SPDX-License-Identifier: MIT
//
// System calls by number, as a profile tells them.
#pragma once

#include <cstdint>
#include <map>

#include "profile/profile.h"

namespace shadowprof::sample {

// `made`: how often each was called; `ended`: how many samples it ended.
void fill_syscalls(const std::map<unsigned, uint64_t>& made,
                   const std::map<unsigned, uint64_t>& ended, profile::Syscalls& syscalls);

}  // namespace shadowprof::sample
