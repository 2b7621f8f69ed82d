// SPDX-License-Identifier: MIT
#include "report/time_stacks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "report/run_facts.h"

namespace shadowprof::report {
namespace {

using profile::CodeRef;
using profile::ContextRow;

// Shares of all time. A context with less is not divided among the lines of its function, or is not
// told from others: both would only make the list long.
constexpr double kWorthDividing = 1e-4;
constexpr double kWorthTelling = 1e-5;
// Ticks that a thread would have in a function if it were one of those that run it. It has none of
// so many by chance less often than once in a hundred times: that is taken for never.
constexpr double kTicksMissed = 5;

__extension__ using Wide = unsigned __int128;

uint64_t part(uint64_t whole, uint64_t share, uint64_t of) {
  return of == 0 ? 0 : static_cast<uint64_t>(static_cast<Wide>(whole) * share / of);
}

struct Time {
  uint64_t user_ns = 0;
  uint64_t kernel_ns = 0;
  uint64_t ns() const { return user_ns + kernel_ns; }
  void operator+=(const Time& other) {
    user_ns += other.user_ns;
    kernel_ns += other.kernel_ns;
  }
};

// What each part of a whole gets, such that all of them add up to it.
class Division {
 public:
  Division(Time whole, uint64_t shares) : whole_(whole), shares_(shares) {}
  Time next(uint64_t share) {
    before_ += share;
    const Time upto{part(whole_.user_ns, before_, shares_),
                    part(whole_.kernel_ns, before_, shares_)};
    const Time mine{upto.user_ns - given_.user_ns, upto.kernel_ns - given_.kernel_ns};
    given_ = upto;
    return mine;
  }

 private:
  Time whole_;
  uint64_t shares_;
  uint64_t before_ = 0;
  Time given_;
};

// Threads of one name do the same, except for the first thread of a process.
using ThreadGroup = std::pair<std::string, bool>;

ThreadGroup group_of(const profile::ThreadRow& thread) {
  return {thread.name, thread.tid == thread.process};
}

// How likely it is that a group of threads is ever in a context: 1 where nothing speaks against it.
class LikelyContexts {
 public:
  explicit LikelyContexts(const profile::Profile& profile) : profile_(profile) {
    for (const profile::TimeRow& row : profile.tables.time) {
      const ThreadGroup group = group_of(profile.threads[row.thread]);
      const uint64_t ns = row.user_ns + row.kernel_ns;
      all_ns_ += ns;
      group_ns_[group] += ns;
      const profile::Function* f = find_function(profile.functions, row.at);
      if (f != nullptr) function_ns_[f->at][group] += ns;
    }
  }

  const std::vector<double>& of(const ThreadGroup& group) {
    const auto [at, added] = likely_.try_emplace(group);
    if (!added) return at->second;
    const profile::ContextTable& contexts = profile_.tables.contexts;
    at->second.resize(contexts.size(), 1);
    for (size_t i = 0; i < contexts.size(); i++) {
      const uint32_t parent = contexts[i].parent;
      if (parent != profile::kNoContext) at->second[i] = at->second[parent];
      if (profile::is_code(contexts[i]))
        at->second[i] = std::min(at->second[i], likelihood(group, contexts[i].at));
    }
    return at->second;
  }

 private:
  // That it has no tick in the function by chance.
  double likelihood(const ThreadGroup& group, CodeRef function) const {
    const auto seen = function_ns_.find(function);
    if (seen == function_ns_.end() || seen->second.contains(group)) return 1;
    uint64_t elsewhere_ns = 0;
    for (const auto& [other, ns] : seen->second) elsewhere_ns += ns;
    if (all_ns_ == 0) return 1;
    const double ticks = static_cast<double>(profile_.time.ticks) *
                         static_cast<double>(elsewhere_ns) / static_cast<double>(all_ns_);
    const double share = static_cast<double>(group_ns_.at(group)) / static_cast<double>(all_ns_);
    const double missed = ticks * share;
    return missed < kTicksMissed ? std::exp(-missed) : 0;
  }

  const profile::Profile& profile_;
  std::map<ThreadGroup, uint64_t> group_ns_;
  std::map<CodeRef, std::map<ThreadGroup, uint64_t>> function_ns_;
  std::map<ThreadGroup, std::vector<double>> likely_;
  uint64_t all_ns_ = 0;
};

// A thread's time in a function, by the chains of inlined calls there.
struct InFunction {
  struct Chain {
    CodeRef at;
    Time time;
  };
  std::map<std::vector<StackFrame>, Chain> chains;
  Time time;
};

class Collector {
 public:
  Collector(const profile::Profile& profile, const symbols::ModuleSet& modules)
      : profile_(profile), modules_(modules), likely_(profile) {
    const profile::ContextTable& contexts = profile.tables.contexts;
    for (uint32_t i = 0; i < contexts.size(); i++)
      if (profile::is_code(contexts[i]) && contexts[i].self != 0)
        contexts_[contexts[i].at].push_back(i);
  }

  std::vector<ThreadStack> collect() {
    add_rows();
    for (const auto& [key, in] : functions_) {
      const auto& [thread, function] = key;
      const auto contexts = contexts_.find(function);
      if (contexts == contexts_.end()) {
        add_chains(thread, {}, in, in.time);
        continue;
      }
      const std::vector<Share> shares = shares_of(thread, contexts->second);
      if (shares.empty())
        add_chains(thread, {caller_of_kind(profile::ContextKind::unknown)}, in, in.time);
      else
        divide(thread, function, in, shares);
    }
    return std::move(result_);
  }

 private:
  void add_rows() {
    std::optional<CodeRef> last;
    std::vector<StackFrame> frames;
    const profile::Function* f = nullptr;
    for (const profile::TimeRow& row : profile_.tables.time) {
      if (last != row.at) {
        f = find_function(profile_.functions, row.at);
        frames = frames_at(profile_, modules_, f, row.at);
        last = row.at;
      }
      const Time time{row.user_ns, row.kernel_ns};
      all_ns_ += time.ns();
      InFunction& in = functions_[{row.thread, f == nullptr ? row.at : f->at}];
      in.time += time;
      in.chains.try_emplace(frames, InFunction::Chain{row.at, {}}).first->second.time += time;
    }
  }

  struct Share {
    uint32_t context = 0;
    uint64_t weight = 0;
  };

  // Without those that the thread cannot be in.
  std::vector<Share> shares_of(uint32_t thread, const std::vector<uint32_t>& contexts) {
    const std::vector<double>& likely = likely_.of(group_of(profile_.threads[thread]));
    std::vector<Share> kept;
    for (const uint32_t i : contexts) {
      const uint64_t self = profile_.tables.contexts[i].self;
      const auto weight = static_cast<uint64_t>(static_cast<double>(self) * likely[i]);
      if (weight != 0) kept.push_back({i, likely[i] == 1 ? self : weight});
    }
    return kept;
  }

  bool is_worth(double least, const Time& time) const {
    return static_cast<double>(time.ns()) >= least * static_cast<double>(all_ns_);
  }

  void divide(uint32_t thread, CodeRef function, const InFunction& in,
              const std::vector<Share>& shares) {
    uint64_t whole_weight = 0;
    for (const Share& share : shares) whole_weight += share.weight;
    Division by_context(in.time, whole_weight);
    const StackFrame whole =
        function_frame(profile_, find_function(profile_.functions, function), function);
    Time untold;
    for (const auto& [i, weight] : shares) {
      const Time time = by_context.next(weight);
      if (!is_worth(kWorthTelling, time))
        untold += time;
      else if (in.chains.size() == 1 || is_worth(kWorthDividing, time))
        add_chains(thread, callers_of(profile_, i), in, time);
      else
        add(thread, function, callers_of(profile_, i), {whole}, time);
    }
    add(thread, function, {caller_of_kind(profile::ContextKind::other)}, {whole}, untold);
  }

  void add_chains(uint32_t thread, const std::vector<Caller>& callers, const InFunction& in,
                  Time time) {
    Division user({time.user_ns, 0}, in.time.user_ns);
    Division kernel({0, time.kernel_ns}, in.time.kernel_ns);
    for (const auto& [frames, chain] : in.chains)
      add(thread, chain.at, callers, frames,
          {user.next(chain.time.user_ns).user_ns, kernel.next(chain.time.kernel_ns).kernel_ns});
  }

  void add(uint32_t thread, CodeRef at, const std::vector<Caller>& callers,
           const std::vector<StackFrame>& frames, const Time& time) {
    if (time.user_ns != 0) result_.push_back({thread, at, callers, frames, false, time.user_ns});
    if (time.kernel_ns != 0) result_.push_back({thread, at, callers, frames, true, time.kernel_ns});
  }

  const profile::Profile& profile_;
  const symbols::ModuleSet& modules_;
  LikelyContexts likely_;
  std::map<CodeRef, std::vector<uint32_t>> contexts_;  // by function
  std::map<std::pair<uint32_t, CodeRef>, InFunction> functions_;
  std::vector<ThreadStack> result_;
  uint64_t all_ns_ = 0;
};

bool is_before(const ThreadStack& a, const ThreadStack& b) {
  if (a.thread != b.thread) return a.thread < b.thread;
  const auto by_name = [](const Caller& x, const Caller& y) { return x.frame < y.frame; };
  if (std::ranges::lexicographical_compare(a.callers, b.callers, by_name)) return true;
  if (std::ranges::lexicographical_compare(b.callers, a.callers, by_name)) return false;
  return std::tie(a.frames, a.kernel) < std::tie(b.frames, b.kernel);
}

}  // namespace

std::vector<ThreadStack> time_stacks(const profile::Profile& profile,
                                     const symbols::ModuleSet& modules) {
  return Collector(profile, modules).collect();
}

StacksOfThreads stacks_of_threads(const profile::Profile& profile,
                                  const symbols::ModuleSet& modules) {
  StacksOfThreads result{time_stacks(profile, modules), profile.threads};
  if (result.stacks.empty()) {
    result.is_time = false;
    result.threads = {{profile.run.pid, profile.run.pid, program_name(profile.run)}};
    for (Stack& s : stacks(profile, modules))
      result.stacks.push_back(
          {0, s.at, std::move(s.callers), std::move(s.frames), false, s.instructions});
  }
  for (size_t i = 0; i < result.threads.size(); i++) {
    profile::ThreadRow& thread = result.threads[i];
    if (thread.tid == 0) thread.tid = static_cast<int64_t>(i) + 1;
    if (thread.process == 0) thread.process = thread.tid;
  }
  std::ranges::stable_sort(result.stacks, is_before);
  return result;
}

}  // namespace shadowprof::report
