// SPDX-License-Identifier: MIT
#include "base/reserved_array.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "../child_process.h"
#include "base/own_code.h"

namespace {

using shadowprof::OwnCode;
using shadowprof::ReservedArray;

constexpr size_t kMany = size_t{1} << 30;

// Kilobytes of a line of /proc/self/status.
uint64_t status_of(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stoull(line.substr(key.size() + 1));
  return 0;
}

// 0, or which of these is not so.
int use_array() {
  ReservedArray<uint64_t> array(kMany);
  for (uint64_t i = 0; i < 100'000; i++) array.push_back(i);
  array[kMany - 1] = 7;  // what is looked up at random need not be appended
  if (array.size() != 100'000 || array[99'999] != 99'999 || array[kMany - 1] != 7) return 1;
  const uint64_t resident = status_of("VmRSS");
  array.release();
  if (array.size() != 0 || array[99'999] != 0 || array[kMany - 1] != 0) return 2;
  return status_of("VmRSS") + 500 < resident ? 0 : 3;
}

}  // namespace

TEST_CASE("an array is reserved at its full size, and its memory given back") {
  CHECK(use_array() == 0);
}

TEST_CASE("an array can be reserved where private memory is limited") {
  const int status = shadowprof::test::exit_status_of([] {
    const rlim_t most = (status_of("VmData") << 10) + (rlim_t{64} << 20);
    const rlimit limit{most, most};
    return ::setrlimit(RLIMIT_DATA, &limit) == 0 ? use_array() : 4;
  });
  CHECK(status == 0);
}

TEST_CASE("code that is written at one place is executed at another") {
  auto code = OwnCode::create("test", 4096);
  REQUIRE(code);
  OwnCode owner = std::move(*code);
  REQUIRE(owner.size() == 4096);
  const uint8_t bytes[] = {0x8d, 0x47, 0x05, 0xc3};  // lea eax, [rdi + 5]; ret
  std::copy(std::begin(bytes), std::end(bytes), owner.writable());
  const auto add_five =
      reinterpret_cast<int (*)(int)>(reinterpret_cast<uint64_t>(owner.executable()));
  CHECK(add_five(37) == 42);
}
