// SPDX-License-Identifier: MIT
#include "probe/cache_neighbour.h"

#include <doctest/doctest.h>

namespace shadowprof::probe {
namespace {

TEST_CASE("a loop is not quicker beside a neighbour, and not slower than with half of a core") {
  const auto loss = measure_cache_neighbour();
  if (!loss) return;  // there is one core, or others use the second one
  CHECK(*loss >= 0);
  CHECK(*loss < 3);
}

}  // namespace
}  // namespace shadowprof::probe
