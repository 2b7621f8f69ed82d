// SPDX-License-Identifier: MIT
//
// Split DWARF: functions and inlined calls in .dwo files beside the program's objects.
#include "symbols/module_symbols.h"
#include "symbols/source_lines.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "../temporary_folder.h"
#include "tools.h"

namespace shadowprof {
namespace {

using symbols::ModuleSymbols;
using symbols_test::load;
using test::TemporaryFolder;

constexpr const char* kSource = R"(
#include <cstdio>
static inline int twice(int x) { return x * x + 3; }
static inline int both(int x) { return twice(x) ^ twice(x + 1); }
__attribute__((noinline)) int work(int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += both(i);
  return sum;
}
int main(int argc, char**) { std::printf("%d\n", work(argc + 10)); }
)";

// Empty, with a message, where no compiler can make it.
std::string build(const TemporaryFolder& folder, const std::string& name,
                  const std::string& options) {
  if (!symbols_test::have_tool("g++")) return "";
  symbols_test::write_file(folder / "split.cc", kSource);
  symbols_test::output_of("cd " + folder.path() + " && g++ -O2 -g " + options + " -c split.cc -o " +
                          name + ".o && g++ -g -o " + name + " " + name + ".o");
  return folder / name;
}

size_t most_frames(const ModuleSymbols& module) {
  size_t most = 0;
  for (const symbols::Symbol& f : module.functions()) {
    if (f.linkage_name.find("work") == std::string::npos) continue;
    for (uint64_t at = f.offset; at < f.offset + f.size; at++)
      most = std::max(most, module.lines(at).size());
  }
  return most;
}

TEST_CASE("split debug information gives the same frames as debug information in one piece") {
  const TemporaryFolder folder;
  const std::string one = build(folder, "one", "");
  if (one.empty()) return;
  const auto whole = load(one);
  const auto split = load(build(folder, "split", "-gsplit-dwarf"));
  CHECK(split->missing_lines().empty());
  CHECK(most_frames(*whole) >= 3);
  REQUIRE(whole->function_count() == split->function_count());
  for (const symbols::Symbol& f : whole->functions()) {
    for (uint64_t at = f.offset; at < f.offset + f.size; at++) {
      const auto a = whole->lines(at), b = split->lines(at);
      REQUIRE(a.size() == b.size());
      for (size_t i = 0; i < a.size(); i++) {
        CHECK(a[i].function == b[i].function);
        CHECK(a[i].line == b[i].line);
        CHECK(a[i].file == b[i].file);
      }
    }
  }
}

TEST_CASE("where the .dwo files are missing, lines are known and a sentence says what is not") {
  const TemporaryFolder folder;
  const std::string path = build(folder, "split", "-gsplit-dwarf");
  if (path.empty()) return;
  REQUIRE(::unlink((folder / "split.dwo").c_str()) == 0);
  const auto module = load(path);
  CHECK(most_frames(*module) == 1);
  CHECK(module->missing_lines() ==
        "inlined calls of 1 unit are not known: their .dwo files are not where they were made");
}

TEST_CASE("a package is read, or it is said that this library cannot") {
  const TemporaryFolder folder;
  // binutils' dwp knows packages of DWARF 4 only.
  const std::string path = build(folder, "split", "-gsplit-dwarf -gdwarf-4");
  if (path.empty() || !symbols_test::have_tool("dwp")) return;
  symbols_test::output_of("cd " + folder.path() + " && dwp -e split -o split.dwp && rm split.dwo");
  const auto module = load(path);
  if (most_frames(*module) > 1) {
    CHECK(module->missing_lines().empty());
    return;
  }
  CHECK(!symbols::debug_library().reads_packages);
  CHECK(module->missing_lines().find("split.dwp has them") != std::string::npos);
}

}  // namespace
}  // namespace shadowprof
