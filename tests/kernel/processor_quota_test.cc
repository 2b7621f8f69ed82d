// SPDX-License-Identifier: MIT
#include "kernel/processor_quota.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace shadowprof::kernel {
namespace {

namespace fs = std::filesystem;

class Groups {
 public:
  Groups() {
    std::string name = (fs::temp_directory_path() / "shadowprof-groups-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~Groups() { fs::remove_all(root_); }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  void write(const std::string& file, const std::string& text) const {
    const fs::path path = root_ / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  bool bound(std::string_view groups) const { return has_processor_quota(groups, root_.string()); }

 private:
  fs::path root_;
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

TEST_CASE("what is not understood bounds nothing") {
  const Groups groups;
  for (const char* text : {"", "\n", "::", "0:", "x", "0::"}) CHECK_FALSE(groups.bound(text));
}

}  // namespace
}  // namespace shadowprof::kernel
