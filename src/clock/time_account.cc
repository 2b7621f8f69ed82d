// SPDX-License-Identifier: MIT
#include "clock/time_account.h"

#include <cmath>
#include <type_traits>
#include <utility>

namespace shadowprof::clock {

void TimeAccount::begin(Tid process) {
  processes_[process];
  read_maps(process);
  const auto threads = kernel::list_threads(process);
  if (!threads) return;
  for (const Tid thread : *threads) (void)thread_of(process, thread);
}

void TimeAccount::read_maps(Tid process) {
  const auto mappings = kernel::read_maps(process);
  if (!mappings) return;
  for (const kernel::Mapping& mapping : *mappings) processes_[process].add(mapping, modules_);
}

void TimeAccount::read_all_maps() {
  for (const auto& [process, map] : processes_) read_maps(process);
}

uint64_t TimeAccount::equal_ticks() const {
  double sum_s = 0, squares_s2 = 0;
  for (const auto& [ids, thread] : threads_) {
    sum_s += thread.seconds();
    squares_s2 += thread.squares_s2;
  }
  return squares_s2 > 0 ? static_cast<uint64_t>(std::llround(sum_s * sum_s / squares_s2)) : 0;
}

std::array<double, kCodeRegions> TimeAccount::equal_ticks_by_region() const {
  double sum_ns = 0;
  for (const uint64_t ns : user_ns_by_region_) sum_ns += static_cast<double>(ns);
  const double ticks_per_ns = sum_ns > 0 ? static_cast<double>(equal_ticks()) / sum_ns : 0;
  std::array<double, kCodeRegions> ticks{};
  for (size_t c = 0; c < kCodeRegions; c++)
    ticks[c] = ticks_per_ns * static_cast<double>(user_ns_by_region_[c]);
  return ticks;
}

bool TimeAccount::knows(Tid process, GuestAddr at) const {
  const auto known = processes_.find(process);
  return known != processes_.end() && known->second.find(at);
}

void TimeAccount::look_at_name(Tid process, Tid thread) {
  std::string name = kernel::thread_name(process, thread);
  if (!name.empty()) thread_of(process, thread).row.name = std::move(name);
}

void TimeAccount::Thread::scale(double factor) {
  Spent all{row.user_ns, row.kernel_ns};
  all.scale(factor);
  row.user_ns = all.user_ns;
  row.kernel_ns = all.kernel_ns;
  squares_s2 *= factor * factor;
  for (auto& [at, spent] : places) spent.scale(factor);
}

void TimeAccount::scale(std::pair<Tid, Tid> ids, double factor) {
  threads_[ids].scale(factor);
  course_.scale(ids, factor);
}

void TimeAccount::scale_to(Tid process, Tid thread, double seconds) {
  const auto found = threads_.find({process, thread});
  if (found == threads_.end() || found->second.seconds() <= 0 || seconds <= 0) return;
  scale(found->first, seconds / found->second.seconds());
}

void TimeAccount::scale_to(Tid process, double seconds) {
  double sum_s = 0;
  for (const auto& [ids, thread] : threads_) sum_s += ids.first == process ? thread.seconds() : 0;
  if (sum_s <= 0 || seconds <= 0) return;
  for (auto& [ids, thread] : threads_) {
    if (ids.first == process) scale(ids, seconds / sum_s);
  }
}

TimeAccount::Thread& TimeAccount::thread_of(Tid process, Tid thread) {
  Thread& found = threads_[{process, thread}];
  if (found.row.tid == 0) {
    found.row.tid = thread.value;
    found.row.process = process.value;
    found.row.name = kernel::thread_name(process, thread);
  }
  return found;
}

void TimeAccount::add(const ClockEvent& event) {
  std::visit(
      [&](const auto& what) {
        using What = std::decay_t<decltype(what)>;
        const auto process = processes_.find(what.process);
        if (process == processes_.end()) return;
        if constexpr (std::is_same_v<What, Tick>) {
          add(what, event.at_ns);
        } else if constexpr (std::is_same_v<What, Mapped>) {
          process->second.add(what.mapping, modules_);
        } else {
          if (what.by_exec) process->second.clear();
          thread_of(what.process, what.thread).row.name = what.name;
        }
      },
      event.what);
}

void TimeAccount::add(const Tick& tick, uint64_t at_ns) {
  const auto ns = static_cast<uint64_t>(std::llround(weight_ * static_cast<double>(tick.ns)));
  const Spent spent = tick.in_kernel ? Spent{0, ns} : Spent{ns, 0};
  ticks_++;
  Thread& thread = thread_of(tick.process, tick.thread);
  thread.row.ticks++;
  thread.squares_s2 += 1e-18 * static_cast<double>(ns) * static_cast<double>(ns);
  (tick.in_kernel ? thread.row.kernel_ns : thread.row.user_ns) += ns;
  if (!tick.in_kernel) user_ns_by_region_[code_region(tick.user)] += ns;
  const auto place = processes_[tick.process].find(tick.user);
  if (!place) return;
  course_.add(at_ns, {tick.process, tick.thread}, *place, spent);
  if (rows_ >= kMostRows && !thread.places.contains(*place)) return;
  const auto [at, is_new] = thread.places.try_emplace(*place);
  if (is_new) rows_++;
  at->second += spent;
}

void TimeAccount::finish(profile::Profile& profile) {
  std::vector<uint32_t> module_in_profile;
  for (const profile::Module& m : modules_)
    module_in_profile.push_back(profile::find_or_add_module(profile.modules, m));
  const auto in_profile = [&](profile::CodeRef at) {
    return profile::CodeRef{module_in_profile[at.module], at.offset};
  };
  std::map<std::pair<Tid, Tid>, uint32_t> index;
  for (auto& [ids, thread] : threads_) {
    index[ids] = static_cast<uint32_t>(profile.threads.size());
    profile.threads.push_back(std::move(thread.row));
    for (const auto& [at, spent] : thread.places)
      profile.tables.time.push_back({in_profile(at), index[ids], spent.user_ns, spent.kernel_ns});
  }
  threads_.clear();
  profile.time.slice_us = course_.slice_us();
  for (const auto& [key, spent] : course_.rows())
    profile.tables.course.push_back(
        {key.slice, index[key.thread], in_profile(key.place), spent.user_ns, spent.kernel_ns});
  if (course_.left_out() != 0) profile.coverage.events["course_left_out"] += course_.left_out();
  profile::normalise(profile.tables);
  profile::join_threads_by_id(profile);
}

}  // namespace shadowprof::clock
