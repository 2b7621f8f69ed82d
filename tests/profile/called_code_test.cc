// SPDX-License-Identifier: MIT
#include "profile/hotlists/called_code.h"

#include <doctest/doctest.h>

using namespace shadowprof::profile;

namespace {

Function function(uint64_t offset, uint64_t size) {
  Function f;
  f.at = {3, offset};
  f.size = size;
  return f;
}

BlockCount block(uint64_t offset, uint32_t size) {
  return {{3, offset}, size, 1, 1};
}

}  // namespace

TEST_CASE("what is called begins a function, which ends where the next one begins") {
  const std::vector<BlockCount> blocks = {block(0x0f0, 8),  block(0x100, 8), block(0x140, 16),
                                          block(0x200, 16), block(0x300, 4), block(0x400, 8)};
  const FunctionTable known = {function(0x300, 0x20)};
  const FunctionTable found =
      functions_by_calls(blocks, {0x200, 0x100, 0x300, 0x100, 0x310, 0x380, 0x500}, known);
  REQUIRE(found.size() == 3);
  CHECK(found[0].at == CodeRef{3, 0x100});
  CHECK(found[0].size == 0x50);
  CHECK(found[0].name == "function@0x100");
  CHECK(found[1].at.offset == 0x200);
  CHECK(found[1].size == 0x10);
  CHECK(found[2].at.offset == 0x380);
  CHECK(found[2].size == 0x88);
}

TEST_CASE("functions that are known all are left as they are") {
  const std::vector<BlockCount> blocks = {block(0x100, 8)};
  CHECK(functions_by_calls(blocks, {0x100, 0x110}, {function(0x100, 0x20)}).empty());
  CHECK(functions_by_calls({}, {0x100}, {}).empty());
}
