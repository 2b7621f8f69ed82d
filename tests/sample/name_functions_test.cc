// SPDX-License-Identifier: MIT
#include "sample/name_functions.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "../temporary_folder.h"
#include "kernel/proc.h"

// Something in this very file to be found; C linkage, so that its name is plain.
extern "C" [[gnu::noinline]] int shadowprof_test_subject(int x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}

namespace shadowprof {
namespace {

struct Own {
  profile::Module module;
  uint64_t subject = 0;  // offset of shadowprof_test_subject in the file
};

Own own_module() {
  Own own;
  const uint64_t address = reinterpret_cast<uint64_t>(&shadowprof_test_subject);
  const auto mappings = kernel::read_maps(Tid(::getpid()));
  REQUIRE(mappings.has_value());
  for (const kernel::Mapping& m : *mappings) {
    if (!m.range.contains(GuestAddr(address))) continue;
    own.module = {m.path, "", m.range.start.value - m.offset, m.inode, m.dev_major};
    own.subject = address - own.module.address;
  }
  return own;
}

const trace::BlockTable no_files;  // were kept open

// Three executions of a block of five instructions at `offset` of each module.
profile::Profile profile_of(const std::vector<profile::Module>& modules, uint64_t offset) {
  profile::Profile p;
  p.modules = modules;
  for (uint32_t i = 0; i < modules.size(); i++) {
    p.tables.blocks.push_back({{i, offset}, 4, 5, 3});
    p.tables.entries.push_back({{i, offset}, 3, 15});
  }
  p.coverage.attributed = p.coverage.instructions_profiled = 15 * modules.size();
  p.coverage.instructions_total = p.coverage.instructions_profiled;
  return p;
}

TEST_CASE("what executed has its name, its place and its figures") {
  const Own own = own_module();
  profile::Profile p = profile_of({own.module}, own.subject);
  sample::name_functions(p, no_files, {.top = 10, .started = std::time(nullptr) + 1});
  REQUIRE(p.functions.size() == 1);
  CHECK(p.functions[0].name == "shadowprof_test_subject");
  CHECK(p.functions[0].at.offset == own.subject);
  CHECK(p.functions[0].self == 15);
  CHECK(p.functions[0].invocations == 3);
  REQUIRE(p.hotlists.methods.size() == 1);
  CHECK(p.hotlists.methods[0].at.function == "shadowprof_test_subject");
  CHECK(profile::check_consistency(p).has_value());
}

TEST_CASE("modules that did not execute are not opened") {
  const Own own = own_module();
  profile::Profile p = profile_of({own.module}, own.subject);
  p.tables = {};
  p.coverage = {};
  sample::name_functions(p, no_files, {.top = 10, .started = 0});
  CHECK(p.functions.empty());
  CHECK(p.modules[0].build_id.empty());
}

TEST_CASE("a file that is gone, or is another one now, gives no names and no error") {
  const Own own = own_module();
  const test::TemporaryFolder folder;
  const std::string copy = folder / "program";
  std::filesystem::copy_file(own.module.path, copy);

  profile::Module replaced = own.module;
  replaced.path = copy;  // another inode than the one that ran
  profile::Module gone = own.module;
  gone.path = "/nonexistent/program";
  profile::Module anonymous;
  profile::Module directory_module = own.module;
  directory_module.path = "/usr";

  profile::Profile p = profile_of({replaced, gone, anonymous, directory_module}, own.subject);
  sample::name_functions(p, no_files, {.top = 10, .started = 0});
  CHECK(p.functions.empty());
  REQUIRE(p.hotlists.methods.size() == 4);
  for (const profile::HotMethod& row : p.hotlists.methods)
    CHECK(row.at.function.starts_with("[unknown code of "));

  // The same copy, but older than the run: a file system that shows two numbers for one file.
  p = profile_of({replaced}, own.subject);
  sample::name_functions(p, no_files, {.top = 10, .started = std::time(nullptr) + 100});
  CHECK(p.functions.size() == 1);
}

TEST_CASE("a file that was kept open has names, whatever its path leads to now") {
  const Own own = own_module();
  profile::Module gone = own.module;
  gone.path = "/nonexistent/program";
  trace::Module kept;
  kept.path = gone.path;
  kept.inode = gone.inode;
  kept.device = gone.device;
  kept.file =
      std::make_shared<const UniqueFd>(::open(own.module.path.c_str(), O_RDONLY | O_CLOEXEC));
  trace::BlockTable code;
  code.add_module(kept);
  profile::Profile p = profile_of({gone}, own.subject);
  sample::name_functions(p, code, {.top = 10, .started = 0});
  REQUIRE(p.functions.size() == 1);
  CHECK(p.functions[0].name == "shadowprof_test_subject");
}

TEST_CASE("the vdso has names, and is one module wherever a process has it") {
  const auto mappings = kernel::read_maps(Tid(::getpid()));
  REQUIRE(mappings.has_value());
  const bool has_vdso = std::any_of(mappings->begin(), mappings->end(),
                                    [](const auto& m) { return m.path == "[vdso]"; });
  if (!has_vdso) return;
  profile::ModuleTable table;
  profile::Module here{"[vdso]", "", 0x7fff00001000, 0, 0};
  profile::Module there{"[vdso]", "", 0x7fff00009000, 0, 0};
  CHECK(profile::find_or_add_module(table, here) == profile::find_or_add_module(table, there));

  profile::Profile p;
  p.modules = table;
  for (uint64_t offset = 0; offset < 8192; offset += 16)
    p.tables.blocks.push_back({{0, offset}, 4, 1, 1});
  sample::name_functions(p, no_files, {.top = 10, .started = 0});
  CHECK(std::any_of(p.functions.begin(), p.functions.end(), [](const profile::Function& f) {
    return f.name.find("gettime") != std::string::npos;
  }));
}

}  // namespace
}  // namespace shadowprof
