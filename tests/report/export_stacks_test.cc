// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "report/export.h"

namespace shadowprof {
namespace {

using profile::ContextKind;
using profile::Profile;

constexpr profile::CodeRef kNowhere{4'000'000'000,
                                    1};  // what is no code names a place all the same

Profile with_unknown_callers() {
  Profile p;
  p.modules.emplace_back().path = "/bin/app";
  profile::Function main;
  main.at = {0, 0x100};
  main.size = 0x10;
  main.name = "main";
  p.functions = {main};
  p.tables.blocks = {{{0, 0x100}, 0x10, 1, 10}};
  p.tables.contexts = {{profile::kNoContext, ContextKind::unknown, kNowhere, 6},
                       {0, ContextKind::code, {0, 0x100}, 4}};
  p.run.command = {"app"};
  p.run.pid = 7;
  return p;
}

TEST_CASE("callers that are not known are in no module, and no format looks for one") {
  for (Profile p : {with_unknown_callers(), Profile()}) {
    if (p.modules.empty())
      p.tables.contexts = {{profile::kNoContext, ContextKind::deeper, kNowhere, 6}};
    const symbols::ModuleSet modules(p.modules);
    for (const report::ExportFormat& format : report::export_formats()) {
      if (format.one_module) continue;
      CAPTURE(std::string(format.name));
      const auto text = format.make({.profile = p, .modules = modules, .host = "", .service = ""});
      if (!p.modules.empty()) CHECK(text.has_value());
    }
  }
  const Profile p = with_unknown_callers();
  const symbols::ModuleSet modules(p.modules);
  const auto folded =
      report::export_folded({.profile = p, .modules = modules, .host = "", .service = ""});
  REQUIRE(folded);
  CHECK(*folded == "[callers unknown] 6\n[callers unknown];main 4\n");
}

}  // namespace
}  // namespace shadowprof
