// SPDX-License-Identifier: MIT
//
// Processes of plug-ins: what they are given and return, and what becomes of those that end. The
// plug-ins are those of tests/plugins, in the folder that PLUGINS names.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "plugin/keeper.h"
#include "plugin/plugin_process.h"
#include "plugin/plugins.h"

using namespace shadowprof;
using namespace shadowprof::plugin;

namespace {

std::string path_of(const std::string& name) {
  return std::string(std::getenv("PLUGINS")) + "/" + name + ".so";
}

class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() { ::unsetenv(name_); }

 private:
  const char* name_;
};

// Plug-ins, of which the first one runs. Keepers have the environment of when they were made.
struct Running {
  explicit Running(const std::string& name) : plugins(open_plugins({path_of(name)})) {
    REQUIRE_MESSAGE(plugins.has_value(), plugins.error().message);
    auto started = PluginProcess::start(plugins->keeper, plugins->all.front()->file);
    REQUIRE_MESSAGE(started.has_value(), started.error().message);
    process = std::move(*started);
  }

  bool give(shadowprof_record record, size_t count,
            PluginProcess::Patience patience = PluginProcess::kEndless) {
    for (size_t i = 0; i < count; i++) {
      shadowprof_record* const to = process->room(1, patience);
      if (to == nullptr) return false;
      *to = record;
    }
    return true;
  }
  // Until it has ended.
  std::string end_of() {
    while (give({SHADOWPROF_GAP, 0, 0, 0, 0}, 100)) process->send();
    return process->why_ended();
  }

  Result<Plugins> plugins;
  std::unique_ptr<PluginProcess> process;
};

std::string refusal(const std::string& does) {
  const Environment set("PLUGIN_DOES", does);
  const auto plugins = open_plugins({path_of("broken")});
  REQUIRE_FALSE(plugins.has_value());
  return plugins.error().message.substr(plugins.error().message.find(": ") + 2);
}

std::map<std::string, uint64_t> counts_of(const ReturnedTable& table) {
  std::map<std::string, uint64_t> counts;
  for (const ReturnedRow& row : table.rows)
    counts[row.cells[0].text + (row.cells[1].number ? std::to_string(row.cells[1].number) : "")] =
        row.weight;
  return counts;
}

}  // namespace

TEST_CASE("a plug-in says what it wants and what its table is") {
  const auto plugins = open_plugins({path_of("kinds")});
  REQUIRE(plugins.has_value());
  const Description& said = plugins->all.front()->description;
  CHECK(said.name == "kinds");
  CHECK(said.weight == "times");
  CHECK(plugins->want(SHADOWPROF_WANTS_VALUES));
  CHECK_FALSE(plugins->want(SHADOWPROF_WANTS_LATENCIES));
  REQUIRE(said.columns.size() == 2);
  CHECK(said.columns[0].name == "what");
  CHECK(said.columns[0].kind == SHADOWPROF_CELL_TEXT);
}

TEST_CASE("what is no plug-in is refused in one sentence") {
  CHECK(refusal("version") == "it has version 99 of the interface, and this is version 1");
  CHECK(refusal("wants") == "it wants records that there are none of (0x100000)");
  CHECK(refusal("name") == "the name of its table is not 1 to 32 letters, digits, - and _");
  CHECK(refusal("columns") == "its table does not have 1 to 8 columns");
  CHECK(refusal("null") == "shadowprof_collector() returns nothing");
  CHECK(refusal("nothing") == "its begin() returns nothing");
  CHECK(refusal("load-crash") == "it was ended by signal 11 (Segmentation fault)");
  CHECK(refusal("begin-exit") == "it ended itself, with status 3");
  CHECK(open_plugins({path_of("unrelated")}).error().message ==
        "plug-in " + path_of("unrelated") + ": it has no function shadowprof_collector");
  CHECK(open_plugins({"/dev/null"}).error().message == "plug-in /dev/null is not a file");
  CHECK(open_plugins({"/etc/passwd"}).error().message ==
        "plug-in /etc/passwd is not a shared object for x86-64");
  CHECK(open_plugins({"nowhere.so"}).error().message ==
        "cannot open plug-in nowhere.so: No such file or directory");
  CHECK(open_plugins({path_of("kinds"), path_of("kinds")}).error().message ==
        "two plug-ins have the name kinds");
  CHECK(open_plugins(std::vector<std::string>(9, path_of("kinds"))).error().message ==
        "there are 9 plug-ins, and 8 at most");
}

TEST_CASE("root loads no plug-in that somebody else can have written") {
  if (::geteuid() != 0) return;
  const std::string copy = std::filesystem::temp_directory_path() / "shadowprof-plugin-test.so";
  std::filesystem::copy_file(path_of("kinds"), copy,
                             std::filesystem::copy_options::overwrite_existing);
  ::unsetenv("SUDO_UID");
  REQUIRE(::chmod(copy.c_str(), 0664) == 0);
  CHECK(PluginFile::open(copy).error().message ==
        "as root, plug-in " + copy + " is not loaded: others than its owner may write to it");
  REQUIRE(::chmod(copy.c_str(), 0644) == 0);
  CHECK(PluginFile::open(copy).has_value());
  REQUIRE(::chown(copy.c_str(), 1234, 0) == 0);
  CHECK(PluginFile::open(copy).error().message ==
        "as root, plug-in " + copy + " is not loaded: it belongs to user 1234");
  const Environment sudo("SUDO_UID", "1234");
  CHECK(PluginFile::open(copy).has_value());
  std::filesystem::remove(copy);
}

TEST_CASE("all records arrive in order, and the table comes back, more than once") {
  Running running("kinds");
  PluginProcess& process = *running.process;
  const std::array<uint8_t, 3> code{0x90, 0x90, 0xc3};
  Place place{.head = {.address = 0x1000,
                       .kind = SHADOWPROF_PLACE_BLOCK,
                       .instructions = 3,
                       .function_number = 1},
              .code = code,
              .module = "/bin/app",
              .function = "main"};
  REQUIRE(process.add_place(place, PluginProcess::kEndless));
  place.head.number = 1;
  place.head.kind = SHADOWPROF_PLACE_INSTRUCTION;
  place.function = "read_at";
  place.head.function_number = 2;
  REQUIRE(process.add_place(place, PluginProcess::kEndless));
  constexpr size_t kMany = 1'000'000;  // several times what all batches hold
  CHECK(running.give({SHADOWPROF_BLOCK, 0, 3, 0, 0}, kMany));
  CHECK(running.give({SHADOWPROF_LOAD, 0, 8, 1, 0x2000}, 10));
  CHECK(running.give({SHADOWPROF_VALUE, 0, 64, 1, 7}, 5));
  process.send();
  for (int times = 0; times < 2; times++) {
    const auto table = process.take_table();
    REQUIRE_MESSAGE(table.has_value(), table.error().message);
    auto counts = counts_of(*table);
    CHECK(counts["block"] == kMany);
    CHECK(counts["instructions"] == 3 * kMany);
    CHECK(counts["bytes"] == 80);
    CHECK(counts["read_at7"] == 5);
    CHECK(counts["wrong"] == 0);
    CHECK(counts["hostile \\x1b[31m\\xff\\xe2\\x80\\xae"] == 1);
  }
  CHECK_FALSE(process.ended());
}

TEST_CASE("a plug-in that ends is named, and takes nothing any more") {
  for (const auto& [does, why] : std::map<std::string, std::string>{
           {"records-crash", "it was ended by signal 11 (Segmentation fault)"},
           {"records-abort", "it was ended by signal 6 (Aborted)"},
           {"records-exit", "it ended itself, with status 3"}}) {
    const Environment set("PLUGIN_DOES", does);
    Running running("broken");
    CHECK(running.end_of() == why);
    CHECK(running.process->ended());
    CHECK(running.process->take_table().error().message == why);
  }
}

TEST_CASE("a table that is not returned is none, and the process can be asked again") {
  for (const auto& [does, why] : std::map<std::string, std::string>{
           {"table-crash",
            "it was ended by signal 11 (Segmentation fault) while it made its table"},
           {"table-exit", "it ended itself, with status 3 while it made its table"}}) {
    const Environment set("PLUGIN_DOES", does);
    Running running("broken");
    for (int times = 0; times < 2; times++)
      CHECK(running.process->take_table().error().message == why);
    CHECK_FALSE(running.process->ended());
  }
}

TEST_CASE("who does not wait for a slow plug-in is told that there is no room") {
  const Environment set("PLUGIN_SLOW", "200000");
  Running running("kinds");
  CHECK_FALSE(running.give({SHADOWPROF_GAP, 0, 0, 0, 0}, 1'000'000, PluginProcess::Patience(1)));
  CHECK_FALSE(running.process->ended());
  CHECK(running.process->free_batches() == 0);
}

TEST_CASE("no process of a plug-in's is a child of ours") {
  Running running("kinds");
  int status = 0;
  CHECK(::waitpid(-1, &status, __WALL | WNOHANG) == -1);
  CHECK(errno == ECHILD);
}
