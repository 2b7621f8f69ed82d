// SPDX-License-Identifier: MIT
#include "base/short_memory.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <new>
#include <string>
#include <thread>
#include <vector>

#include "../child_process.h"

using namespace shadowprof;
using test::exit_status_of;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kHasLimits = false;
#elif defined(__has_feature)
constexpr bool kHasLimits = !__has_feature(address_sanitizer);
#else
constexpr bool kHasLimits = true;
#endif

// Takes all memory there is. 0: it was told before the end.
int take_everything() {
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
    return after_warning > 8 ? 0 : 1;
  }
  return 2;
}

}  // namespace

// AddressSanitizer takes all address space for itself.
TEST_CASE("who gets no more memory is told while there still is some" *
          doctest::skip(!kHasLimits)) {
  CHECK(exit_status_of(take_everything) == 0);
}

TEST_CASE("in a thread of ours no memory is our own failure and no crash" *
          doctest::skip(!kHasLimits)) {
  CHECK(exit_status_of([] {
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
