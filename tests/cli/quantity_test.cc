// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "cli/quantity.h"

namespace shadowprof::cli {
namespace {

TEST_CASE("counts take suffixes") {
  CHECK(*parse_count("0") == 0);
  CHECK(*parse_count("1500") == 1500);
  CHECK(*parse_count("20M") == 20'000'000);
  CHECK(*parse_count("1.5K") == 1500);
  CHECK(*parse_count("3G") == 3'000'000'000);
  for (const char* wrong : {"", "M", "10Q", "-1", "1e30", "nan", "inf", "5 M", "0x10"}) {
    CHECK_FALSE(parse_count(wrong));
  }
}

TEST_CASE("times take suffixes and are seconds without") {
  CHECK(*parse_time("10") == doctest::Approx(10));
  CHECK(*parse_time("250ms") == doctest::Approx(0.25));
  CHECK(*parse_time("500us") == doctest::Approx(0.0005));
  CHECK(*parse_time("1.5s") == doctest::Approx(1.5));
  CHECK(*parse_time("10min") == doctest::Approx(600));
  CHECK(*parse_time("1.5h") == doctest::Approx(5400));
  for (const char* wrong : {"", "soon", "10m", "-3", "1 s"}) CHECK_FALSE(parse_time(wrong));
}

TEST_CASE("sizes of memory have binary suffixes") {
  CHECK(*parse_bytes("512") == 512);
  CHECK(*parse_bytes("1.5K") == 1536);
  CHECK(*parse_bytes("2G") == uint64_t{2} << 30);
  for (const char* wrong : {"", "0", "-1", "1KB", "1k", "G", "1e30"})
    CHECK_FALSE(parse_bytes(wrong));
}

TEST_CASE("shares are percent with and without the sign") {
  CHECK(*parse_percent("1%") == doctest::Approx(0.01));
  CHECK(*parse_percent("0.5") == doctest::Approx(0.005));
  for (const char* wrong : {"", "%", "1%%", "one"}) CHECK_FALSE(parse_percent(wrong));
}

}  // namespace
}  // namespace shadowprof::cli
