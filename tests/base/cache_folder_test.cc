// SPDX-License-Identifier: MIT
#include "base/cache_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <doctest/doctest.h>

#include "../temporary_folder.h"

using shadowprof::CacheFolder;
using shadowprof::test::TemporaryFolder;

namespace {

constexpr size_t kMost = 1000;

}  // namespace

TEST_CASE("what was written is read, and is its owner's alone") {
  const TemporaryFolder directory;
  const CacheFolder folder = CacheFolder::at(directory.path()).inside("inner");
  CHECK(!folder.read("file", kMost));
  const std::string bytes("a\0b\n", 4);
  folder.write("file", bytes);
  CHECK(folder.read("file", kMost) == bytes);
  folder.write("file", "");
  CHECK(folder.read("file", kMost) == "");
  struct stat info {};
  REQUIRE(::stat((directory / "inner/file").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  REQUIRE(::stat((directory / "inner").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  CHECK(directory.entries() == 1);
  folder.remove("file");
  CHECK(!folder.read("file", kMost));
}

TEST_CASE("a file that is too large, that others may write to, or that is a link is none") {
  const TemporaryFolder directory;
  const CacheFolder folder = CacheFolder::at(directory.path());
  folder.write("file", std::string(kMost + 1, 'x'));
  CHECK(!folder.read("file", kMost));
  folder.write("file", std::string(kMost, 'x'));
  CHECK(folder.read("file", kMost));
  std::filesystem::create_symlink("file", directory / "link");
  CHECK(!folder.read("link", kMost));
  ::chmod((directory / "file").c_str(), 0602);
  CHECK(!folder.read("file", kMost));
}

TEST_CASE("in no folder, or in one that others may write to, nothing is kept") {
  CacheFolder none;
  none.write("file", "x");
  none.remove("file");
  none.keep_latest(1, kMost);
  CHECK(!none.read("file", kMost));
  CHECK(!none.inside("inner").valid());
  const TemporaryFolder directory;
  ::chmod(directory.path().c_str(), 0777);
  CHECK(!CacheFolder::at(directory.path()).valid());
  CHECK(!CacheFolder::at("/proc/none").valid());
}

TEST_CASE("the files that were written last are kept") {
  const TemporaryFolder directory;
  const CacheFolder folder = CacheFolder::at(directory.path());
  using namespace std::chrono_literals;
  for (int i = 0; i < 5; i++) {
    const std::string name = std::to_string(i);
    folder.write(name, "x");
    const std::string path = directory / name;
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - 10s * i);
  }
  folder.keep_latest(3, kMost);
  CHECK(directory.entries() == 3);
  folder.keep_latest(3, 2);
  CHECK(directory.entries() == 2);
  CHECK(folder.read("0", kMost));
  CHECK(folder.read("1", kMost));
}

TEST_CASE("a body is read behind the head that it was written with, whole or not at all") {
  const TemporaryFolder directory;
  const CacheFolder folder = CacheFolder::at(directory.path());
  const std::string body("a\0b", 3);
  folder.write_body("file", "head\n", body);
  CHECK(folder.read_body("file", "head\n", kMost) == body);
  CHECK(!folder.read_body("file", "hand\n", kMost));
  CHECK(!folder.read_body("file", "head\n", 4));
  CHECK(!folder.read_body("none", "head\n", kMost));
  const std::string whole = folder.read("file", kMost).value();
  for (size_t at = 0; at < whole.size(); at++) {
    CAPTURE(at);
    folder.write("file", whole.substr(0, at));
    CHECK(!folder.read_body("file", "head\n", kMost));
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    folder.write("file", changed);
    CHECK(!folder.read_body("file", "head\n", kMost));
  }
  folder.write_body("file", "", "");
  CHECK(folder.read_body("file", "", kMost) == "");
}
