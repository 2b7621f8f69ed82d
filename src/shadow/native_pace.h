// SPDX-License-Identifier: MIT
//
// How fast the program is natively. Samples do not tell: translated and recorded, code is two to
// six times as slow. Between two samples a replica executes its program natively, for a time that
// is known; nobody counts instructions there. But some branches are passed again and again, and the
// samples say how many instructions there are from one pass to the next:
//
//   samples    branch k is passed c[k] times, and n[k] instructions in all were executed before
//              these passes, each since the pass of any counted branch that came before it
//   natively   it is passed h[k] times in t seconds (branch_counter.h counts them)
//
//   sum of h[k] * n[k] / c[k]   instructions in t seconds
//
// What lies between two passes differs from one phase of a program to the next. So samples count
// the more the more alike their passes are to the stretch's, and the later they were taken:
//
//   overlap = sum of the lesser of h[k] / sum of h and c[k] / sum of c     of one sample
//   weight  = overlap^4 / 2^(samples since / 16)
//
// Whatever mixture of its code the program executes natively, each part comes with its passes. So
// there is to be a counted branch in all of its code: where samples pass none for long, the
// branches are looked at that are passed there, and the one is counted, too, that is passed the
// most often of those that are not passed too often, as each pass takes a little time. Where all
// are passed too often, or hardly ever, it is the one that is passed the least of the former, if
// that is not more than once in 40 instructions. Where there is none it is another instruction, by
// the same rule.
//
// Only the beginning of each sample is looked at. What it executed before its first pass and behind
// its last one count as one piece, for the first. A branch that is added divides what lies between
// passes of the others, so the samples are looked at again then. The last ones are kept.
//
// This is what is known over all replicas of a program, of which one lives at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "emu/movable_insn.h"
#include "shadow/pace_checks.h"
#include "trace/block_table.h"
#include "trace/record.h"

namespace shadowprof::shadow {

// A direct branch with a displacement of 32 bits: call, jmp, or jcc. Or another instruction, which
// may be executed elsewhere and has room for a jump (emu/movable_insn.h).
struct CountedPlace {
  GuestAddr at;
  GuestAddr next;    // behind it
  GuestAddr target;  // where it leads when it is passed
  std::optional<emu::MovableInsn> insn = std::nullopt;  // if it is no branch

  bool is_in(const trace::Block& block) const { return block.start <= at && at < block.end; }
};

// One that might be counted, by its address, and how often it was passed.
struct PlaceCandidate {
  CountedPlace place;
  uint64_t passes = 0;
};
using PlaceCandidates = std::unordered_map<uint64_t, PlaceCandidate>;

// What was executed natively, in so many seconds.
struct PacedTime {
  double instructions = 0;
  double seconds = 0;
  double speed() const { return seconds > 0 ? instructions / seconds : 0; }
};

class NativePace {
 public:
  static constexpr size_t kMostPlaces = 16;
  // A pass takes so long that is natively not there.
  static constexpr double kPass_s = 1.5e-9;

  struct Passed {
    uint64_t passes = 0;
    uint64_t instructions = 0;
  };
  // As far as it was looked at.
  struct Sample {
    size_t words = 0;
    std::vector<RunId> runs;
    std::vector<Passed> passed;  // of each place
    uint64_t instructions = 0;
    uint64_t since = 0;           // instructions since the last pass, or the beginning
    std::optional<size_t> first;  // the place that was passed first
  };

  // The table outlives it.
  explicit NativePace(const trace::BlockTable& table) : table_(table) {}

  // Records of a sample, as they come.
  void note(Sample& sample, std::span<const trace::Word> words);
  // It is over.
  void end(Sample& sample);

  PaceChecks& checks() { return checks_; }

  // They are never taken back.
  const std::vector<CountedPlace>& places() const { return places_; }
  // Instructions natively with so many passes of each place. Nothing: none was passed, there is
  // too much code in which none is, or another is counted by now.
  std::optional<double> instructions(std::span<const uint64_t> passes) const;

 private:
  // Runs that were met where no counted place was passed for long.
  struct Bare {
    std::vector<uint32_t> times;  // by run
    std::vector<RunId> runs;
    uint64_t instructions = 0;
  };
  static constexpr uint32_t kUnknown = 0;
  static constexpr uint32_t kNone = 1;

  template <typename Use>
  void each_block(const trace::Run& run, const Use& use) const;
  std::span<const uint8_t> passed_by(RunId run);
  void follow(Sample& sample, RunId run);
  void follow_again(Sample& sample);
  template <typename Find>
  PlaceCandidates candidates(const Find& find) const;
  bool note_bare(RunId run);
  bool count_another();
  void look_again(Sample& present);
  bool knows_enough() const;
  std::vector<double> weights(std::span<const uint64_t> passes) const;

  const trace::BlockTable& table_;
  PaceChecks checks_;
  std::vector<CountedPlace> places_;
  std::deque<Sample> kept_;  // the last ones
  Bare bare_;
  // By run: which of the places it passes, as place in lists_, or one of the constants.
  std::vector<uint32_t> list_of_;
  std::vector<std::vector<uint8_t>> lists_{2};
};

}  // namespace shadowprof::shadow
