// SPDX-License-Identifier: MIT
#include "kernel/file_leases.h"

#include <fcntl.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "../temporary_folder.h"
#include "base/unique_fd.h"

namespace shadowprof::kernel {
namespace {

TEST_CASE("leases are told from other locks") {
  CHECK(has_lease("pos:\t0\nino:\t131\nlock:\t1: LEASE  ACTIVE    WRITE 511 fe:01:131 0 EOF\n"));
  CHECK(has_lease("lock:\t1: LEASE  BREAKING  READ  511 00:1f:77 0 EOF"));
  CHECK(!has_lease("pos:\t0\nlock:\t1: POSIX  ADVISORY  WRITE 411 fe:01:131 0 EOF\n"));
  CHECK(!has_lease("pos:\t0\nname:\tLEASE\n"));
  CHECK(!has_lease(""));
}

TEST_CASE("a lease of our own is found") {
  const test::TemporaryFolder folder;
  const UniqueFd file(::open(folder.write("file", "x").c_str(), O_RDONLY | O_CLOEXEC));
  const Tid self(::getpid());
  CHECK(!has_lease(self, file.get()));
  if (::fcntl(file.get(), F_SETLEASE, F_WRLCK) != 0) return;  // not of this file system
  CHECK(has_lease(self, file.get()));
}

}  // namespace
}  // namespace shadowprof::kernel
