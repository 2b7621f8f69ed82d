// SPDX-License-Identifier: MIT
#include "kernel/user_faults.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/unique_fd.h"

using namespace shadowprof;
using namespace shadowprof::kernel;

TEST_CASE("what a userfaultfd wants to be told is read of its fdinfo") {
  const auto told = parse_user_faults(
      "pos:\t0\nflags:\t02004000\npending:\t1\ntotal:\t1\n"
      "API:\taa:80000002:80000000000001ff\n");
  CHECK(told.value().any);
  CHECK(told->of_forks);
  CHECK_FALSE(parse_user_faults("API:\taa:8000000d:8000000000000003\n").value().of_forks);
  CHECK_FALSE(parse_user_faults("pos:\t0\neventfd-count: 0\n").has_value());
  CHECK_FALSE(parse_user_faults("API:\taa:").has_value());
  CHECK_FALSE(parse_user_faults("API:\taa:zz:1\n").has_value());
  CHECK_FALSE(parse_user_faults("").has_value());
}

TEST_CASE("userfaultfd descriptors of a process are found") {
  const Tid self(::getpid());
  CHECK_FALSE(read_user_faults(self).any);
  for (uint64_t feature : {uint64_t{0}, uint64_t{UFFD_FEATURE_EVENT_FORK}}) {
    const UniqueFd fd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC)));
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = feature;
    if (!fd.valid() || ::ioctl(fd.get(), UFFDIO_API, &api) != 0) {
      MESSAGE("skipped: no userfaultfd here");
      return;
    }
    CHECK(read_user_faults(self).any);
    CHECK(read_user_faults(self).of_forks == (feature != 0));
    CHECK(user_faults_of(self, fd.get()).any);
    CHECK_FALSE(user_faults_of(self, 0).any);
  }
  CHECK_FALSE(read_user_faults(self).any);
}
