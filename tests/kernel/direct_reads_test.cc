// SPDX-License-Identifier: MIT
#include "kernel/direct_reads.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "kernel/fdinfo.h"

namespace {

using namespace shadowprof;
using namespace shadowprof::kernel;

TEST_CASE("kernels that keep what is read directly are known by their version") {
  for (const char* old : {"6.1.0-18-amd64", "6.4.16", "5.15.0", "4.18.0-553.el8", "", "6", "x.y"})
    CHECK(forks_lose_direct_reads(old));
  for (const char* safe : {"6.5.0", "6.12.1-arch1", "6.18.0+", "7.0.0-rc1", "10.2"})
    CHECK_FALSE(forks_lose_direct_reads(safe));
}

TEST_CASE("a descriptor says whether it was opened for direct reads") {
  CHECK(is_opened_for_direct_reads("pos:\t0\nflags:\t0140002\nmnt_id:\t29\n"));
  CHECK_FALSE(is_opened_for_direct_reads("pos:\t0\nflags:\t0100002\nmnt_id:\t29\n"));
  CHECK_FALSE(is_opened_for_direct_reads("pos:\t0\n"));
  CHECK_FALSE(is_opened_for_direct_reads(""));
  char path[] = "/var/tmp/direct-XXXXXX";
  const UniqueFd made(::mkstemp(path));
  REQUIRE(made.valid());
  const UniqueFd direct(::open(path, O_RDONLY | O_DIRECT | O_CLOEXEC));
  ::unlink(path);
  CHECK_FALSE(is_opened_for_direct_reads(read_fdinfo(Tid(::getpid()), made.get())));
  if (direct.valid())  // not every file system has it
    CHECK(is_opened_for_direct_reads(read_fdinfo(Tid(::getpid()), direct.get())));
}

}  // namespace
