// SPDX-License-Identifier: MIT
#include "kernel/user_threads.h"

#include <sys/resource.h>

#include <fmt/format.h>

#include "kernel/proc.h"

namespace shadowprof::kernel {
namespace {

// So far from its bound a count need not be exact.
constexpr uint64_t kEnough = 64;

}  // namespace

uint64_t threads_of_user(uint32_t user, const std::string& processes) {
  const auto found = list_tasks(processes);
  if (!found) return 0;
  uint64_t threads = 0;
  for (const Tid process : *found) {
    // Not, if it has ended meanwhile.
    const auto status = read_status(fmt::format("{}/{}/status", processes, process.value));
    if (status && status->uids[0] == user) threads += status->threads;
  }
  return threads;
}

std::optional<Bound> user_thread_bound(Tid process) {
  rlimit limit{};
  if (::prlimit(process.value, RLIMIT_NPROC, nullptr, &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const auto status = read_status(process);
  if (!status || status->uids[0] == 0) return std::nullopt;
  const auto threads = read_machine_threads();
  if (threads && threads->all + kEnough < limit.rlim_cur)
    return Bound{limit.rlim_cur, threads->all};
  return Bound{limit.rlim_cur, threads_of_user(status->uids[0], "/proc")};
}

}  // namespace shadowprof::kernel
