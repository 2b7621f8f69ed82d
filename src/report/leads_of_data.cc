// SPDX-License-Identifier: MIT
#include "report/lead_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "report/columns.h"

namespace shadowprof::report {
namespace {

// Assumed cycles: a division in the middle of its widths.
constexpr double kDivision_cycles = 18;
// And a line that comes from another core. A line that came so often goes to and fro; what is
// handed over once or twice is how threads work together.
constexpr double kHandOver_cycles = 100;
constexpr uint64_t kToAndFro_times = 20;
// In cycles, for a host on which nobody has measured them: L1, L2, L3, memory.
constexpr std::array<double, 4> kUsualLatencies = {4, 12, 40, 250};

// One for each place, where the other arguments come with the same calls; and where several places
// pass the same, one for all of them.
std::vector<std::pair<Passed, size_t>> joined(const std::vector<Passed>& of_places) {
  std::vector<std::pair<Passed, size_t>> all;  // the place with most at stake, places
  std::map<std::tuple<const profile::HotMethod*, std::string, uint64_t>, size_t> known;
  for (const Passed& passed : of_places) {
    const profile::HotArgument& a = *passed.argument;
    const auto [at, is_first] =
        known.try_emplace({passed.callee, a.reg, a.figures.values[0].value}, all.size());
    if (is_first) {
      all.emplace_back(passed, 1);
      continue;
    }
    auto& [best, places] = all[at->second];
    places++;
    const double sum = best.stake + passed.stake;
    if (passed.stake > best.stake) best = passed;
    best.stake = sum;
  }
  return all;
}

// In how much of its executions, and what to do.
std::string wasted_by(const profile::HotAccessPair& pair, const std::string& from,
                      const std::string& to) {
  const std::string in = percent(pair.share);
  const bool has_other =
      pair.from && !(pair.from->module == pair.to.module && pair.from->offset == pair.to.offset);
  switch (pair.kind) {
    case profile::PairKind::dead_store:
      return fmt::format(
          "{} overwrites what it stores in {}, before anybody has read it; store "
          "once, when it is known",
          has_other ? to : "its next execution", in);
    case profile::PairKind::redundant_load:
      return fmt::format(
          "it loads what {} had already, with no store between, in {}; keep it in a "
          "register",
          has_other ? from : "its last execution", in);
    default:
      return fmt::format("it stores what is there already in {}; look first, or leave it out", in);
  }
}

}  // namespace

// Cycles that the mean execution of a load loses, by what serves it.
struct Lost {
  double near = 0;  // the second cache, or a store shortly before
  double l3 = 0;
  double memory = 0;
};

Lost lost_by(const profile::HotLoad& load, const profile::LatencyCalibration& host) {
  const double hit = host.hit(load.by);
  const double all = load.lost_cycles / static_cast<double>(std::max<uint64_t>(1, load.executions));
  Lost lost;
  lost.near =
      std::min(all, (load.classes[0] + load.classes[1]) * std::max(0.0, host.typical[1] - hit));
  lost.l3 = std::min(all - lost.near, load.classes[2] * std::max(0.0, host.typical[2] - hit));
  lost.memory = all - lost.near - lost.l3;
  return lost;
}

// The lower end of the interval of the cycles that all its executions lose.
double least_lost(const profile::HotLoad& load) {
  const double error = std::max(load.mean_error, load.cold_error);
  return std::max(0.0, load.lost_cycles - error * static_cast<double>(load.executions));
}

std::string remedy(const profile::HotLoad& load, const Lost& lost) {
  if (lost.memory < lost.l3) return "make what it works on smaller, or work on less at a time";
  if (load.stride != 0) return fmt::format("its addresses are {} apart: prefetch", load.stride);
  return "put what is used together into one line, or prefetch";
}

// Slow beyond chance in samples, whose caches were cold: the one that would have most at stake if
// the program's are no better.
void LeadSearch::load_that_may_be_slow(const profile::LatencyCalibration& host) {
  constexpr double kLeastMaybeStake = 0.1;
  const profile::HotLoad* most = nullptr;
  double stake = kLeastMaybeStake;
  for (const profile::HotLoad& load : lists_.load_latency) {
    const double slower = load.mean_cycles - host.hit(load.by);
    if (slower <= load.mean_error || load.cold_error < slower / 2) continue;
    double share = share_of_cycles(load.executions, slower);
    if (share < stake) continue;
    share = std::min(share, most_at_stake(load.at));
    if (const profile::HotMethod* m = function_of(load.at))
      share = std::min(share, time_to_wait_of(*m));
    if (share < stake) continue;
    most = &load;
    stake = share;
  }
  if (most == nullptr) return;
  add(stake, most->at,
      fmt::format("the load takes {:.0f} cycles in samples, which begin with the caches of another "
                  "core: a larger --max-overhead, or --mode full, tells more of the program's own",
                  most->mean_cycles));
  leads_.back().is_maybe = true;
}

// Those of one function share the time that it can have waited.
void LeadSearch::loads() {
  profile::LatencyCalibration host;
  host.typical = kUsualLatencies;
  host = profile_.run.host.latency.value_or(host);
  std::vector<std::pair<const profile::HotLoad*, Lost>> slow;
  std::map<const profile::HotMethod*, double> wanted;
  for (const profile::HotLoad& load : lists_.load_latency) {
    if (load.lost_cycles <= 0) continue;
    const Lost lost = lost_by(load, host);
    if (lost.near > lost.l3 + lost.memory) continue;
    slow.emplace_back(&load, lost);
    wanted[function_of(load.at)] += scale_ * least_lost(load) / all_cycles_;
  }
  for (const auto& [load, lost] : slow) {
    double stake = scale_ * least_lost(*load) / all_cycles_;
    const profile::HotMethod* m = function_of(load->at);
    if (m != nullptr) stake *= std::min(1.0, time_to_wait_of(*m) / wanted[m]);
    stake = std::min(stake, most_at_stake(load->at));
    if (m != nullptr) explained_[m] += stake;
    if (stake < kLeastStakeShare) continue;
    add(stake, load->at,
        fmt::format("{}the load takes {:.0f} cycles: {} come from the L3 cache, {} from memory; {}",
                    called_from(m), load->mean_cycles, percent(load->classes[2]),
                    percent(load->classes[3]), remedy(*load, lost)));
  }
  if (leads_.empty()) load_that_may_be_slow(host);
}

std::optional<Passed> LeadSearch::passed_by(const profile::HotArgument& a) const {
  if (a.is_address || a.advice.empty() || a.figures.values.empty()) return std::nullopt;
  // What all of a few calls pass is no habit, however exactly they are known (rule of three).
  const double by_calls = 3 / static_cast<double>(std::max<uint64_t>(1, a.figures.count));
  const double lowest =
      a.figures.invariance - std::max(by_calls, a.figures.invariance_error.value_or(0));
  const auto found = functions_.find({a.callee.module, a.callee.offset});
  if (lowest < kMostlyShare || found == functions_.end()) return std::nullopt;
  const profile::HotMethod& m = *found->second;
  if (m.invocations == 0 || !is_certain(m)) return std::nullopt;
  const double calls =
      std::min(1.0, static_cast<double>(a.figures.count) / static_cast<double>(m.invocations));
  return Passed{&m, &a, calls * a.figures.invariance * share_with_helpers(m)};
}

void LeadSearch::arguments() {
  std::map<std::pair<PlaceKey, const profile::HotMethod*>, size_t> places;
  std::vector<Passed> of_places;
  for (const profile::HotArgument& a : lists_.arguments) {
    const std::optional<Passed> passed = passed_by(a);
    if (!passed) continue;
    const auto [at, is_first] =
        places.try_emplace({{a.site.module, a.site.offset}, passed->callee}, of_places.size());
    if (is_first) {
      of_places.push_back(*passed);
    } else if (passed->stake > of_places[at->second].stake) {
      of_places[at->second] = *passed;
    }
  }
  for (const auto& [passed, number] : joined(of_places)) {
    if (passed.stake < kLeastStakeShare) continue;
    const profile::HotArgument& a = *passed.argument;
    const std::string others =
        number == 1 ? "" : fmt::format(" (as {} more place{})", number - 1, number == 2 ? "" : "s");
    add(passed.stake, a.site,
        fmt::format("{} of these calls of {} pass {} in {}{}; {}", percent(a.figures.invariance),
                    function_or_address(a.callee),
                    profile::value_text(a.type(), a.figures.values[0].value), printable(a.reg),
                    others, printable(a.advice)));
  }
}

// Those of one function mostly say the same. What a division divides by comes before what it gives,
// which follows from that.
void LeadSearch::values() {
  std::vector<const profile::HotValue*> rows;
  for (const profile::HotValue& v : lists_.values)
    // Without the instruction it is not known whether the code says the value already.
    if (v.semi_invariant && !v.is_address && !v.advice.empty() && !v.figures.values.empty() &&
        !v.disassembly.empty())
      rows.push_back(&v);
  std::stable_partition(rows.begin(), rows.end(), [](const profile::HotValue* v) {
    return v->part == profile::ValuePart::divisor;
  });
  BestOfFunctions best;
  for (const profile::HotValue* row : rows) {
    const profile::HotValue& v = *row;
    const bool divides = v.disassembly.find("div") != std::string::npos;
    if (share_of_cycles(v.figures.count, divides ? kDivision_cycles : 1) < kLeastStakeShare)
      continue;
    const profile::HotMethod* m = function_of(v.at);
    double stake =
        share_of_cycles(v.figures.count, divides ? kDivision_cycles : cycles_of_instruction(m));
    stake = std::min(stake, most_at_stake(v.at));
    if (stake < kLeastStakeShare) continue;
    const bool is_divisor = v.part == profile::ValuePart::divisor;
    join(best, {stake, v.at,
                fmt::format("{} {} {} in {}; {}", printable(v.disassembly),
                            is_divisor ? "divides by" : "gives",
                            profile::value_text(v.type, v.figures.values[0].value),
                            percent(v.figures.invariance), printable(v.advice))});
  }
  add_best(std::move(best));
}

// The pair with most stands for its line.
void LeadSearch::sharing() {
  std::map<std::pair<std::string, uint64_t>, const profile::HotSharing*> best;
  for (const profile::HotSharing& s : lists_.sharing) {
    if (s.count < kToAndFro_times * s.lines) continue;
    const auto [at, is_first] = best.try_emplace({s.line.module, s.line.offset}, &s);
    if (!is_first && s.count > at->second->count) at->second = &s;
  }
  for (const auto& [line, s] : best) {
    const bool is_true = s->kind == profile::SharingKind::true_sharing;
    const bool is_same = s->to.module == s->from.module && s->to.offset == s->from.offset;
    const std::string other = is_same ? "itself in another thread" : said(s->to);
    const double cost = share_of_cycles(s->count, kHandOver_cycles);
    if (cost < kLeastStakeShare) continue;
    add(std::min(cost, most_at_stake(s->from)), s->from,
        fmt::format("up to {} times a cache line goes from one thread to another between it and "
                    "{}, {}",
                    short_count(s->count), other,
                    is_true ? "which has the same bytes: let each thread have its own, and put "
                              "them together at the end"
                            : "which has other bytes of it: put the two 64 bytes apart "
                              "(alignas(64))"));
  }
}

// What an access that nobody needs takes is no more than its instruction.
void LeadSearch::waste() {
  BestOfFunctions best;
  for (const profile::HotAccessPair& pair : lists_.waste) {
    if (pair.share - pair.share_error.value_or(0) < kMostlyShare) continue;
    // A dead store is the earlier one.
    const bool is_dead = pair.kind == profile::PairKind::dead_store;
    const profile::Place& at = is_dead && pair.from ? *pair.from : pair.to;
    if (share_of_cycles(pair.count, 1) < kLeastStakeShare) continue;
    const double cost = share_of_cycles(pair.count, cycles_of_instruction(function_of(at)));
    const double stake = std::min(cost, most_at_stake(at));
    if (stake < kLeastStakeShare) continue;
    join(best, {stake, at, wasted_by(pair, pair.from ? said(*pair.from) : "", said(pair.to))});
  }
  add_best(std::move(best));
}

}  // namespace shadowprof::report
