// SPDX-License-Identifier: MIT
#include "base/numbered_entries.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <doctest/doctest.h>

#include "../temporary_folder.h"
#include "base/unique_fd.h"

using shadowprof::numbered_entries;
using shadowprof::UniqueFd;

TEST_CASE("only what is named by a number is listed, ascending") {
  const shadowprof::test::TemporaryFolder folder;
  for (const char* entry : {"4194304", "7", "0", "12a", "-3", "99999999999", " 1", "0x10", "self"})
    folder.write(entry, "");
  CHECK(numbered_entries(folder.path()) == std::vector<int>{0, 7, 4194304});
  std::filesystem::remove_all(folder.path());
  CHECK(!numbered_entries(folder.path()));
  CHECK(errno == ENOENT);
}

TEST_CASE("of our descriptors the one that reads the folder is left out") {
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto first = numbered_entries("/proc/self/fd");
  REQUIRE(first);
  CHECK(std::ranges::count(*first, file.get()) == 1);
  CHECK(std::ranges::all_of(*first, [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; }));
}
