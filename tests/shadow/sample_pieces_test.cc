// SPDX-License-Identifier: MIT
#include "shadow/sample_pieces.h"

#include <doctest/doctest.h>

namespace shadowprof::shadow {
namespace {

constexpr double kWanted_s = 0.0005;

TEST_CASE("a sample that is long enough by the clock is one piece") {
  PieceUnits units;
  SamplePieces pieces;
  pieces.begins(kWanted_s);
  pieces.add({1e5, 0}, 0.9 * kWanted_s, units);
  CHECK(pieces.are_enough());
}

TEST_CASE("one of which little is left goes on for the rest") {
  PieceUnits units;
  SamplePieces pieces;
  pieces.begins(kWanted_s);
  pieces.add({1e5, 0}, 0.25 * kWanted_s, units);
  REQUIRE_FALSE(pieces.are_enough());
  CHECK(pieces.rest_s() == doctest::Approx(0.75 * kWanted_s));
  pieces.add({1e5, 0}, 0.6 * kWanted_s, units);
  CHECK(pieces.are_enough());
}

TEST_CASE("no sample has more than eight pieces, or one of more than eight times its length") {
  PieceUnits units;
  SamplePieces pieces;
  pieces.begins(kWanted_s);
  units.length_s({1e6, 1e6 / kWanted_s}, kWanted_s);
  for (int i = 0; i < 8; i++) {
    CHECK_FALSE(pieces.are_enough());
    pieces.add({100, 1e6 / kWanted_s}, kWanted_s, units);
    CHECK(pieces.rest_s() <= 8 * kWanted_s);
  }
  CHECK(pieces.are_enough());
}

// Two kinds of code take turns. One is eight times as quick natively as it is recorded, the other
// as quick. Samples are as long as they take natively, and in the mean as by the clock.
TEST_CASE("samples hold code by how long it takes natively") {
  PieceUnits units;
  constexpr double kRecorded = 1e9;  // instructions a second
  constexpr double kSpeeds[2] = {8 * kRecorded, kRecorded};
  double clock_s[2] = {}, native_s[2] = {};
  for (int i = 0; i < 400; i++) {
    const double speed = kSpeeds[i % 2];
    SamplePieces pieces;
    pieces.begins(kWanted_s);
    for (double next_s = kWanted_s; !pieces.are_enough(); next_s = pieces.rest_s()) {
      const double instructions = kRecorded * next_s;
      pieces.add({instructions, speed}, next_s, units);
      if (i < 200) continue;
      clock_s[i % 2] += next_s;
      native_s[i % 2] += instructions / speed;
    }
  }
  CHECK(clock_s[0] > 2.5 * clock_s[1]);
  CHECK(native_s[0] > 0.3 * native_s[1]);
  const double mean_s = (clock_s[0] + clock_s[1]) / 200;
  CHECK(mean_s < 2 * kWanted_s);
}

TEST_CASE("a piece without instructions is no part of the sample") {
  PieceUnits units;
  SamplePieces pieces;
  pieces.begins(kWanted_s);
  pieces.add({0, 0}, kWanted_s, units);
  CHECK_FALSE(pieces.are_enough());
  CHECK(pieces.rest_s() == doctest::Approx(kWanted_s));
}

}  // namespace
}  // namespace shadowprof::shadow
