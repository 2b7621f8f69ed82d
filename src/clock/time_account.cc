// SPDX-License-Identifier: MIT
#include "clock/time_account.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <ranges>
#include <type_traits>
#include <utility>

namespace shadowprof::clock {
std::string TimeAccount::name_of(Tid process, Tid thread) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/comm", process.value, thread.value));
  std::string name;
  std::getline(file, name);
  return name;
}

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

uint64_t TimeAccount::equal_ticks() const {
  if (squares_s2_ <= 0) return 0;
  return static_cast<uint64_t>(std::llround(seconds_ * seconds_ / squares_s2_));
}

bool TimeAccount::knows(Tid process, GuestAddr at) const {
  const auto known = processes_.find(process);
  return known != processes_.end() && known->second.find(at);
}

void TimeAccount::look_at_name(Tid process, Tid thread) {
  std::string name = name_of(process, thread);
  if (!name.empty()) thread_of(process, thread).row.name = std::move(name);
}

void TimeAccount::scale_to(Tid process, double seconds) {
  const auto of_process = [&](const auto& entry) { return entry.first.first == process; };
  uint64_t sum = 0;
  for (const auto& entry : threads_ | std::views::filter(of_process))
    sum += entry.second.row.user_ns + entry.second.row.kernel_ns;
  if (sum == 0 || seconds <= 0) return;
  const double factor = 1e9 * seconds / static_cast<double>(sum);
  const auto scale = [&](uint64_t& ns) {
    ns = static_cast<uint64_t>(std::llround(factor * static_cast<double>(ns)));
  };
  for (auto& entry : threads_ | std::views::filter(of_process)) {
    Thread& thread = entry.second;
    scale(thread.row.user_ns);
    scale(thread.row.kernel_ns);
    for (auto& [at, spent] : thread.places) {
      scale(spent.user_ns);
      scale(spent.kernel_ns);
    }
  }
}

TimeAccount::Thread& TimeAccount::thread_of(Tid process, Tid thread) {
  Thread& found = threads_[{process, thread}];
  if (found.row.tid == 0) {
    found.row.tid = thread.value;
    found.row.process = process.value;
    found.row.name = name_of(process, thread);
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
          add(what);
        } else if constexpr (std::is_same_v<What, Mapped>) {
          process->second.add(what.mapping, modules_);
        } else {
          if (what.by_exec) process->second.clear();
          thread_of(what.process, what.thread).row.name = what.name;
        }
      },
      event.what);
}

void TimeAccount::add(const Tick& tick) {
  const auto ns = static_cast<uint64_t>(std::llround(weight_ * static_cast<double>(tick.ns)));
  ticks_++;
  seconds_ += 1e-9 * static_cast<double>(ns);
  squares_s2_ += 1e-18 * static_cast<double>(ns) * static_cast<double>(ns);
  Thread& thread = thread_of(tick.process, tick.thread);
  thread.row.ticks++;
  (tick.in_kernel ? thread.row.kernel_ns : thread.row.user_ns) += ns;
  const auto place = processes_[tick.process].find(tick.user);
  if (!place || (rows_ >= kMostRows && !thread.places.contains(*place))) return;
  const auto [at, is_new] = thread.places.try_emplace(*place);
  if (is_new) rows_++;
  (tick.in_kernel ? at->second.kernel_ns : at->second.user_ns) += ns;
}

void TimeAccount::finish(profile::Profile& profile) {
  std::vector<uint32_t> module_in_profile;
  for (const profile::Module& m : modules_)
    module_in_profile.push_back(profile::find_or_add_module(profile.modules, m));
  for (auto& [ids, thread] : threads_) {
    const auto index = static_cast<uint32_t>(profile.threads.size());
    profile.threads.push_back(std::move(thread.row));
    for (const auto& [at, spent] : thread.places)
      profile.tables.time.push_back(
          {{module_in_profile[at.module], at.offset}, index, spent.user_ns, spent.kernel_ns});
  }
  threads_.clear();
  profile::normalise(profile.tables);
}

}  // namespace shadowprof::clock
