// SPDX-License-Identifier: MIT
//
// Samples of one kind, and how much each of them counts. Samples are taken when the budget allows
// it and go on for as long as they are cheap, so the parts of a program in which they are cheap
// have more instructions of them than is their share. But each sample stands for a time: half of
// the program's processor time from the sample before, and half of that to the next. An instruction
// of a sample would count as much as
//
//   worth = time that the sample stands for / instructions of the sample
//
// over the same of all samples together, so that the sum of all counts is what was recorded. That
// is right however samples were taken, but leaves more to chance the more their lengths differ: a
// short one that stands for as much time as a long one counts as much. To count each instruction
// once, as if there were no times, leaves the least to chance, and is wrong where the program does
// different things in long samples and in short ones. So it is looked how far these two profiles of
// the same samples are apart (by instructions in cells of code), and how much of that is chance, as
// samples differ that follow one another. An instruction counts worth^b:
//
//   b = 1 - chance / distance    (squared, both; at least 0)
//
// 0 for a program that does the same all the time, near 1 for one with phases.
//
// That would take the program for equally fast in all samples, and a program that waits for memory
// in one phase executes a hundredth of the instructions there. Replicas tell how fast they were,
// natively beside their samples where half of them at least know that, else as they were recorded.
// Part of what slows them down (new pages, cold caches, the trace) is their own. It is noise:
// samples of the same code differ by it, too. So each sample is paired with the one whose code is
// most alike, and speeds (logarithms) are believed as far as pairs agree:
//
//   c = 1 - variance within pairs / variance of all      (at least 0)
//   worth = time * (speed of the sample / speed in the middle)^c / instructions
//
// Samples that do not tell how fast they were are as fast as those of such code that do. Where
// there are none for much of the time nothing is said of speeds.
//
// Where speeds are as they were recorded a factor of four, up or down, is taken for the clock's
// error, as to believe smaller differences makes profiles worse (bench/shadow_mode.md); natively a
// fifth is.
//
// A program that makes system calls all the time is seen from one of them to the next, and which of
// these pieces is seen is drawn: each as likely as any other (Drawn::evenly), so the long ones are
// not seen more often, and it has more time for them. Such a sample stands for the more time the
// longer it is, beside those drawn before and behind it.
//
// What a sample stands for is known better where a clock says how much time each part of the code
// took (clock_fit.h).
//
// Within a sample, and the others of its replica, the proportions are the replica's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collect/weights/clock_fit.h"
#include "trace/code_shares.h"

namespace shadowprof::collect {

// When a sample was taken: a program, and the processor time that it had used.
struct Moment {
  int64_t program = 0;
  double used = 0;
};

// Seconds that each of them stands for. The first and the last of a program stand for as much on
// their outer side as on the other, for what was before and after is not known to have been
// profiled; the only one of a program for as much as the others do in the mean.
std::vector<double> stands_for(const std::vector<Moment>& moments);

// How many instructions the program has executed in so many seconds; 0 seconds: not known.
struct SampleSpeed {
  double instructions = 0;
  double seconds = 0;
  void operator+=(const SampleSpeed& more) {
    instructions += more.instructions;
    seconds += more.seconds;
  }
  SampleSpeed operator-(const SampleSpeed& other) const {
    return {instructions - other.instructions, seconds - other.seconds};
  }
  bool is_known() const { return instructions > 0 && seconds > 0; }
};
// As it was recorded, and natively beside the sample.
struct SampleSpeeds {
  SampleSpeed recorded{};
  SampleSpeed native{};
};

class SampleSeries {
 public:
  // What decides whether a piece of the program is seen: the time that it takes, or chance alone.
  enum class Drawn : uint8_t { by_time, evenly };
  struct Sample {
    int64_t program = 0;
    double used = 0;            // at its beginning
    uint64_t instructions = 0;  // 0: was not recorded
    SampleSpeeds speeds{};
    double time = 0;    // seconds of the program's that it stands for
    double factor = 1;  // it stands for so many times more than by where others are
    double weight = 1;
    Drawn drawn = Drawn::by_time;
  };
  static constexpr double kRounding = 1e-9;  // what is not further apart (squared) is the same

  // The next sample is of this program, which has used so many seconds of processor time. Returns
  // its number: 1, 2, ...
  uint64_t taken(int64_t program, double used);
  // The last one was not taken after all: its number is the next one's.
  void withdraw(uint64_t number);
  // It has given so many instructions, of this code.
  void recorded(uint64_t number, uint64_t instructions, const trace::CodeShares& code,
                const SampleSpeeds& speeds = {}, Drawn drawn = Drawn::by_time);
  // After the last one. `ticks`: of a clock of the program's time, by regions of code; none:
  // nothing is known. `others`, concluded, tell the speeds if these samples cannot.
  void conclude(const ClockFit::Shares& ticks = {}, const SampleSeries* others = nullptr);

  // How far the code of one sample is off among those up to now, squared.
  double variance() const;
  // Samples that were recorded, and their instructions.
  size_t size() const { return recorded_; }
  double instructions() const { return instructions_; }
  // Once it was concluded. Of the samples `first` to `last`, taken together; 1 for numbers that
  // were never given.
  double of(uint64_t first, uint64_t last) const;
  const std::vector<Sample>& samples() const { return samples_; }
  // Each instruction of that sample counts so many times more.
  void scale(size_t sample, double factor) { samples_[sample].weight *= factor; }
  // How far the times are believed.
  double believed() const { return believed_; }
  // How far the speeds are.
  double believed_speeds() const { return believed_speeds_; }
  // Samples that do different things may tell how fast the program is at each. Where they do not,
  // their weights take it for equally fast.
  enum class Speeds { alike, told, assumed };
  Speeds speeds_are() const;
  // Speeds are those of native stretches.
  bool tell_native_speeds() const { return natively_; }
  // The program's; 0: the samples do not say how fast it was.
  double instructions_per_second() const;
  // How far what they say of the code is off by chance, squared.
  double chance() const { return chance_; }

  // Instructions by cells of code, as shares of one.
  using Shares = std::array<double, kCodeCells>;
  // If each sample has so many of them.
  Shares code(const std::vector<double>& amounts) const { return profile(parts_of(amounts)); }
  static double distance(const Shares& a, const Shares& b);  // squared

 private:
  struct Code {
    uint64_t number = 0;  // of the sample
    Shares shares{};
    double speed = 1;  // against the middle, as far as it is believed
  };
  const SampleSpeed& speed_of(const Sample& sample) const {
    return natively_ ? sample.speeds.native : sample.speeds.recorded;
  }
  bool know_native_speeds() const;
  const Code* most_alike(const Shares& shares) const;
  void find_rates();
  SampleSpeed speed_of_alike(const Code& code) const;
  std::vector<double> times() const;
  void stretch_drawn(std::vector<double>& times) const;
  void fit_to_clock(std::vector<double>& times, const ClockFit::Shares& ticks);
  std::vector<double> speeds();
  std::vector<double> speeds_by(const SampleSeries& others) const;
  void give_to_unknown(std::vector<double>& of_samples) const;
  static double spread_of(const std::vector<double>& logarithms);
  static double within_pairs(const std::vector<Code*>& codes,
                             const std::vector<double>& logarithms);
  std::vector<double> parts_of(const std::vector<double>& amounts) const;
  Shares profile(const std::vector<double>& parts) const;
  double chance_by_neighbours(const std::vector<double>& parts) const;
  void weigh(const std::vector<double>& worths);  // of each sample's instructions together

  std::vector<Sample> samples_;
  std::vector<Code> codes_;  // of some samples, ascending
  uint64_t one_of_ = 1;      // so many samples
  size_t recorded_ = 0;
  double instructions_ = 0;
  double believed_ = 0;
  double believed_speeds_ = 0;
  bool natively_ = false;         // the speeds are
  std::vector<double> rates_;     // instructions a second, of each sample; 0: not known
  double rated_share_ = 0;        // of the time of samples whose code is known
  std::optional<double> spread_;  // of the speeds' logarithms: standard deviation
  double chance_ = 0;
};

}  // namespace shadowprof::collect
