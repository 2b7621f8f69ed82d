// SPDX-License-Identifier: MIT
//
// In children of the test, since a hard limit that was lowered stays low.
#include <doctest/doctest.h>
#include <unistd.h>

#include "../child_process.h"
#include "sample/host.h"

namespace shadowprof {
namespace {

rlim_t soft_limit(int resource) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  return limit.rlim_cur;
}

TEST_CASE("limits are raised for us and given to the program as they were") {
  const int status = test::exit_status_of([] {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < 64) return 0;
    files.rlim_cur = 40;
    ::setrlimit(RLIMIT_NOFILE, &files);
    const auto limits = sample::InheritedLimits::raise();
    if (!limits) return 1;
    if (soft_limit(RLIMIT_NOFILE) != files.rlim_max) return 2;
    limits->give_to(Tid(::getpid()));
    return soft_limit(RLIMIT_NOFILE) == 40 ? 0 : 3;
  });
  CHECK(status == 0);
}

TEST_CASE("a hard limit that is too low is said, and nothing is changed") {
  const int status = test::exit_status_of([] {
    const rlim_t files_before = soft_limit(RLIMIT_NOFILE);
    const rlimit small{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const auto limits = sample::InheritedLimits::raise();
    if (limits) return 1;
    if (limits.error().message.find("ulimit -f") == std::string::npos) return 2;
    if (limits.error().errno_value != 0) return 3;
    return soft_limit(RLIMIT_NOFILE) == files_before ? 0 : 4;
  });
  CHECK(status == 0);
}

}  // namespace
}  // namespace shadowprof
