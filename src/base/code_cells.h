// SPDX-License-Identifier: MIT
//
// Code hashed into a few hundred cells by its address: enough to see whether samples of one process
// resemble one another. Functions of a few lines that follow one another are in other cells,
// mostly. Four cells that follow one another are a region: what is in one kilobyte is in one
// region, so that a clock, which stops anywhere in what begins elsewhere, says the same of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/spread.h"
#include "base/types.h"

namespace shadowprof {

inline constexpr size_t kCodeCells = 256;
inline constexpr size_t kCellsOfRegion = 4;
inline constexpr size_t kCodeRegions = kCodeCells / kCellsOfRegion;
inline constexpr unsigned kRegionBytesLog = 10;
inline constexpr unsigned kCellBytesLog = 5;

constexpr uint8_t code_region(GuestAddr at) {
  static_assert(kCodeRegions == 64);
  return static_cast<uint8_t>(spread(at.value >> kRegionBytesLog) >> 58);
}

constexpr uint8_t code_cell(GuestAddr at) {
  static_assert(kCellsOfRegion == 4);
  const uint64_t in_region = spread(at.value >> kCellBytesLog) >> 62;
  return static_cast<uint8_t>(kCellsOfRegion * code_region(at) + in_region);
}

// What cells have, by region.
template <typename T>
std::array<T, kCodeRegions> by_region(const std::array<T, kCodeCells>& cells) {
  std::array<T, kCodeRegions> regions{};
  for (size_t i = 0; i < kCodeCells; i++) regions[i / kCellsOfRegion] += cells[i];
  return regions;
}

}  // namespace shadowprof
