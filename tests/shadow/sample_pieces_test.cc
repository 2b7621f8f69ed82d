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

TEST_CASE("no sample has more than eight pieces, or is eight times as long by the clock") {
  PieceUnits units;
  units.length_s({1e6, 1e6 / kWanted_s}, kWanted_s);
  for (const double piece_ratio : {1.0, 0.01}) {
    SamplePieces pieces;
    pieces.begins(kWanted_s);
    double clock_s = 0, next_s = piece_ratio * kWanted_s;
    int count = 0;
    for (; !pieces.are_enough(); count++) {
      pieces.add({1, 1e6 / kWanted_s}, next_s, units);
      clock_s += next_s;
      next_s = std::min(pieces.rest_s(), piece_ratio * kWanted_s);
    }
    CHECK(count <= 8);
    CHECK(clock_s <= 8.001 * kWanted_s);
  }
}

// Two kinds of code take turns. One is eight times as quick natively as it is recorded, the other
// as quick, of which the first piece is too long already.
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
  pieces.add({0, 1e9}, kWanted_s, units);
  pieces.add({1e5, 1e9}, 0, units);
  CHECK_FALSE(pieces.are_enough());
  CHECK(pieces.rest_s() == doctest::Approx(kWanted_s));
}

}  // namespace
}  // namespace shadowprof::shadow
