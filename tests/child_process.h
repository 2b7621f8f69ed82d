// SPDX-License-Identifier: MIT
//
// Children of a test, which are forks of it and have its memory and descriptors.
//
// No child gets back into the test: it ends where its work does, without destructors. An exception
// out of the work aborts the child, and so does a REQUIRE that fails in it.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <type_traits>

#include "base/types.h"

namespace shadowprof::test {

// Ends this process with what the work returns, or with 0.
template <typename Work>
[[noreturn]] void work_and_exit(Work& work) noexcept {
  if constexpr (std::is_void_v<decltype(work())>) {
    work();
    ::_exit(0);
  } else {
    ::_exit(work());
  }
}

// The exit status of a child that does this work; 128 + N: signal N has ended it.
template <typename Work>
int exit_status_of(Work work) {
  const pid_t child = ::fork();
  if (child == 0) work_and_exit(work);
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A child that works beside the test. It is killed when the object ends, and is no zombie then. A
// test that traces it must not ask for its exit event, which would be taken for its end.
class ChildProcess {
 public:
  template <typename Work>
  explicit ChildProcess(Work work) : pid_(::fork()) {
    if (pid_ == 0) work_and_exit(work);
    REQUIRE(pid_ > 0);  // no destructor of -1, whose kill(2) is for every process there is
  }
  ~ChildProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Tid tid() const { return Tid(pid_); }
  // Until its work is done. It stays a zombie.
  void await_end() const {
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t pid_;
};

}  // namespace shadowprof::test
