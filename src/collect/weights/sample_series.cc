// SPDX-License-Identifier: MIT
#include "collect/weights/sample_series.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace shadowprof::collect {
namespace {

constexpr size_t kMostCodes = 1024;
// What a replica's clock may be off by, as a logarithm: a factor of four.
constexpr double kClockErrorLog = 1.386;
constexpr double kTellingNative_s = 0.001;  // less says nothing
constexpr double kNativeErrorLog = 0.18;    // of speeds natively: a fifth
constexpr double kAlikeSquared = 0.05;  // code whose squared distance is less
constexpr double kSteadyLog = 0.7;      // speeds that differ by less than a factor of two
constexpr double kBelievedShare = 0.5;  // speeds that are known
constexpr double kRatedShare = 0.8;     // of the time: it is known how fast that is
constexpr double kTellingShare = 0.5;   // likewise, if only the whole is asked for
constexpr size_t kNearSamples = 8;      // before and behind: what a program does changes
constexpr size_t kFewestSpeeds = 8;     // of fewer it is not known how far they agree

}  // namespace

double SampleSeries::distance(const Shares& a, const Shares& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

uint64_t SampleSeries::taken(int64_t program, double used) {
  samples_.push_back({program, used});
  return samples_.size();
}

void SampleSeries::withdraw(uint64_t number) {
  if (number == samples_.size() && number != 0) samples_.pop_back();
}

// Samples end in about the order in which they began.
void SampleSeries::recorded(uint64_t number, uint64_t instructions, const trace::CodeShares& code,
                            const SampleSpeeds& speeds, Drawn drawn) {
  if (number == 0 || number > samples_.size() || instructions == 0) return;
  recorded_++;
  instructions_ += static_cast<double>(instructions);
  samples_[number - 1].instructions += instructions;
  samples_[number - 1].speeds.recorded += speeds.recorded;
  samples_[number - 1].speeds.native += speeds.native;
  samples_[number - 1].drawn = drawn;
  if (number % one_of_ != 0) return;
  Code seen{number};
  for (size_t i = 0; i < code.size(); i++) {
    seen.shares[i] = static_cast<double>(code[i]) / static_cast<double>(instructions);
  }
  const auto after = [](uint64_t n, const Code& c) { return n < c.number; };
  codes_.insert(std::upper_bound(codes_.begin(), codes_.end(), number, after), seen);
  if (codes_.size() <= kMostCodes) return;
  one_of_ *= 2;
  std::erase_if(codes_, [&](const Code& c) { return c.number % one_of_ != 0; });
}

std::vector<double> stands_for(const std::vector<Moment>& moments) {
  std::map<int64_t, std::vector<size_t>> of_program;
  for (size_t i = 0; i < moments.size(); i++) of_program[moments[i].program].push_back(i);
  std::vector<double> times(moments.size(), 0);
  double sum = 0;
  size_t with_others = 0;
  for (auto& [program, own] : of_program) {
    if (own.size() == 1) continue;
    std::ranges::stable_sort(own, {}, [&](size_t i) { return moments[i].used; });
    double before = moments[own.front()].used;
    for (size_t i = 0; i + 1 < own.size(); i++) {
      const double half = (moments[own[i + 1]].used - moments[own[i]].used) / 2;
      times[own[i]] = half + (i == 0 ? std::min(half, before) : before);
      before = half;
    }
    times[own.back()] = 2 * before;
    for (const size_t i : own) sum += times[i];
    with_others += own.size();
  }
  if (with_others == 0) return times;
  for (const auto& [program, own] : of_program)
    if (own.size() == 1) times[own.front()] = sum / static_cast<double>(with_others);
  return times;
}

std::vector<double> SampleSeries::times() const {
  std::vector<Moment> moments;
  for (const Sample& sample : samples_)
    if (sample.instructions != 0) moments.push_back({sample.program, sample.used});
  const std::vector<double> of_recorded = stands_for(moments);
  std::vector<double> times(samples_.size(), 0);
  for (size_t i = 0, k = 0; i < samples_.size(); i++)
    if (samples_[i].instructions != 0) times[i] = of_recorded[k++];
  return times;
}

// Standard deviation.
double SampleSeries::spread_of(const std::vector<double>& logarithms) {
  const auto n = static_cast<double>(logarithms.size());
  double mean = 0, squares = 0;
  for (const double speed : logarithms) mean += speed / n;
  for (const double speed : logarithms) squares += (speed - mean) * (speed - mean) / n;
  return std::sqrt(squares);
}

// Variance between one of these samples and the one whose code is most alike.
double SampleSeries::within_pairs(const std::vector<Code*>& codes,
                                  const std::vector<double>& logarithms) {
  const size_t n = codes.size();
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    size_t alike = i;
    double least = HUGE_VAL;
    for (size_t k = 1; k < n; k++) {
      const size_t other = (i + k) % n;
      const double apart = distance(codes[i]->shares, codes[other]->shares);
      if (apart < least) least = apart, alike = other;
    }
    const double apart = logarithms[i] - logarithms[alike];
    sum += apart * apart / 2;
  }
  return sum / static_cast<double>(n);
}

// A quarter as many samples at least know it as know how fast they are as they were recorded.
bool SampleSeries::know_native_speeds() const {
  size_t recorded = 0, native = 0;
  double seconds = 0;
  for (const Sample& s : samples_) {
    recorded += s.speeds.recorded.is_known();
    native += s.speeds.native.is_known();
    seconds += s.speeds.native.seconds;
  }
  return seconds >= kTellingNative_s && 4 * native >= recorded;
}

SampleSpeed SampleSeries::speed_of_alike(const Code& code) const {
  SampleSpeed speed;
  for (const Code& other : codes_) {
    const SampleSpeed& its = speed_of(samples_[other.number - 1]);
    if (its.is_known() && distance(code.shares, other.shares) < kAlikeSquared) speed += its;
  }
  return speed;
}

void SampleSeries::find_rates() {
  rates_.assign(samples_.size(), 0);
  const auto rate = [](const SampleSpeed& speed) {
    return speed.is_known() ? speed.instructions / speed.seconds : 0;
  };
  for (size_t i = 0; i < samples_.size(); i++) rates_[i] = rate(speed_of(samples_[i]));
  double rated = 0, all = 0;
  for (const Code& c : codes_) {
    double& its = rates_[c.number - 1];
    if (its == 0) its = rate(speed_of_alike(c));
    const double time = samples_[c.number - 1].time;
    all += time;
    if (its > 0) rated += time;
  }
  rated_share_ = all > 0 ? rated / all : 0;
}

// Each sample's against that in the middle, as far as it is believed; 1 each where they are not
// known.
std::vector<double> SampleSeries::speeds() {
  std::vector<double> speeds(samples_.size(), 1);
  const double error = natively_ ? kNativeErrorLog : kClockErrorLog;
  std::vector<double> logarithms;
  std::vector<Code*> known;
  for (Code& c : codes_) {
    if (!speed_of(samples_[c.number - 1]).is_known()) continue;
    known.push_back(&c);
    logarithms.push_back(std::log(rates_[c.number - 1]));
  }
  if (logarithms.size() < kFewestSpeeds) return speeds;
  spread_ = spread_of(logarithms);
  const double variance = *spread_ * *spread_;
  if (variance > kRounding)
    believed_speeds_ = std::max(0.0, 1 - within_pairs(known, logarithms) / variance);
  const auto middle = logarithms.begin() + static_cast<ptrdiff_t>(logarithms.size() / 2);
  std::nth_element(logarithms.begin(), middle, logarithms.end());
  for (size_t i = 0; i < samples_.size(); i++) {
    if (rates_[i] == 0) continue;
    const double faster = std::log(rates_[i]) - *middle;
    const double surely = std::max(0.0, std::abs(faster) - error);
    speeds[i] = std::exp(believed_speeds_ * std::copysign(surely, faster));
  }
  for (Code& c : codes_) c.speed = speeds[c.number - 1];
  return speeds;
}

const SampleSeries::Code* SampleSeries::most_alike(const Shares& shares) const {
  const auto apart = [&](const Code& c) { return distance(c.shares, shares); };
  const auto least = std::ranges::min_element(codes_, {}, apart);
  return least == codes_.end() ? nullptr : &*least;
}

// Each is as fast as the one of the others whose code is most alike.
std::vector<double> SampleSeries::speeds_by(const SampleSeries& others) const {
  std::vector<double> speeds(samples_.size(), 1);
  for (const Code& c : codes_) {
    if (const Code* other = others.most_alike(c.shares)) speeds[c.number - 1] = other->speed;
  }
  give_to_unknown(speeds);
  return speeds;
}

// Not every sample's code is known of a long series: each other sample has what the nearest known
// one of its program has.
void SampleSeries::give_to_unknown(std::vector<double>& of_samples) const {
  if (one_of_ == 1) return;
  std::map<int64_t, std::vector<uint64_t>> known;  // numbers, ascending
  for (const Code& c : codes_) known[samples_[c.number - 1].program].push_back(c.number);
  for (size_t i = 0; i < samples_.size(); i++) {
    const auto own = known.find(samples_[i].program);
    if (own == known.end()) continue;
    const std::vector<uint64_t>& numbers = own->second;
    const uint64_t number = i + 1;
    auto next = std::ranges::lower_bound(numbers, number);
    const bool is_before_nearer =
        next == numbers.end() ||
        (next != numbers.begin() && number - *std::prev(next) < *next - number);
    if (is_before_nearer) --next;
    of_samples[i] = of_samples[*next - 1];
  }
}

SampleSeries::Speeds SampleSeries::speeds_are() const {
  if (variance() < kAlikeSquared) return Speeds::alike;
  if (!spread_ || rated_share_ < kRatedShare) return Speeds::assumed;
  if (*spread_ <= kSteadyLog) return Speeds::alike;
  return believed_speeds_ >= kBelievedShare ? Speeds::told : Speeds::assumed;
}

double SampleSeries::instructions_per_second() const {
  // The mean over the program's time. Where samples are about equally fast as they were recorded,
  // the longer ones know it better.
  const bool differ = variance() >= kAlikeSquared;
  if (differ && rated_share_ < kTellingShare) return 0;
  const bool by_time = natively_ || speeds_are() == Speeds::told;
  SampleSpeed all;
  for (size_t i = 0; i < rates_.size(); i++) {
    if (!by_time)
      all += speed_of(samples_[i]);
    else if (rates_[i] > 0)
      all += {rates_[i] * samples_[i].time, samples_[i].time};
  }
  return all.seconds > 0 ? all.instructions / all.seconds : 0;
}

// The amounts of the samples whose code is known, as shares of one.
std::vector<double> SampleSeries::parts_of(const std::vector<double>& amounts) const {
  double sum = 0;
  for (const Code& c : codes_) sum += amounts[c.number - 1];
  std::vector<double> parts;
  for (const Code& c : codes_) parts.push_back(sum == 0 ? 0 : amounts[c.number - 1] / sum);
  return parts;
}

// If of `codes_` each has such a part in all.
SampleSeries::Shares SampleSeries::profile(const std::vector<double>& parts) const {
  Shares all{};
  for (size_t c = 0; c < codes_.size(); c++)
    for (size_t i = 0; i < all.size(); i++) all[i] += parts[c] * codes_[c].shares[i];
  return all;
}

// For that profile. Half of the squared distance of two is the variance of one.
double SampleSeries::chance_by_neighbours(const std::vector<double>& parts) const {
  std::map<int64_t, std::vector<size_t>> of_program;
  for (size_t c = 0; c < codes_.size(); c++)
    of_program[samples_[codes_[c].number - 1].program].push_back(c);
  const Shares all = profile(parts);
  const auto apart = [&](size_t a, size_t b) {
    return distance(codes_[a].shares, codes_[b].shares);
  };
  double chance = 0;
  for (const auto& [program, own] : of_program) {
    for (size_t i = 0; i < own.size(); i++) {
      double variance = own.size() == 1 ? distance(codes_[own[i]].shares, all) : 0;
      const double near = i > 0 && i + 1 < own.size() ? 4 : 2;
      if (i > 0) variance += apart(own[i], own[i - 1]) / near;
      if (i + 1 < own.size()) variance += apart(own[i], own[i + 1]) / near;
      chance += parts[own[i]] * parts[own[i]] * variance;
    }
  }
  return chance;
}

// Not by neighbours: they may be alike only because the budget has put them close together.
double SampleSeries::variance() const {
  if (codes_.size() < 2) return 0;
  const std::vector<double> equal(codes_.size(), 1 / static_cast<double>(codes_.size()));
  const Shares mean = profile(equal);
  double sum = 0;
  for (const Code& c : codes_) sum += distance(c.shares, mean);
  return sum / static_cast<double>(codes_.size() - 1);
}

// The header's formulas.
void SampleSeries::weigh(const std::vector<double>& worths) {
  double sum = 0;
  std::vector<double> amounts;
  for (size_t i = 0; i < samples_.size(); i++) {
    sum += worths[i];
    amounts.push_back(static_cast<double>(samples_[i].instructions));
  }
  if (sum == 0) return;
  const std::vector<double> by_time = parts_of(worths);
  const double by_chance = chance_by_neighbours(by_time);
  const double apart = distance(profile(by_time), profile(parts_of(amounts)));
  believed_ = apart > by_chance + kRounding ? 1 - by_chance / apart : 0;
  double weighted = 0;
  for (size_t i = 0; i < samples_.size(); i++) {
    if (amounts[i] == 0) continue;
    const double worth = worths[i] / amounts[i] * (instructions_ / sum);
    samples_[i].weight = std::pow(worth, believed_);
    weighted += samples_[i].weight * amounts[i];
  }
  if (weighted == 0) return;
  for (Sample& sample : samples_) sample.weight *= instructions_ / weighted;
}

// Those that were drawn evenly, by how long they are among those near them.
void SampleSeries::stretch_drawn(std::vector<double>& times) const {
  std::map<int64_t, std::vector<size_t>> of_program;
  for (size_t i = 0; i < samples_.size(); i++)
    if (samples_[i].drawn == Drawn::evenly && samples_[i].instructions != 0)
      of_program[samples_[i].program].push_back(i);
  for (const auto& [program, own] : of_program) {
    for (size_t i = 0; i < own.size(); i++) {
      const size_t first = i - std::min(i, kNearSamples);
      const size_t end = std::min(own.size(), i + kNearSamples + 1);
      double near = 0;
      for (size_t k = first; k < end; k++)
        near += static_cast<double>(samples_[own[k]].instructions);
      const auto length = static_cast<double>(samples_[own[i]].instructions);
      times[own[i]] *= length * static_cast<double>(end - first) / near;
    }
  }
}

void SampleSeries::fit_to_clock(std::vector<double>& times, const ClockFit::Shares& ticks) {
  std::vector<ClockFit::Sample> samples;
  for (const Code& c : codes_) samples.push_back({by_region(c.shares), times[c.number - 1]});
  const ClockFit fit(std::move(samples), ticks);
  std::vector<double> factors(samples_.size(), 1);
  for (size_t i = 0; i < codes_.size(); i++) factors[codes_[i].number - 1] = fit.factors()[i];
  give_to_unknown(factors);
  for (size_t i = 0; i < times.size(); i++) times[i] *= factors[i];
}

void SampleSeries::conclude(const ClockFit::Shares& ticks, const SampleSeries* others) {
  std::vector<double> worths = times();
  const std::vector<double> by_place = worths;
  stretch_drawn(worths);
  fit_to_clock(worths, ticks);
  for (size_t i = 0; i < worths.size(); i++) samples_[i].time = worths[i];
  natively_ = know_native_speeds();
  find_rates();
  const std::vector<double> fast = others ? speeds_by(*others) : speeds();
  for (size_t i = 0; i < worths.size(); i++) {
    worths[i] *= fast[i];
    if (by_place[i] > 0) samples_[i].factor = worths[i] / by_place[i];
  }
  weigh(worths);
  std::vector<double> amounts;
  for (const Sample& sample : samples_)
    amounts.push_back(sample.weight * static_cast<double>(sample.instructions));
  double squares = 0;
  for (const double part : parts_of(amounts)) squares += part * part;
  chance_ = variance() * squares / static_cast<double>(one_of_);
}

double SampleSeries::of(uint64_t first, uint64_t last) const {
  double weighted = 0, instructions = 0;
  const uint64_t end = std::min<uint64_t>(last, samples_.size());
  for (uint64_t number = std::max<uint64_t>(first, 1); number <= end; number++) {
    const Sample& sample = samples_[number - 1];
    weighted += sample.weight * static_cast<double>(sample.instructions);
    instructions += static_cast<double>(sample.instructions);
  }
  return instructions == 0 ? 1 : weighted / instructions;
}

}  // namespace shadowprof::collect
