// SPDX-License-Identifier: MIT
#include "base/short_memory.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <string>
#include <thread>
#include <vector>

using namespace shadowprof;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kHasLimits = false;
#elif defined(__has_feature)
constexpr bool kHasLimits = !__has_feature(address_sanitizer);
#else
constexpr bool kHasLimits = true;
#endif

// Takes all memory there is; whether it was told before the end.
void take_everything() {
  constexpr size_t kPart = size_t{1} << 20;
  constexpr int kMost = 4096;
  prepare_for_short_memory();
  const rlimit little{size_t{256} << 20, size_t{256} << 20};
  ::setrlimit(RLIMIT_AS, &little);
  int after_warning = 0;
  try {
    for (int i = 0; i < kMost; i++) {
      (void)map_pages(kPart);
      after_warning += memory_is_short();
    }
  } catch (const std::bad_alloc&) {
    ::_exit(after_warning > 8 ? 0 : 1);
  }
  ::_exit(2);
}

int status_of(void (*work)()) {
  const pid_t child = ::fork();
  if (child == 0) work();
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

// AddressSanitizer takes all address space for itself.
TEST_CASE("who gets no more memory is told while there still is some" *
          doctest::skip(!kHasLimits)) {
  CHECK(status_of(take_everything) == 0);
}

TEST_CASE("in a thread of ours no memory is our own failure and no crash" *
          doctest::skip(!kHasLimits)) {
  CHECK(status_of([] {
          prepare_for_short_memory();
          const rlimit little{size_t{256} << 20, size_t{256} << 20};
          std::thread greedy([&] {
            ::setrlimit(RLIMIT_AS, &little);
            std::vector<std::string> all;
            for (;;) all.emplace_back(size_t{1} << 20, 'x');
          });
          greedy.join();
        }) == 125);
}
