// SPDX-License-Identifier: MIT
//
// Every limit of the program in one place, with their relations checked. Units end the names.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shadowprof::limits {

inline constexpr size_t kPageBytes = 4096;

// Tables of the trace contract (address space is reserved, memory is not).
inline constexpr size_t kMaxBlocks = size_t{1} << 25;
inline constexpr size_t kMaxRuns = size_t{1} << 26;
inline constexpr size_t kMaxRunBlocks = size_t{1} << 27;
inline constexpr size_t kMaxSlots = size_t{1} << 26;
inline constexpr size_t kMaxCodeBytes = size_t{1} << 30;

// A block ends after this many instructions even without a branch.
inline constexpr uint32_t kMaxBlockInsns = 64;
// A fragment follows this many not-taken conditional branches before it ends.
inline constexpr uint32_t kMaxFragmentBlocks = 4;

// A record may not be longer than the smallest trace buffer can hold with room to spare.
inline constexpr size_t kTraceBufferBytes = size_t{4} << 20;
inline constexpr size_t kMaxRecordWords = 8192;
static_assert(kMaxRecordWords * 4 * 4 <= kTraceBufferBytes);
// A run id is below the bit that marks special records.
static_assert(kMaxRuns <= (size_t{1} << 31));

// Files that a replica makes are in memory. One that has more of them, or more in them, ends.
inline constexpr size_t kMostOwnBytes = size_t{64} << 20;
inline constexpr size_t kMostOwnFiles = 128;  // each has a descriptor of ours
inline constexpr size_t kMostOwnNames = 4096;
static_assert(kMostOwnFiles < kMostOwnNames);

}  // namespace shadowprof::limits
