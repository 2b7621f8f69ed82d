// SPDX-License-Identifier: MIT
#include "kernel/user_threads.h"

#include <sys/resource.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

#include "../temporary_folder.h"

namespace {

using namespace shadowprof;
using namespace shadowprof::kernel;

struct Processes : test::TemporaryFolder {
  void add(const std::string& name, uint32_t user, uint32_t effective, uint32_t threads) const {
    std::ostringstream status;
    status << "Name:\tsome\nState:\tS (sleeping)\nTgid:\t7\nPid:\t7\nPPid:\t1\nTracerPid:\t0\n";
    status << "Uid:\t" << user;
    for (int i = 0; i < 3; i++) status << '\t' << effective;
    status << "\nGid:\t0\t0\t0\t0\nThreads:\t" << threads << '\n';
    for (const char* set : {"SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"})
      status << set << ":\t0000000000000000\n";
    write(name + "/status", status.str());
  }
};

}  // namespace

TEST_CASE("threads of a user are those of his processes") {
  const Processes processes;
  processes.add("12", 1000, 1000, 3);
  processes.add("13", 0, 1000, 5);
  processes.add("140", 1000, 0, 1);
  processes.add("self", 1000, 1000, 9);
  std::filesystem::create_directory(processes / "99");  // has just ended
  CHECK(threads_of_user(1000, processes.path()) == 4);
  CHECK(threads_of_user(0, processes.path()) == 5);
  CHECK(threads_of_user(7, processes.path()) == 0);
}

TEST_CASE("we have a bound, or none as the superuser") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NPROC, &limit) == 0);
  const auto bound = user_thread_bound(Tid(::getpid()));
  if (::getuid() == 0 || limit.rlim_cur == RLIM_INFINITY) {
    CHECK(!bound);
  } else {
    REQUIRE(bound);
    CHECK(bound->most == limit.rlim_cur);
    CHECK(bound->present > 0);
  }
}
