// SPDX-License-Identifier: MIT
//
// What exports say of the run itself, and of where its files were in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace shadowprof::report {

// Microseconds since the epoch of "2025-01-31T12:00:00Z"; 0 for anything else.
int64_t started_us(const std::string& utc);

// Words with blanks between them; "" where the command is not known.
std::string command_line(const std::vector<std::string>& command);

// The program's file without its folders; "" where the command is not known.
std::string program_name(const profile::Run& run);

uint64_t duration_ns(const profile::Run& run);

// Processor time between two ticks of the clock; 0 where time was not measured.
uint64_t tick_ns(const profile::ProcessorTime& time);

// For formats that count with a sign: the greatest number there is for more.
int64_t as_signed(uint64_t n);

// How far behind each module's first byte code was executed.
std::vector<uint64_t> module_ends(const profile::Profile& profile);

}  // namespace shadowprof::report
