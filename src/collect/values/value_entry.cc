// SPDX-License-Identifier: MIT
//
// The figures of a place come from two streams. What was seen of it at first was all that there
// was, and counts as it is. What was seen in windows is a sample of all the other executions, whose
// number is known, and is multiplied until it is as many. Where windows saw none, or too few, all
// that was seen stands for the others, and nothing is known of those.
#include "collect/values/value_entry.h"

#include <cmath>

namespace shadowprof::collect {
namespace {

using profile::ValueFigures;

// Standard deviation of a share of which nothing is known: sqrt(1/12).
constexpr double kUnknown_share = 0.289;

// So many values, of so many windows at least, tell of executions that were not seen. Of one loop
// iteration that a window has met it is not known what it stands for.
constexpr uint64_t kFewestInWindows = 64;
constexpr uint32_t kFewestWindows = 2;

bool tell_of_others(const ValueEntry& in_windows) {
  return in_windows.count >= kFewestInWindows && in_windows.error != nullptr &&
         in_windows.error->met() >= kFewestWindows;
}

ValueFigures seen_in(const ValueEntry& e) {
  ValueFigures f;
  f.count = e.count;
  f.zero = e.zero;
  f.same = e.same;
  f.strided = e.strided;
  f.top = e.hotlist.top(e.count);
  return f;
}

// Multiplied to be `count` values.
void stretch(ValueFigures& f, uint64_t count) {
  if (count == f.count || f.count == 0) return;
  const double factor = static_cast<double>(count) / static_cast<double>(f.count);
  const auto scale = [&](uint64_t& n) {
    n = std::min(count, static_cast<uint64_t>(std::llround(static_cast<double>(n) * factor)));
  };
  for (uint64_t* n : {&f.zero, &f.same, &f.strided}) scale(*n);
  uint64_t left = count;  // rounding does not make them more than all
  for (profile::ValueCount& v : f.top) {
    scale(v.count);
    v.count = std::min(v.count, left);
    left -= v.count;
  }
  f.count = count;
}

// Errors of the hottest value's count.
struct Errors {
  uint64_t value = 0;
  double sampled = 0;  // of samples or windows
  uint32_t samples = 0;
  double other = 0;  // squared
  // False: these samples do not tell.
  bool add_samples(const ValueEntry& e, uint64_t stands_for, bool are_windows = false) {
    if (e.error == nullptr) return false;
    const uint32_t these = e.error->samples();
    double of_share = these < 2 ? 0 : e.error->error_of_share(value, e.hotlist);
    const double half = these < 2 ? 1 : profile::critical_value(these) * of_share;
    if (is_one_value(e) && missed_values(e.error->met()) < half) {
      add_alike(e, stands_for);
      return true;
    }
    if (these < 2) return false;
    if (are_windows)
      of_share = std::max(of_share, missed_phase(these) / profile::critical_value(these));
    sampled += of_share * static_cast<double>(stands_for);
    samples = std::max(samples, these);
    return true;
  }
  static bool is_one_value(const ValueEntry& e) {
    return e.error->met() >= 2 && e.hotlist.size() == 1 && e.hotlist.exact();
  }
  // Samples that a few had nearly all of tell little of variance. But if each has seen the same
  // value and no other, others are rare.
  void add_alike(const ValueEntry& e, uint64_t stands_for) {
    const uint32_t met = e.error->met();
    sampled += missed_values(met) / profile::critical_value(met) * static_cast<double>(stands_for);
    samples = std::max(samples, met);
  }
  void add_lost(const ValueEntry& e, uint64_t stands_for) {
    if (e.hotlist.exact() || e.count == 0) return;
    const double error =
        e.hotlist.count_error() * static_cast<double>(stands_for) / static_cast<double>(e.count);
    other += error * error;
  }
  void add_unknown(uint64_t executions) {
    const double error = kUnknown_share * static_cast<double>(executions);
    other += error * error;
  }
  // Intervals are made of it with the distribution of so many samples. What has other reasons is
  // normal, and is to be no wider for it.
  uint64_t all() const {
    const double narrower = samples < 2 ? 1
                                        : profile::critical_value(profile::kNoSamples) /
                                              profile::critical_value(samples);
    return static_cast<uint64_t>(std::ceil(std::hypot(sampled, narrower * std::sqrt(other))));
  }
};

}  // namespace

ValueFigures ValueEntry::figures(bool of_samples) const {
  static const ValueEntry kNothing;
  const ValueEntry& in_windows = window == nullptr ? kNothing : window->stream;
  const uint64_t all = executed == 0 ? count + in_windows.count : std::max(executed, count);
  const uint64_t rest = all - count;
  const bool has_windows = rest != 0 && tell_of_others(in_windows);
  ValueFigures f = seen_in(*this);
  if (ValueFigures other = seen_in(in_windows); other.count != 0 && rest != 0) {
    if (has_windows) stretch(other, rest);
    profile::add_figures(f, other);
  }
  if (!has_windows) stretch(f, all);
  Errors errors{f.top.empty() ? 0 : f.top[0].value};
  const bool windows_tell = has_windows && errors.add_samples(in_windows, rest, !of_samples);
  if (has_windows) errors.add_lost(in_windows, rest);
  errors.add_samples(*this, has_windows ? count : all);
  errors.add_lost(*this, has_windows ? count : all);
  const bool is_unknown =
      rest != 0 && !windows_tell && (has_windows || (!of_samples && errors.samples == 0));
  if (is_unknown) errors.add_unknown(rest);
  f.estimated = rest != in_windows.count || !hotlist.exact() || !in_windows.hotlist.exact();
  const profile::Estimate distinct =
      profile::distinct_in_all(profile::ValueHotlist::distinct(hotlist, in_windows.hotlist),
                               in_windows.hotlist.new_share(), count + in_windows.count, all);
  f.distinct = std::min(distinct.count, all);
  f.distinct_error = distinct.error;
  // Any of the others may have been a new one.
  if (is_unknown && !hotlist.exact()) f.distinct_error = std::max(f.distinct_error, rest / 2);
  f.samples = errors.samples != 0 || of_samples ? errors.samples
              : f.estimated                     ? profile::kNoSamples
                                                : 0;
  f.top_error = f.samples == 0 ? 0 : errors.all();
  return f;
}

}  // namespace shadowprof::collect
