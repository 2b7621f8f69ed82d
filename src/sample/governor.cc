// SPDX-License-Identifier: MIT
#include "sample/governor.h"

#include <algorithm>
#include <bit>

#include "sample/jitter.h"

namespace shadowprof::sample {
namespace {

// The loading of a program is over by then, mostly.
constexpr double kFirstSample = 0.02;
constexpr double kFirstRetry = 0.005;
constexpr double kShortestGap = 0.0005;
// Lengths. The first sample is of what little has been executed by then.
constexpr double kFirstLength = 0.001;
constexpr double kLeastLength = 0.0005;
constexpr double kGreatestLength = 0.02;
constexpr double kMostGrowth = 8;  // from one typical length to the next
// Of what a sample costs however long it is, what its length may cost.
constexpr double kGrowingShare = 0.25;
// Seconds, whose budget may be spent before they have passed, if it is enough.
constexpr double kLent = 10;
// Of the budget, for samples without a fork.
constexpr double kUnforkedShare = 0.5;
// Of the budget, for those between forks that are the better bargain, or the worse one; and how far apart
// forks would be that had all of it, where they leave gaps.
constexpr double kBetterShare = 0.8;
constexpr double kWorseShare = 1 - kBetterShare;
constexpr double kClearlyBetter = 2;
constexpr double kShortestGapToFill = 0.25;
constexpr double kFirstFillerCost = 0.001;
// Of the typical length, the lengths of samples that stand for less time than others, or more.
constexpr double kLeastPart = 0.1;
constexpr double kMostPart = 4;

}  // namespace

Governor::Governor(const GovernorOptions& options, const shadow::FaultPrice& price)
    : options_(options),
      price_(price),
      random_(options.seed),
      next_(options.delay),
      fillers_share_(kUnforkedShare),
      length_(kFirstLength) {
  next_ += kFirstSample * jitter(random_);
}

// Nothing is known of what one costs before the first has ended.
void Governor::began(double now) {
  pending_++;
  if (samples_ == 0) {
    next_ = now + kLongestRetry;
  } else {
    choose_next(now);
  }
}

void Governor::sampled(double now, const SampleCost& sample) {
  samples_++;
  pending_ -= pending_ != 0;
  missed_in_a_row_ = 0;
  const double cost_before = cost();
  pause_ += sample.pause;
  fault_cost_ += sample.faults_while_alive * price_.copied;
  contention_ += sample.contention;
  log_ += sample.log;
  last_cost_ = cost() - cost_before;
  active_ += sample.lifetime;
  choose_next(now);
  choose_next_filler(now);
  choose_length(sample);
}

// The next sample is expected to be like the average one, and so are those that run; or like the
// last one if that was dearer, as in a program that grows.
void Governor::choose_next(double now) {
  const auto n = static_cast<double>(samples_);
  const double expected_cost = std::max(mean_fork(), last_cost_);
  const double expected_life = active_ / n;
  const auto unfinished = static_cast<double>(pending_ + 1);
  const double by_budget = (cost() + unfinished * expected_cost) / options_.max_overhead;
  const double by_load = (active_ + unfinished * expected_life) / options_.load - expected_life;
  double earliest = std::max(by_budget, by_load) + options_.delay;
  if (options_.frequency > 0) earliest = std::max(earliest, now + 1 / options_.frequency);
  // What has been saved is not spent at once.
  const double pace =
      std::max(expected_cost / options_.max_overhead, expected_life / options_.load);
  if (patience_ > 1) earliest = std::max(earliest, now + patience_ * pace - expected_life);
  const double gap = std::max(earliest - now, kShortestGap);
  next_ = now + gap * jitter(random_);
}

double Governor::next_length(double now) {
  const double mean_gap = now / static_cast<double>(samples_ + pending_ + 1);
  const double part = mean_gap > 0 ? (now - stands_from_) / mean_gap : 1;
  stands_from_ = now;
  const double length = length_ * std::clamp(part, kLeastPart, kMostPart);
  return std::clamp(length, kLeastLength, kGreatestLength);
}

// After the 1st, 2nd, 4th, 8th, ... sample: if it followed what samples cost just now, less would
// be seen of the parts of a program in which they are dear.
void Governor::choose_length(const SampleCost& sample) {
  if (sample.guest_s == 0) return;
  const double dearer = std::max(0.0, price_.copied - price_.kept);
  recent_++;
  fixed_ += sample.pause + sample.faults_while_alive * price_.kept;
  growing_ += sample.faults_while_alive * dearer + sample.contention + sample.log;
  guest_ += sample.guest_s;
  lived_ += sample.lifetime;
  if (!std::has_single_bit(++lengths_seen_)) return;
  const double most = std::min(kMostGrowth * length_, kGreatestLength);
  const double fixed = fixed_ / recent_;
  const double balanced = growing_ > 0 ? kGrowingShare * fixed * guest_ / growing_ : most;
  // For as many samples as the budget gives, and not fewer because each takes so long.
  const double gap = fixed / options_.max_overhead;
  const double by_load = lived_ > 0 ? options_.load * gap * guest_ / lived_ : most;
  length_ = std::clamp(std::min(balanced, by_load), kLeastLength, most);
  for (double* sum : {&recent_, &fixed_, &growing_, &guest_, &lived_}) *sum /= 2;
}

void Governor::faulted(double count) {
  const double cost = count * price_.kept;
  fault_cost_ += cost;
  last_cost_ += cost;
  fixed_ += cost;
  if (samples_ != 0) wait(this->cost() / options_.max_overhead + options_.delay);
}

double Governor::pay(const SampleCost& unforked) {
  pause_ += unforked.pause;
  contention_ += unforked.contention;
  return unforked.pause + unforked.contention;
}

void Governor::interpreted(double now, const SampleCost& sample) {
  const double pace = pay(sample) / (kUnforkedShare * options_.max_overhead);
  next_ = std::max(now + pace * jitter(random_), cost() / options_.max_overhead + options_.delay);
  if (options_.frequency > 0) next_ = std::max(next_, now + 1 / options_.frequency);
}

void Governor::filled(double now, const SampleCost& sample) {
  if (const double paid = pay(sample); paid > 0) {
    fillers_cost_ += paid;
    fillers_++;
    wait(cost() / options_.max_overhead + options_.delay);
  }
  choose_next_filler(now);
}

double Governor::mean_fork() const {
  return (cost() - fillers_cost_) / static_cast<double>(std::max<uint64_t>(samples_, 1));
}

double Governor::mean_filler() const {
  return fillers_ == 0 ? kFirstFillerCost : fillers_cost_ / static_cast<double>(fillers_);
}

void Governor::choose_next_filler(double now) {
  const double pace = mean_filler() / (fillers_share_ * options_.max_overhead);
  const bool leaves_gap = mean_fork() > kShortestGapToFill * options_.max_overhead;
  next_filler_ = now + std::max(pace, leaves_gap ? 0 : kShortestGapToFill) * jitter(random_);
}

// Of n samples chance is a variance / n, so what matters is what one costs times its variance.
void Governor::know_samples(double variance_of_forked, double variance_of_filler) {
  const double forked = mean_fork() * variance_of_forked;
  const double filler = mean_filler() * variance_of_filler;
  fillers_share_ = kUnforkedShare;
  if (forked > kClearlyBetter * filler) fillers_share_ = kBetterShare;
  if (filler > kClearlyBetter * forked) fillers_share_ = kWorseShare;
}

double Governor::seconds_until_affordable(double cost, double now) const {
  const double alone = cost / options_.max_overhead;
  const double paid_at = this->cost() / options_.max_overhead + alone + options_.delay;
  return std::max(0.0, paid_at - (alone <= kLent ? kLent : 0) - now);
}

void Governor::replace(double now) {
  if (options_.frequency > 0) return;
  next_ = std::min(next_, std::max(now, cost() / options_.max_overhead + options_.delay));
}

void Governor::missed(double now, double longest) {
  const double wait = std::min(longest, kFirstRetry * (1u << std::min(missed_in_a_row_, 8u)));
  missed_in_a_row_++;
  next_ = now + wait * jitter(random_);
}

}  // namespace shadowprof::sample
