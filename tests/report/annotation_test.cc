// SPDX-License-Identifier: MIT
//
// What a name on the command line means; that an annotation needs the file that ran. Counts are
// checked on real runs: tests/gate/annotate.py.
#include "report/annotation.h"

#include <doctest/doctest.h>

#include "../profile/sample_profile.h"

namespace shadowprof {
namespace {

profile::Profile with_names(const std::vector<std::string>& names) {
  profile::Profile p;
  p.modules = {{"/bin/app", "00ff", 0, 7, 8}, {"/lib/lib.so", "", 0, 9, 8}};
  for (size_t i = 0; i < names.size(); i++) {
    profile::Function f;
    f.at = {static_cast<uint32_t>(i % 2), 0x100 * (i + 1)};
    f.size = 0x20;
    f.name = names[i];
    p.functions.push_back(f);
  }
  std::sort(p.functions.begin(), p.functions.end(),
            [](const auto& a, const auto& b) { return a.at < b.at; });
  return p;
}

std::string chosen(const profile::Profile& p, const std::string& name) {
  const auto f = report::choose_function(p, name);
  return f ? (*f)->name : "error: " + f.error().message;
}

TEST_CASE("a function is named with or without its parameters, by a handle, or by its place") {
  const auto p = with_names({"Table::find(int)", "main", "Table::add(int)"});
  CHECK(chosen(p, "main") == "main");
  CHECK(chosen(p, "Table::find") == "Table::find(int)");
  CHECK(chosen(p, "Table::find(int)") == "Table::find(int)");
  CHECK(chosen(p, "Table::find(int)+0x1f") == "Table::find(int)");
  CHECK(chosen(p, "app+0x31f") == "Table::add(int)");
  CHECK(chosen(p, "/lib/lib.so+0x200") == "main");
}

TEST_CASE("a name that fits several functions or none lists places that do") {
  const auto p = with_names({"f(int)", "g()", "f(char)", "f"});
  CHECK(chosen(p, "f") == "f");
  CHECK(chosen(p, "app+0x9999").starts_with("error: no function"));
  const auto q = with_names({"f(int)", "g()", "f(char)"});
  CHECK(
      chosen(q, "f") ==
      "error: 2 functions are called f: f(int) (app+0x100), f(char) (app+0x300); name one by what "
      "is in parentheses");
  CHECK(chosen(q, "(ch").find("f(char) (app+0x300)") != std::string::npos);
  CHECK(chosen(q, "\x1b").find('\x1b') == std::string::npos);
  CHECK(chosen(q, "").starts_with("error: "));
}

TEST_CASE("an inlined function is named as others are, or by its declaration") {
  profile::Profile p;
  p.modules = {{"/bin/app", "00ff", 0, 7, 8}, {"/lib/lib.so", "", 0, 9, 8}};
  p.inlined = {{0, "Table::find(int)", "_Zfi", "/src/table.h", 7, 5, 0, 5, 0, 0, {}},
               {0, "Table::find(char)", "_Zfc", "/src/table.h", 9, 6, 0, 6, 0, 0, {}},
               {0, "size()", "", "/src/table.h", 20, 1, 0, 1, 0, 0, {}},
               {1, "size()", "", "/src/table.h", 20, 3, 0, 3, 0, 0, {}}};
  const auto inlined = [&](const std::string& name) {
    const auto f = report::choose_inlined(p, name);
    return f ? fmt::format("{} {}", (*f)->module, (*f)->name) : "error: " + f.error().message;
  };
  CHECK(inlined("Table::find(char)") == "0 Table::find(char)");
  CHECK(inlined("_Zfi") == "0 Table::find(int)");
  CHECK(inlined("table.h:9") == "0 Table::find(char)");
  CHECK(inlined("size") == "1 size()");
  CHECK(inlined("Table::find") ==
        "error: 2 inlined functions are called Table::find: Table::find(char) (table.h:9), "
        "Table::find(int) (table.h:7); name one by what is in parentheses");
  CHECK(inlined("find") ==
        "error: no function called find was inlined and executed; names that contain it: "
        "Table::find(char) (table.h:9), Table::find(int) (table.h:7)");
  CHECK(chosen(p, "siz") ==
        "error: no function called siz executed; names that contain it: inlined: size() "
        "(table.h:20), size() (table.h:20)");
}

TEST_CASE("a file that is not the one that ran is refused with the reason") {
  const auto p = test::sample_profile();
  const symbols::ModuleSet modules(p.modules);
  report::SourceFiles sources;
  const auto annotation = report::annotate(p, modules, p.functions[0], sources);
  REQUIRE(!annotation);
  CHECK(annotation.error().message.find("main cannot be annotated: ") == 0);
}

TEST_CASE("only regular files are read as source") {
  report::SourceFiles sources;
  CHECK(!sources.line("/dev/zero", 1));
  CHECK(!sources.line("/proc/self", 1));
  CHECK(!sources.line("relative.cc", 1));
  CHECK(!sources.line("", 1));
}

}  // namespace
}  // namespace shadowprof
