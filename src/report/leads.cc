// SPDX-License-Identifier: MIT
#include "report/leads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "profile/evidence.h"
#include "report/columns.h"

namespace shadowprof::report {
namespace {

using profile::Place;
using profile::Profile;

constexpr double kMostlyShare = 0.9;  // "mostly", of values, arguments and targets
// Assumed cycles: a division in the middle of its widths, and a call through a pointer that is
// predicted well.
constexpr double kDivision_cycles = 18;
constexpr double kPointerCall_cycles = 3;
// And a line that comes from another core. A line that came so often goes to and fro; what is
// handed over once or twice is how threads work together.
constexpr double kHandOver_cycles = 100;
constexpr uint64_t kToAndFro_times = 20;
// A function whose instructions take so many cycles in the mean, and so many times the program's,
// waits for something.
constexpr double kWaits_cycles = 4;
constexpr double kSlowRatio = 1.5;
// The kernel's time for a function counts from so much of the program's and so much of the
// function's on: ticks hit the kernel in any code where it takes the processor away for others.
constexpr double kKernelShare = 0.1;
constexpr double kKernelPart = 1.0 / 3;
constexpr double kWaitingShare = 0.3;
// What runs four instructions in a cycle waits for nothing.
constexpr double kUnhindered_cycles = 0.25;
// A function that is called so often in each call of another, beyond the chance by which few calls
// were seen, is called in a loop.
constexpr double kInLoop_calls = 8;
// Who goes through many things is called this often for each of them: else it is a loop over all
// that there is to do, not a search that is begun again and again.
constexpr double kBegunAgain = 10;
constexpr uint64_t kFewCalls = 3;
constexpr uint64_t kManyCalls = 100;  // of a function whose helpers count as part of it
constexpr double kLoopStake = 0.1;
constexpr double kOnce = 0.1;  // calls of a helper for each of its caller's are 1 +- that
// In cycles, for a host on which nobody has measured them: L1, L2, L3, memory.
constexpr std::array<double, 4> kUsualLatencies = {4, 12, 40, 250};

constexpr size_t kPlaceColumns = 60;
constexpr int kMostCallers = 8;  // that calls are followed through, up or down

using FunctionKey = std::pair<std::string, uint64_t>;

// What calls from one place pass.
struct Passed {
  const profile::HotMethod* callee = nullptr;
  const profile::HotArgument* argument = nullptr;
  double stake = 0;
};

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

class Search {
 public:
  explicit Search(const Profile& profile) : profile_(profile) {
    const profile::Coverage& c = profile.coverage;
    if (c.estimated && c.instructions_profiled != 0)
      scale_ =
          static_cast<double>(c.instructions_total) / static_cast<double>(c.instructions_profiled);
    const profile::ProcessorTime& time = profile.time;
    if (time.is_known()) {
      all_cycles_ = time.seconds() * time.cycles_per_s;
    } else {
      all_cycles_ = static_cast<double>(c.instructions_total);
      for (const profile::HotLoad& load : profile.hotlists.load_latency)
        all_cycles_ += scale_ * load.lost_cycles;
    }
    for (const profile::HotMethod& m : profile.hotlists.methods)
      functions_[{m.at.module, m.at.offset}] = &m;
    for (const profile::HotCallPair& pair : profile.hotlists.call_pairs) {
      const auto callee = functions_.find({pair.callee.module, pair.callee.offset});
      if (callee != functions_.end()) calls_of_[callee->second].push_back(&pair);
    }
  }

  std::vector<Lead> all() {
    if (all_cycles_ <= 0) return {};
    loads();
    arguments();
    values();
    pointer_calls();
    calls_in_loops();
    slow_functions();
    sharing();
    if (profile_.time.is_known()) {
      kernel();
      waiting();
    }
    return std::move(leads_);
  }

 private:
  double share_of_cycles(double count, double cycles) const {
    return scale_ * count * cycles / all_cycles_;
  }
  // By time where it is known.
  double share_of(const profile::HotMethod& m) const {
    return profile_.time.is_known() ? m.time.share : m.self_share;
  }
  bool is_certain(const profile::HotMethod& m) const {
    return profile_.time.is_known() ? profile::is_certain(m.time.share, m.time.error)
                                    : profile::is_certain(m.self_share, m.self_share_error);
  }
  // That has the place; the hotlist's functions only.
  const profile::HotMethod* function_of(const Place& at) const {
    auto next = functions_.upper_bound({at.module, at.offset});
    if (next == functions_.begin()) return nullptr;
    const profile::HotMethod* m = std::prev(next)->second;
    const bool same = m->at.module == at.module && m->at.function == at.function;
    return same && !at.function.empty() ? m : nullptr;
  }
  double instructions_of(const profile::HotMethod& m) const {
    return m.self_share * static_cast<double>(profile_.coverage.instructions_total);
  }
  // Cycles that one of its instructions takes, but no more than a cycle.
  double cycles_of_instruction(const profile::HotMethod* m) const {
    if (m == nullptr || !profile_.time.is_known() || instructions_of(*m) <= 0) return 1;
    return std::min(1.0, m->time.share * all_cycles_ / instructions_of(*m));
  }
  double time_to_wait_of(const profile::HotMethod& m) const;
  double most_at_stake(const Place& at) const;
  double share_with_helpers(const profile::HotMethod& m, int deep = kMostCallers) const;
  std::optional<Passed> passed_by(const profile::HotArgument& a) const;
  const profile::HotCallPair* main_call_of(const profile::HotMethod& m) const;
  std::string called_from(const profile::HotMethod* m) const;
  void add(double stake, std::optional<Place> at, std::string text) {
    if (stake >= kLeastStakeShare) leads_.push_back({stake, std::move(at), std::move(text)});
  }

  void loads();
  void arguments();
  void values();
  void pointer_calls();
  void calls_in_loops();
  void slow_functions();
  void sharing();
  void kernel();
  void waiting();

  const Profile& profile_;
  double scale_ = 1;  // executions for each one that was recorded
  double all_cycles_ = 0;
  std::map<FunctionKey, const profile::HotMethod*> functions_;
  std::map<const profile::HotMethod*, std::vector<const profile::HotCallPair*>> calls_of_;
  std::map<const profile::HotMethod*, double> explained_;  // by loads: of the program's time
  std::vector<Lead> leads_;
};

// The share of the program's time in which a function did not execute as fast as it can: what its
// loads may have cost at most, since natively the next instructions go on where they can.
double Search::time_to_wait_of(const profile::HotMethod& m) const {
  if (!profile_.time.is_known()) return 1;
  return std::max(0.0, m.time.share - kUnhindered_cycles * instructions_of(m) / all_cycles_);
}

// What is lost in a function is no more than its time. Samples are few, and may be of a phase that
// was soon over: the clock has seen all of the program. 1 where it does not tell.
double Search::most_at_stake(const Place& at) const {
  if (!profile_.time.is_known()) return 1;
  if (const profile::HotMethod* m = function_of(at)) return m->time.share;
  for (uint32_t module = 0; module < profile_.modules.size(); module++) {
    if (profile_.modules[module].path != at.module) continue;
    const profile::Function* f = find_function(profile_.functions, {module, at.offset});
    if (f == nullptr || f->name != at.function) continue;
    return static_cast<double>(f->user_ns) / (1e9 * profile_.time.seconds());
  }
  return 1;
}

// With the time of functions that only it calls, once in each of its calls: they do its work.
double Search::share_with_helpers(const profile::HotMethod& m, int deep) const {
  double share = share_of(m);
  if (m.invocations < kManyCalls || deep == 0) return share;
  for (const auto& [callee, pairs] : calls_of_) {
    if (callee == &m || pairs.size() != 1 || function_of(pairs[0]->site) != &m) continue;
    const double each = static_cast<double>(pairs[0]->count) / static_cast<double>(m.invocations);
    if (std::abs(each - 1) <= kOnce) share += share_with_helpers(*callee, deep - 1);
  }
  return share;
}

// From where nearly all of its calls come, if there is such a place.
const profile::HotCallPair* Search::main_call_of(const profile::HotMethod& m) const {
  const auto found = calls_of_.find(&m);
  if (found == calls_of_.end()) return nullptr;
  const profile::HotCallPair* most = nullptr;
  uint64_t all = 0;
  for (const profile::HotCallPair* pair : found->second) {
    all += pair->count;
    if (most == nullptr || pair->count > most->count) most = pair;
  }
  return static_cast<double>(most->count) >= kMostlyShare * static_cast<double>(all) ? most
                                                                                     : nullptr;
}

// "called from main app.c:5, " for a function of a library: who reads it can change the place that
// it is used at, not the function.
std::string Search::called_from(const profile::HotMethod* m) const {
  const std::string module = m == nullptr ? "" : m->at.module;
  for (int i = 0; m != nullptr && i < kMostCallers; i++) {
    const profile::HotCallPair* call = main_call_of(*m);
    if (call == nullptr) return "";
    if (call->site.module != module)
      return fmt::format("called from {}, ", point(call->site, kPlaceColumns));
    m = function_of(call->site);
  }
  return "";
}

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

std::string remedy(const profile::HotLoad& load, const Lost& lost) {
  if (lost.memory < lost.l3) return "make what it works on smaller, or work on less at a time";
  if (load.stride != 0) return fmt::format("its addresses are {} apart: prefetch", load.stride);
  return "put what is used together into one line, or prefetch";
}

// Those of one function share the time that it can have waited.
void Search::loads() {
  profile::LatencyCalibration host;
  host.typical = kUsualLatencies;
  host = profile_.run.host.latency.value_or(host);
  std::vector<std::pair<const profile::HotLoad*, Lost>> slow;
  std::map<const profile::HotMethod*, double> wanted;
  for (const profile::HotLoad& load : profile_.hotlists.load_latency) {
    const double error = std::max(load.mean_error, load.cold_error);
    if (load.lost_cycles <= 0 || error > load.mean_cycles / 2) continue;
    const Lost lost = lost_by(load, host);
    if (lost.near > lost.l3 + lost.memory) continue;
    slow.emplace_back(&load, lost);
    wanted[function_of(load.at)] += scale_ * load.lost_cycles / all_cycles_;
  }
  for (const auto& [load, lost] : slow) {
    double stake = scale_ * load->lost_cycles / all_cycles_;
    const profile::HotMethod* m = function_of(load->at);
    if (m != nullptr) stake *= std::min(1.0, time_to_wait_of(*m) / wanted[m]);
    stake = std::min(stake, most_at_stake(load->at));
    if (m != nullptr) explained_[m] += stake;
    add(stake, load->at,
        fmt::format("{}the load takes {:.0f} cycles: {} come from the L3 cache, {} from memory; {}",
                    called_from(m), load->mean_cycles, percent(load->classes[2]),
                    percent(load->classes[3]), remedy(*load, lost)));
  }
}

std::optional<Passed> Search::passed_by(const profile::HotArgument& a) const {
  if (a.is_address || a.advice.empty() || a.figures.values.empty()) return std::nullopt;
  const double lowest = a.figures.invariance - a.figures.invariance_error.value_or(0);
  const auto found = functions_.find({a.callee.module, a.callee.offset});
  if (lowest < kMostlyShare || found == functions_.end()) return std::nullopt;
  const profile::HotMethod& m = *found->second;
  if (m.invocations == 0 || !is_certain(m)) return std::nullopt;
  const double calls =
      std::min(1.0, static_cast<double>(a.figures.count) / static_cast<double>(m.invocations));
  return Passed{&m, &a, calls * a.figures.invariance * share_with_helpers(m)};
}

void Search::arguments() {
  std::map<std::pair<FunctionKey, const profile::HotMethod*>, size_t> places;
  std::vector<Passed> of_places;
  for (const profile::HotArgument& a : profile_.hotlists.arguments) {
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

// The best one for each function, with the number of the others: they mostly say the same.
void Search::values() {
  struct Best {
    Lead lead;
    size_t others = 0;
  };
  std::map<std::pair<std::string, std::string>, Best> best;
  for (const profile::HotValue& v : profile_.hotlists.values) {
    if (!v.semi_invariant || v.is_address || v.advice.empty() || v.figures.values.empty()) continue;
    const bool divides = v.disassembly.find("div") != std::string::npos;
    const profile::HotMethod* m = function_of(v.at);
    double stake = share_of_cycles(static_cast<double>(v.figures.count),
                                   divides ? kDivision_cycles : cycles_of_instruction(m));
    stake = std::min(stake, most_at_stake(v.at));
    if (stake < kLeastStakeShare) continue;
    Lead lead{stake, v.at,
              fmt::format("{} gives {} in {}; {}", printable(v.disassembly),
                          profile::value_text(v.type, v.figures.values[0].value),
                          percent(v.figures.invariance), printable(v.advice))};
    const auto [at, is_first] = best.try_emplace({v.at.module, v.at.function}, Best{lead});
    if (is_first) continue;
    at->second.others++;
    if (stake > at->second.lead.stake) at->second.lead = std::move(lead);
  }
  for (auto& [function, found] : best) {
    if (found.others != 0) found.lead.text += fmt::format(" ({} more in it)", found.others);
    leads_.push_back(std::move(found.lead));
  }
}

void Search::pointer_calls() {
  for (const profile::HotTargets& t : profile_.hotlists.targets) {
    if (t.kind != profile::EdgeKind::indirect_call || t.targets.empty()) continue;
    if (t.targets[0].share < kMostlyShare) continue;
    const double cost = share_of_cycles(static_cast<double>(t.count), kPointerCall_cycles);
    add(std::min(cost, most_at_stake(t.at)), t.at,
        fmt::format("the call through a pointer goes to {} in {}; call it directly, or test for "
                    "it first",
                    function_or_address(t.targets[0].to), percent(t.targets[0].share)));
  }
}

double with_two_digits(double figure) {
  const double step = std::pow(10, std::floor(std::log10(figure)) - 1);
  return std::round(figure / step) * step;
}

// What a function does again and again in each of its calls: a search through a list, one element
// at a time.
void Search::calls_in_loops() {
  for (const auto& [callee, pairs] : calls_of_) {
    if (callee->invocations == 0 || !is_certain(*callee)) continue;
    for (const profile::HotCallPair* pair : pairs) {
      const profile::HotMethod* caller = function_of(pair->site);
      if (caller == nullptr || caller == callee || caller->invocations < kFewCalls) continue;
      const double count = static_cast<double>(pair->count);
      const double seen = static_cast<double>(caller->invocations);
      const double each = count / seen;
      const double begun = scale_ * seen;
      if (count / (seen + 2 * std::sqrt(seen)) < kInLoop_calls || begun < kBegunAgain * each)
        continue;
      const double calls = std::min(1.0, count / static_cast<double>(callee->invocations));
      const double stake = calls * share_with_helpers(*callee);
      if (stake < kLoopStake) continue;
      add(stake, pair->site,
          fmt::format(
              "{} is called some {:.0f} times in each call of {}; look for a way that needs "
              "fewer, or let one call do more",
              function_or_address(callee->at), with_two_digits(each),
              function_or_address(caller->at)));
    }
  }
}

void Search::slow_functions() {
  const double usual = all_cycles_ / static_cast<double>(std::max<uint64_t>(
                                         1, profile_.coverage.instructions_total));
  for (const profile::HotMethod& m : profile_.hotlists.methods) {
    const double cycles = m.time.cycles_per_insn;
    if (cycles < std::max(kWaits_cycles, kSlowRatio * usual) || !is_certain(m) ||
        explained_[&m] > m.time.share / 2)
      continue;
    add(m.time.share, m.at,
        fmt::format("{}it has {} of the time with {} of the instructions: each takes {:.1f} "
                    "cycles, so it waits; look at its loads and divisions",
                    called_from(&m), percent(m.time.share), percent(m.self_share), cycles));
  }
}

// The pair with most stands for its line.
void Search::sharing() {
  std::map<std::pair<std::string, uint64_t>, const profile::HotSharing*> best;
  for (const profile::HotSharing& s : profile_.hotlists.sharing) {
    if (s.count < kToAndFro_times * s.lines) continue;
    const auto [at, is_first] = best.try_emplace({s.line.module, s.line.offset}, &s);
    if (!is_first && s.count > at->second->count) at->second = &s;
  }
  for (const auto& [line, s] : best) {
    const bool is_true = s->kind == profile::SharingKind::true_sharing;
    const bool is_same = s->to.module == s->from.module && s->to.offset == s->from.offset;
    const std::string other = is_same ? "itself in another thread" : point(s->to, kPlaceColumns);
    const double cost = share_of_cycles(static_cast<double>(s->count), kHandOver_cycles);
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

void Search::kernel() {
  const double all_s = profile_.time.seconds();
  for (const profile::HotMethod& m : profile_.hotlists.methods) {
    const double share = m.time.kernel_s / all_s;
    if (share < kKernelShare || share < kKernelPart * (share + m.time.share) ||
        !profile::is_certain(share, profile_.time.error_of(share)))
      continue;
    add(share, m.at,
        called_from(&m) +
            "the kernel works so much of the time for this function: system calls or page faults");
  }
}

void Search::waiting() {
  const profile::ProcessorTime& time = profile_.time;
  const double duration_s = profile_.run.duration_s;
  if (duration_s <= 0) return;
  const double queued = time.queued_s / duration_s;
  // While other threads work it waits for them: that is theirs.
  const double nobody_works = 1 - (time.user_s + time.kernel_s) / duration_s;
  const double other = std::min(time.waiting_s / duration_s - queued, nobody_works);
  if (queued >= kWaitingShare)
    add(queued, std::nullopt, "the first thread waits so long for a processor: others have them");
  if (other >= kWaitingShare)
    add(other, std::nullopt,
        "the first thread waits so long for input, a lock, or the end of a sleep");
}

}  // namespace

const char* unit_of_stakes(const Profile& profile) {
  return profile.time.is_known() ? "time" : "cycles";
}

std::string sentence_of(const Lead& lead, const Profile& profile) {
  return fmt::format("{} of the {} are at stake: {}{}", percent(lead.stake),
                     unit_of_stakes(profile), lead.at ? point(*lead.at, kPlaceColumns) + ": " : "",
                     lead.text);
}

std::vector<Lead> find_leads(const Profile& profile, size_t limit) {
  if (!profile::evidence_of(profile).enough) return {};
  std::vector<Lead> leads = Search(profile).all();
  std::ranges::stable_sort(leads, std::greater{}, &Lead::stake);
  if (leads.size() > limit) leads.resize(limit);
  return leads;
}

}  // namespace shadowprof::report
