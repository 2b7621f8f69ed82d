// SPDX-License-Identifier: MIT
#include "symbols/perf_map.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <string>

#include "tools.h"

using shadowprof::GuestAddr;
using shadowprof::symbols::PerfMap;

namespace {

std::string name_at(const PerfMap& map, uint64_t address) {
  auto symbol = map.find(GuestAddr(address));
  return symbol ? symbol->name : "";
}

}  // namespace

TEST_CASE("perf map lines name ranges of absolute addresses") {
  PerfMap map = PerfMap::parse("7f0000001000 20 LazyCompile:~f /a b.js:1\n0x7f0000002000 0x10 g\n");
  CHECK(map.size() == 2);
  CHECK(name_at(map, 0x7f0000001000) == "LazyCompile:~f /a b.js:1");
  CHECK(name_at(map, 0x7f000000101f) == "LazyCompile:~f /a b.js:1");
  CHECK(name_at(map, 0x7f0000001020) == "");
  CHECK(name_at(map, 0x7f0000002005) == "g");
  CHECK(map.find(GuestAddr(0x7f0000002005))->offset == 0x7f0000002000);
}

TEST_CASE("code that replaced other code has the newer name") {
  PerfMap map = PerfMap::parse("1000 100 old\n1080 10 new\n");
  CHECK(name_at(map, 0x1010) == "old");
  CHECK(name_at(map, 0x1085) == "new");
  CHECK(name_at(map, 0x1090) == "old");
}

TEST_CASE("lines that are not of the format are skipped") {
  PerfMap map = PerfMap::parse(
      "nonsense\n\n1000\n1000 10\n1000 zz name\nffffffffffffffff 10 wraps\n"
      "11112222333344445555 10 huge\n2000 0 empty\n3000 10 last\r");
  CHECK(map.size() == 1);
  CHECK(name_at(map, 0x3000) == "last");
}

TEST_CASE("the map of a running process is found, unless somebody else wrote it") {
  std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  unlink(path.c_str());
  CHECK(PerfMap::load(getpid()).error().errno_value == ENOENT);

  symbols_test::write_file(path, "1000 10 generated\n");
  auto map = PerfMap::load(getpid());
  REQUIRE(map.has_value());
  CHECK(name_at(*map, 0x1008) == "generated");

  if (geteuid() == 0) {
    REQUIRE(chown(path.c_str(), 12345, 12345) == 0);
    auto refused = PerfMap::load(getpid());
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.find("belongs to user 12345") != std::string::npos);
  }
  unlink(path.c_str());
  REQUIRE(symlink("/etc/hostname", path.c_str()) == 0);
  CHECK_FALSE(PerfMap::load(getpid()).has_value());
  unlink(path.c_str());
}
