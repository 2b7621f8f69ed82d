// SPDX-License-Identifier: MIT
#include "sample/own_copy.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/pipe.h"

namespace shadowprof::sample {
namespace {

constexpr int kLowestPriority = 19;
constexpr double kMilliseconds_per_s = 1e3;
constexpr int kEndPatience_ms = 10'000;  // for a file system that is slow to let go of it

// A copy's child outlives the copy, which is waited for at once: so no report of it comes later,
// among those of the programs. It says who it is first.
[[noreturn]] void work_in_copy(int answer_to, const std::function<std::string()>& work) {
  if (::fork() != 0) ::_exit(0);
  const pid_t worker = ::getpid();
  if (::write(answer_to, &worker, sizeof worker) != sizeof worker) ::_exit(0);
  ::setpriority(PRIO_PROCESS, 0, kLowestPriority);
  const std::string answer = work();
  [[maybe_unused]] const ssize_t n = ::write(answer_to, answer.data(), answer.size());
  ::_exit(0);
}

}  // namespace

bool OwnCopy::start(collect::Pipeline& pipeline, const std::function<std::string()>& work) {
  Pipe answers;
  if (!answers.open()) return false;
  end_ = std::move(answers.reader);
  const pid_t copy = pipeline.fork_when_idle();
  if (copy == 0) work_in_copy(answers.writer.get(), work);
  int status = 0;
  while (copy > 0 && ::waitpid(copy, &status, 0) < 0 && errno == EINTR) {
  }
  answers.writer = UniqueFd();
  ssize_t said = 0;
  while (copy > 0 && (said = ::read(end_.get(), &worker_, sizeof worker_)) < 0 && errno == EINTR) {
  }
  const bool works = said == sizeof worker_;
  if (!works) end_ = UniqueFd();
  return works;
}

std::optional<std::string> OwnCopy::take_answer(double most_s) {
  if (!is_at_work()) return std::nullopt;
  pollfd wanted{end_.get(), POLLIN, 0};
  if (::poll(&wanted, 1, static_cast<int>(kMilliseconds_per_s * most_s)) <= 0) return std::nullopt;
  std::array<char, kLongestAnswer_bytes> text;
  const ssize_t n = ::read(end_.get(), text.data(), text.size());
  end_ = UniqueFd();
  return std::string(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
}

void OwnCopy::stop() {
  pollfd other_end{end_.get(), POLLIN, 0};
  // Who has answered, or has ended, is nobody to kill.
  if (is_at_work() && ::poll(&other_end, 1, 0) == 0) {
    ::kill(worker_, SIGKILL);
    ::poll(&other_end, 1, kEndPatience_ms);
  }
  end_ = UniqueFd();
}

}  // namespace shadowprof::sample
