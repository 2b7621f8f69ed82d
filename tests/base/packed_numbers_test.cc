// SPDX-License-Identifier: MIT
#include "base/packed_numbers.h"

#include <doctest/doctest.h>

using shadowprof::NumberReader;
using shadowprof::NumberWriter;

TEST_CASE("numbers and texts are read as they were written") {
  constexpr uint64_t kNumbers[] = {0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 1ull << 32, UINT64_MAX};
  NumberWriter to;
  for (const uint64_t number : kNumbers) to.number(number);
  to.text(std::string_view("a\0b", 3));
  to.text("");
  const std::string bytes = to.take();
  NumberReader from(bytes);
  for (const uint64_t number : kNumbers) CHECK(from.number() == number);
  CHECK(from.text() == std::string_view("a\0b", 3));
  CHECK(!from.at_end());
  CHECK(from.text().empty());
  CHECK(from.at_end());
}

TEST_CASE("what is not there, or makes no sense, is 0 and not good") {
  const auto is_bad = [](std::string_view bytes, auto read) {
    NumberReader from(bytes);
    CHECK(read(from) == 0);
    CHECK(!from.good());
    CHECK(!from.at_end());
  };
  is_bad("", [](auto& from) { return from.number(); });
  is_bad("\x80\x80", [](auto& from) { return from.number(); });
  is_bad("\x05", [](auto& from) { return from.below(5); });
  is_bad(std::string(11, '\x80'), [](auto& from) { return from.number(); });
  is_bad("\x80\x80\x80\x80\x10", [](auto& from) { return from.small(); });
  is_bad("\x02x", [](auto& from) { return from.count(); });
  is_bad("\x02x", [](auto& from) { return from.text().size(); });
}
