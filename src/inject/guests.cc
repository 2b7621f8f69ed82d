// SPDX-License-Identifier: MIT
#include "inject/guests.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/proc.h"

namespace shadowprof::inject {

GuestThread* Guests::find(Tid tid) const {
  const auto it = threads.find(tid);
  return it == threads.end() ? nullptr : it->second.get();
}

std::vector<GuestThread*> Guests::threads_of(const GuestProcess& process) const {
  std::vector<GuestThread*> its;
  for (const auto& [tid, t] : threads)
    if (t->process == &process) its.push_back(t.get());
  return its;
}

bool Guests::has_threads(const GuestProcess& process) const {
  return std::ranges::any_of(threads,
                             [&](const auto& entry) { return entry.second->process == &process; });
}

bool Guests::is_executing(const GuestProcess& process) const {
  return std::ranges::any_of(threads, [&](const auto& entry) {
    return entry.second->process == &process && entry.second->executing;
  });
}

Tid Guests::thread_of(const GuestProcess& process, int id) const {
  for (const auto& [tid, t] : threads) {
    if (t->process != &process) continue;
    const auto status = kernel::read_status(tid);
    if (status && status->innermost_pid.value == id) return tid;
  }
  return {};
}

std::string Guests::describe() const {
  std::string text;
  for (const auto& [tid, t] : threads) {
    ptrace::Registers regs{};
    const bool stopped = t->tracee.get_registers_if_alive(regs);
    text += fmt::format(
        "  thread {}: {} context{}\n", tid.value, t->in_engine ? "engine" : "guest",
        stopped ? fmt::format(", rip {:#x} rsp {:#x} r15 {:#x}", +regs.rip, +regs.rsp, +regs.r15)
                : ", running");
  }
  return text;
}

}  // namespace shadowprof::inject
