// SPDX-License-Identifier: MIT
#include "kernel/control_groups.h"

#include <doctest/doctest.h>

#include "../temporary_folder.h"

namespace shadowprof::kernel {
namespace {

class Groups : public test::TemporaryFolder {
 public:
  bool bound(std::string_view groups) const { return has_processor_quota(groups, path()); }
  // Threads, or bytes, that it may still have; -1: any number.
  int64_t left(std::string_view groups) const { return left(thread_bound(groups, path())); }
  int64_t memory_left(std::string_view groups) const { return left(memory_bound(groups, path())); }

 private:
  static int64_t left(const std::optional<Bound>& bound) {
    return bound ? static_cast<int64_t>(bound->left()) : -1;
  }
};

TEST_CASE("a quota of the process's group, or of one that it is in, is found") {
  const Groups groups;
  groups.write("a/cpu.max", "max 100000\n");
  groups.write("a/b/c/cpu.max", "50000 100000\n");
  CHECK_FALSE(groups.bound("0::/a\n"));
  CHECK_FALSE(groups.bound("0::/a/b\n"));
  CHECK(groups.bound("0::/a/b/c\n"));
  CHECK(groups.bound("0::/a/b/c/d\n"));
  CHECK_FALSE(groups.bound("0::/../elsewhere\n"));
  CHECK_FALSE(groups.bound("0::/\n"));
}

TEST_CASE("so is one of the first version of control groups") {
  const Groups groups;
  groups.write("cpu,cpuacct/a/cpu.cfs_quota_us", "20000\n");
  groups.write("cpu/b/cpu.cfs_quota_us", "-1\n");
  groups.write("cpu/c/cpu.cfs_quota_us", "20000\n");
  CHECK(groups.bound("8:pids:/a\n5:cpu,cpuacct:/a/x\n0::/\n"));
  CHECK_FALSE(groups.bound("5:cpu:/b\n"));
  CHECK(groups.bound("5:cpuacct:/b\n4:cpu:/c\n"));
  CHECK_FALSE(groups.bound("5:cpuset:/c\n"));
}

TEST_CASE("the group that has the fewest threads left decides") {
  const Groups groups;
  groups.write("a/pids.max", "100\n");
  groups.write("a/pids.current", "90\n");
  groups.write("a/b/pids.max", "max\n");
  groups.write("a/b/pids.current", "20\n");
  groups.write("a/b/c/pids.max", "8\n");
  groups.write("a/b/c/pids.current", "9\n");
  groups.write("d/pids.max", "8\n");
  CHECK(groups.left("0::/a\n") == 10);
  CHECK(groups.left("0::/a/b\n") == 10);
  CHECK(groups.left("0::/a/b/c\n") == 0);
  CHECK(groups.left("0::/d\n") == -1);
  CHECK(groups.left("0::/\n") == -1);
  groups.write("pids/x/pids.max", "50\n");
  groups.write("pids/x/pids.current", "7\n");
  CHECK(groups.left("8:pids:/x/y\n0::/a\n") == 10);
  CHECK(groups.left("8:pids:/x/y\n0::/\n") == 43);
  CHECK(groups.left("8:cpu:/x\n") == -1);
}

TEST_CASE("memory that is left, without files that were not used of late") {
  const Groups groups;
  groups.write("a/memory.max", "1000\n");
  groups.write("a/memory.current", "900\n");
  groups.write("a/b/memory.max", "max\n");
  groups.write("a/b/memory.current", "100\n");
  CHECK(groups.memory_left("0::/a/b\n") == 100);
  groups.write("a/memory.stat", "anon 300\ninactive_file 250\nactive_file 350\n");
  CHECK(groups.memory_left("0::/a/b\n") == 350);
  CHECK(groups.memory_left("0::/c\n") == -1);
  groups.write("memory/x/memory.limit_in_bytes", "500\n");
  groups.write("memory/x/memory.usage_in_bytes", "600\n");
  CHECK(groups.memory_left("8:memory:/x\n0::/\n") == 0);
}

TEST_CASE("what is not understood bounds nothing") {
  const Groups groups;
  for (const char* text : {"", "\n", "::", "0:", "x", "0::"}) {
    CHECK_FALSE(groups.bound(text));
    CHECK(groups.left(text) == -1);
  }
}

}  // namespace
}  // namespace shadowprof::kernel
