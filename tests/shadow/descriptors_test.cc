// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "shadow/descriptors.h"
#include "twin.h"

namespace shadowprof::shadow {
namespace {

TEST_CASE("regular files are remembered with their offset, everything else by number") {
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  REQUIRE(::lseek(file.get(), 123, SEEK_SET) == 123);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  Descriptors descriptors = Descriptors::of(Tid(::getpid()));

  const OpenFile* known = descriptors.known(file.get());
  REQUIRE(known);
  CHECK(known->offset == 123);
  CHECK_FALSE(known->directory);
  CHECK_FALSE(descriptors.known(reader.get()));
  // The replica has none of them.
  CHECK(descriptors.is_missing(file.get()));
  CHECK(descriptors.is_missing(writer.get()));
  CHECK_FALSE(descriptors.find(file.get()));
}

TEST_CASE("a new descriptor gets the number that it would have in the program") {
  const Twin twin;
  Descriptors descriptors = Descriptors::of(twin.tid());
  const UniqueFd next(::open("/", O_RDONLY | O_CLOEXEC));
  CHECK(descriptors.lowest_free() == next.get());
  descriptors.opened(next.get(), nullptr);
  CHECK(descriptors.lowest_free() > next.get());
  CHECK_FALSE(descriptors.is_missing(next.get()));
  descriptors.closed(0);
  CHECK(descriptors.lowest_free() == 0);
}

TEST_CASE("duplicates share the offset") {
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  Descriptors descriptors = Descriptors::of(Tid(::getpid()));
  const int copy = descriptors.lowest_free();
  descriptors.duplicated(file.get(), copy);
  descriptors.known(file.get())->offset = 77;
  CHECK(descriptors.find(copy)->offset == 77);
}

}  // namespace
}  // namespace shadowprof::shadow
