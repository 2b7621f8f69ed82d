// SPDX-License-Identifier: MIT
//
// Which files may be shown as source. Where we are root, what another user may read is asked of the
// kernel; elsewhere only the bits of files say it.
#include "report/source_access.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "../temporary_folder.h"
#include "report/source_files.h"

namespace shadowprof {
namespace {

using namespace report;
namespace fs = std::filesystem;

constexpr uid_t kSomebody = 12345;  // who owns nothing here and is in no group

// Everybody may enter it.
class Folder : public test::TemporaryFolder {
 public:
  Folder() : TemporaryFolder(0755) {}
  std::string file(const std::string& name, mode_t mode) const {
    return write(name, "first line\nsecond line\n", mode);
  }
};

bool shows(const std::string& path, const SourceRules& rules) {
  SourceFiles files(rules);
  return files.line(path, 2) == "second line";
}

TEST_CASE("a file is shown only if all who may have named it may read it") {
  const Folder dir;
  const std::string open = dir.file("open.c", 0644);
  const std::string secret = dir.file("secret.c", 0600);
  const SourceRules own{{::geteuid()}, {}, ""};
  const SourceRules others{{::geteuid(), kSomebody}, {}, ""};
  CHECK(shows(open, own));
  CHECK(shows(open, others));
  CHECK(!shows(secret, others));
  SourceFiles files(others);
  CHECK(!files.readable(secret));
  CHECK(files.refusal(secret).find("may") != std::string::npos);
  CHECK(files.refusal(open).empty());
  CHECK(files.refusal(dir / "missing.c").empty());
}

TEST_CASE("a file in a folder that a user may not enter is not shown, whatever its own bits say") {
  const Folder dir;
  const std::string inside = dir.file("closed/inside.c", 0644);
  REQUIRE(::chmod((dir / "closed").c_str(), 0700) == 0);
  CHECK(!shows(inside, {{::geteuid(), kSomebody}, {}, ""}));
  CHECK(shows(inside, {{::geteuid()}, {}, ""}));
}

TEST_CASE("root's own secrets are not shown to root") {
  if (::geteuid() != 0) return;
  const Folder dir;
  CHECK(!shows(dir.file("secret.c", 0600), {{0}, {}, ""}));
  const std::string of_user = dir.file("user.c", 0600);
  REQUIRE(::chown(of_user.c_str(), kSomebody, kSomebody) == 0);
  CHECK(shows(of_user, {{0, kSomebody}, {}, ""}));
  CHECK(!shows(of_user, {{0, kSomebody + 1}, {}, ""}));
}

TEST_CASE("below a root files are shown whoever may read them, but no link leads out") {
  const Folder dir;
  const std::string secret = dir.file("tree/secret.c", 0600);
  const std::string outside = dir.file("outside.c", 0600);
  fs::create_symlink(outside, dir / "tree/link.c");
  fs::create_symlink("secret.c", dir / "tree/inner.c");
  const SourceRules rules{{kSomebody}, {dir / "tree"}, dir / "tree"};
  CHECK(shows(secret, rules));
  CHECK(shows(dir / "tree/inner.c", rules));
  CHECK(!shows(dir / "tree/link.c", rules));
  CHECK(!shows(dir / "tree/../outside.c", rules));
  CHECK(!shows(outside, rules));
  CHECK(shows("secret.c", rules));
  CHECK(!shows("../outside.c", rules));
  CHECK(!shows("secret.c", {{}, {}, ""}));
}

TEST_CASE("FIFOs, devices and folders are not opened") {
  const Folder dir;
  REQUIRE(::mkfifo((dir / "pipe.c").c_str(), 0644) == 0);
  const SourceRules rules{{}, {dir.path()}, ""};
  CHECK(!open_source(dir / "pipe.c", rules));
  CHECK(!open_source("/dev/null", rules));
  CHECK(!open_source(dir.path(), rules));
}

TEST_CASE("the rules of a profile name the owners of its files and the program's user") {
  const Folder dir;
  profile::Profile p;
  p.modules = {{dir.file("program", 0755), "", 0, 0, 0}, {"", "", 0, 0, 0}};
  p.run.options["user"] = "12345";
  const auto rules = source_rules(p, dir.file("p.json", 0600), dir.path());
  REQUIRE(rules.has_value());
  CHECK(std::find(rules->users.begin(), rules->users.end(), ::geteuid()) != rules->users.end());
  CHECK(std::find(rules->users.begin(), rules->users.end(), kSomebody) != rules->users.end());
  CHECK(rules->roots.back() == dir.path());
  CHECK(!source_rules(p, "", dir / "nowhere"));
}

}  // namespace
}  // namespace shadowprof
