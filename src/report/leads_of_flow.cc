// SPDX-License-Identifier: MIT
#include "report/lead_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/columns.h"

namespace shadowprof::report {
namespace {

// Assumed cycles: a call through a pointer that is predicted well, and a branch that is taken
// where the next instruction would have been there already.
constexpr double kPointerCall_cycles = 3;
constexpr double kTakenBranch_cycles = 0.5;
// A function whose instructions take so many cycles in the mean, and so many times the program's,
// waits for something.
constexpr double kWaits_cycles = 4;
constexpr double kSlowRatio = 1.5;
// The kernel's time for a function counts from so much of the program's and so much of the
// function's on: ticks hit the kernel in any code where it takes the processor away for others.
constexpr double kKernelShare = 0.1;
constexpr double kKernelPart = 1.0 / 3;
constexpr double kWaitingShare = 0.3;
// A function that is called so often in each call of another, beyond the chance by which few calls
// were seen, is called in a loop.
constexpr double kInLoop_calls = 8;
// Who goes through many things is called this often for each of them: else it is a loop over all
// that there is to do, not a search that is begun again and again.
constexpr double kBegunAgain = 10;
constexpr uint64_t kFewCalls = 3;
constexpr double kLoopStake = 0.1;

// Forwards in one function: what is skipped lies where the next instructions should. Backwards it
// is a loop. Of code without names one function is what is near.
bool skips_code(const profile::HotEdge& edge) {
  constexpr uint64_t kNear_bytes = 4096;
  return edge.kind == profile::EdgeKind::taken && edge.from.module == edge.to.module &&
         edge.from.function == edge.to.function && edge.to.offset > edge.from.offset &&
         (!edge.from.function.empty() || edge.to.offset - edge.from.offset < kNear_bytes);
}

double with_two_digits(double figure) {
  const double step = std::pow(10, std::floor(std::log10(figure)) - 1);
  return std::round(figure / step) * step;
}

}  // namespace

std::span<const profile::Edge> LeadSearch::edges_from(const profile::Place& branch) const {
  const auto from = code_.code_ref(branch);
  if (!from) return {};
  const profile::EdgeTable& edges = profile_.tables.edges;
  const auto begin = std::ranges::lower_bound(edges, *from, {}, &profile::Edge::from);
  const auto end = std::ranges::upper_bound(edges, *from, {}, &profile::Edge::from);
  return {begin, end};
}

// Noise does not explain how often it went where it goes. Edges of one place are met by the same
// samples, so their errors add up.
bool LeadSearch::is_certain_branch(const profile::Place& at) const {
  const profile::Confidence& confidence = profile_.confidence;
  if (confidence.exact || confidence.groups < 2) return true;
  double count = 0, error = 0;
  for (const profile::Edge& edge : edges_from(at)) {
    count += static_cast<double>(edge.count);
    error += static_cast<double>(edge.error);
  }
  return profile::critical_value(confidence.groups) * error <= count;
}

void LeadSearch::pointer_calls() {
  for (const profile::HotTargets& t : lists_.targets) {
    if (t.kind != profile::EdgeKind::indirect_call || t.targets.empty()) continue;
    if (!is_certain_branch(t.at)) continue;
    if (t.targets[0].share < kMostlyShare) continue;
    const double cost = share_of_cycles(t.count, kPointerCall_cycles);
    if (cost < kLeastStakeShare) continue;
    add(std::min(cost, most_at_stake(t.at)), t.at,
        fmt::format("the call through a pointer goes to {} in {}; call it directly, or test for "
                    "it first",
                    function_or_address(t.targets[0].to), percent(t.targets[0].share)));
  }
}

// How often a branch went on with what is next, which may not be among the hot edges.
uint64_t LeadSearch::times_not_taken(const profile::Place& branch) const {
  for (const profile::Edge& edge : edges_from(branch))
    if (edge.kind == profile::EdgeKind::not_taken) return edge.count;
  return 0;
}

void LeadSearch::branches() {
  BestOfFunctions best;
  for (const profile::HotEdge& edge : lists_.edges) {
    const double cost = share_of_cycles(edge.count, kTakenBranch_cycles);
    if (cost < kLeastStakeShare || !skips_code(edge) || !is_certain_branch(edge.from)) continue;
    const auto count = static_cast<double>(edge.count);
    const double share = count / (count + static_cast<double>(times_not_taken(edge.from)));
    const double stake = std::min(cost, most_at_stake(edge.from));
    if (share < kMostlyShare || stake < kLeastStakeShare) continue;
    join(best, {stake, edge.from,
                fmt::format("the branch skips what is next in {}; lay out what is likely first, by "
                            "[[likely]] or a profile (export --format llvm-sample, bolt)",
                            percent(share))});
  }
  add_best(std::move(best));
}

// What a function does again and again in each of its calls: a search through a list, one element
// at a time.
void LeadSearch::calls_in_loops() {
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

void LeadSearch::slow_functions() {
  const double usual = all_cycles_ / static_cast<double>(std::max<uint64_t>(
                                         1, profile_.coverage.instructions_total));
  for (const profile::HotMethod& m : lists_.methods) {
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

void LeadSearch::kernel() {
  const double all_s = profile_.time.seconds();
  for (const profile::HotMethod& m : lists_.methods) {
    const double share = m.time.kernel_s / all_s;
    if (share < kKernelShare || share < kKernelPart * (share + m.time.share) ||
        !profile::is_certain(share, profile_.time.error_of(share)))
      continue;
    add(share, m.at,
        called_from(&m) +
            "the kernel works so much of the time for this function: system calls or page faults");
  }
}

void LeadSearch::waiting() {
  const profile::ProcessorTime& time = profile_.time;
  const double duration_s = profile_.run.duration_s;
  if (duration_s <= 0) return;
  const double queued = time.queued_s / duration_s;  // for a processor: the host's doing
  // While other threads work, or want to, it waits for them: that is theirs.
  const double wanted_s = time.user_s + time.kernel_s + time.others_queued_s;
  const double nobody_works = 1 - wanted_s / duration_s;
  const double other = std::min(time.waiting_s / duration_s - queued, nobody_works);
  if (other >= kWaitingShare)
    add(other, std::nullopt,
        "the first thread waits so long for input, a lock, or the end of a sleep");
}

std::optional<std::string> told_of_busy_host(const profile::Profile& profile) {
  const double duration_s = profile.run.duration_s;
  if (!profile.time.is_known() || duration_s <= 0) return std::nullopt;
  const double queued = profile.time.queued_s / duration_s;
  if (queued >= kWaitingShare)
    return fmt::format("the host was busy: the first thread waited {} of the time for a processor",
                       percent(queued));
  if (profile.time.others_queued_s < kWaitingShare * duration_s) return std::nullopt;
  return fmt::format(
      "the host was busy: threads other than the first waited {:.1f} s for a processor",
      profile.time.others_queued_s);
}

}  // namespace shadowprof::report
