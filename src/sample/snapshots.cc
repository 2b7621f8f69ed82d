// SPDX-License-Identifier: MIT
#include "sample/snapshots.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace shadowprof::sample {
namespace {

constexpr int kLowestPriority = 19;

std::string wanted_file;
double wanted_interval_s = 0;

// A copy's child outlives the copy, which is waited for at once: so no report of it comes later,
// among those of the programs.
[[noreturn]] void work_in_copy(const std::function<void()>& write) {
  if (::fork() != 0) ::_exit(0);
  ::setpriority(PRIO_PROCESS, 0, kLowestPriority);
  write();
  ::_exit(0);
}

}  // namespace

void Snapshots::ask_for(std::string file, double interval_s) {
  wanted_file = std::move(file);
  wanted_interval_s = interval_s;
}

const std::string& Snapshots::file() {
  return wanted_file;
}

bool Snapshots::is_due(double now) {
  if (wanted_interval_s <= 0) return false;
  if (next_s_ == 0) next_s_ = wanted_interval_s;
  if (now < next_s_) return false;
  if (!working_.valid()) return true;
  pollfd end{working_.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) != 0;
}

void Snapshots::take(double now, collect::Pipeline& pipeline, const std::function<void()>& write) {
  next_s_ = now + wanted_interval_s;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  working_ = UniqueFd(ends[0]);
  const UniqueFd held_by_copy(ends[1]);
  const pid_t copy = pipeline.fork_when_idle();
  if (copy == 0) work_in_copy(write);
  int status = 0;
  while (copy > 0 && ::waitpid(copy, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace shadowprof::sample
