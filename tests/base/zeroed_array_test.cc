// SPDX-License-Identifier: MIT
#include "base/zeroed_array.h"

#include <cstdint>
#include <utility>

#include <doctest/doctest.h>

using shadowprof::ZeroedArray;

TEST_CASE("an array is zeros until it is written, and again when it is cleared") {
  constexpr size_t kSize = 100'000;
  ZeroedArray<uint64_t> array(kSize);
  CHECK(array.size() == kSize);
  CHECK(array[kSize - 1] == 0);
  array[7] = 1;
  ZeroedArray<uint64_t> moved = std::move(array);
  CHECK(moved[7] == 1);
  CHECK(moved.span().size() == kSize);
  moved.clear();
  CHECK(moved[7] == 0);
}
