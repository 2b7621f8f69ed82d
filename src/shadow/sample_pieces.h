// SPDX-License-Identifier: MIT
//
// How long a sample of a replica is, in the program's time, and whether it is long enough.
//
// The replica's clock estimates what recording takes, and is off by as much as code differs in
// that: code of ten instructions a nanosecond is recorded four times as slowly, code that waits for
// memory hardly more slowly. And to see what is new takes many times as long as the program does.
// So samples that are equally long by that clock would hold too little of what is quick natively,
// or new. A sample goes on, in pieces, until it is long enough:
//
//   begins()   the sample, which is to be so long
//   add()      one of its pieces is over
//   rest_s()   how long the next piece is to be, by the clock
//
// Where it is known how fast the program was natively right before the sample, a piece is as long
// as its instructions take at that speed; in units by which the mean of all pieces is as long as by
// the clock. What is slow natively still has more of it, as its first piece is never shortened, and
// samples are longer than wanted in the mean.
#pragma once

#include <algorithm>

namespace shadowprof::shadow {

// What was executed, and how fast it is natively, in instructions a second.
struct Piece {
  double instructions = 0;
  double speed = 0;  // 0: not known
};

// What is known over all replicas of a program.
class PieceUnits {
 public:
  // A piece's length, which took so long by the clock.
  double length_s(const Piece& piece, double clock_s) {
    if (piece.instructions <= 0 || clock_s <= 0) return 0;
    if (piece.speed <= 0) return clock_s;
    // Nothing is slower natively than it is recorded.
    const double native_s = std::min(piece.instructions / piece.speed, clock_s);
    native_s_ = kRememberedShare * native_s_ + native_s;
    clock_s_ = kRememberedShare * clock_s_ + clock_s;
    return native_s * clock_s_ / native_s_;
  }

 private:
  static constexpr double kRememberedShare = 0.98;  // a piece counts half as much 34 pieces later

  double native_s_ = 0;
  double clock_s_ = 0;
};

class SamplePieces {
 public:
  void begins(double wanted_s) {
    *this = {};
    wanted_s_ = wanted_s;
  }
  void add(const Piece& piece, double clock_s, PieceUnits& units) {
    const double length_s = units.length_s(piece, clock_s);
    length_s_ += length_s;
    clock_s_ += clock_s;
    clock_ratio_ = length_s > 0 ? clock_s / length_s : 1;
    pieces_++;
  }
  bool are_enough() const {
    return length_s_ >= kEnoughShare * wanted_s_ || pieces_ == kMostPieces ||
           clock_s_ >= kLongestRatio * wanted_s_;
  }
  double rest_s() const {
    return std::min((wanted_s_ - length_s_) * clock_ratio_, kLongestRatio * wanted_s_ - clock_s_);
  }

 private:
  static constexpr double kEnoughShare = 0.7;
  static constexpr unsigned kMostPieces = 8;
  static constexpr double kLongestRatio = 8;  // by the clock

  double wanted_s_ = 0;
  double length_s_ = 0;
  double clock_s_ = 0;
  double clock_ratio_ = 1;  // the last piece, by the clock, over its length
  unsigned pieces_ = 0;
};

}  // namespace shadowprof::shadow
