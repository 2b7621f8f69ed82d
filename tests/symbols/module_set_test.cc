// SPDX-License-Identifier: MIT
#include "symbols/module_set.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace shadowprof {
namespace {

using profile::Module;
using symbols::ModuleSet;
using symbols::ModuleSymbols;

Module own_program() {
  char path[4096] = {};
  REQUIRE(::readlink("/proc/self/exe", path, sizeof path - 1) > 0);
  struct stat info {};
  REQUIRE(::stat(path, &info) == 0);
  const auto symbols = ModuleSymbols::load({path, UniqueFd(), ""});
  REQUIRE(symbols.has_value());
  return {path, (*symbols)->build_id(), 0, info.st_ino, info.st_dev};
}

TEST_CASE("a file counts only if it is the one that ran") {
  const Module right = own_program();
  Module other_build = right;
  other_build.build_id = "00ff";
  Module other_file = right;
  other_file.build_id.clear();
  other_file.inode++;
  Module without_id = right;
  without_id.build_id.clear();
  const profile::ModuleTable modules = {right,
                                        other_build,
                                        other_file,
                                        without_id,
                                        {"", "", 0x1000, 0, 0},
                                        {"/nowhere", "", 0, 1, 1}};
  const ModuleSet set(modules);
  CHECK(set.find(0) != nullptr);
  CHECK(set.find(1) == nullptr);
  CHECK(set.open(1).error().message.find("its build-id is " + right.build_id) != std::string::npos);
  CHECK(set.find(2) == nullptr);
  CHECK(set.find(3) != nullptr);
  CHECK(set.open(4).error().message == "anonymous code has no file");
  CHECK(set.open(5).error().message == "cannot open /nowhere: No such file or directory");
}

TEST_CASE("code is read by offset, and absurd sizes are none") {
  const profile::ModuleTable modules = {own_program()};
  const ModuleSet set(modules);
  const auto head = set.code({0, 0}, 4);
  REQUIRE(head.size() == 4);
  CHECK(std::memcmp(head.data(),
                    "\x7f"
                    "ELF",
                    4) == 0);
  CHECK(set.code({0, 0}, 0xffffffff).empty());
  CHECK(set.code({0, UINT64_MAX}, 4).empty());
  CHECK(set.code({0, uint64_t{1} << 40}, 4).empty());
}

}  // namespace
}  // namespace shadowprof
