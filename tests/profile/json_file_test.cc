// SPDX-License-Identifier: MIT
#include "profile/file/json_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "../temporary_folder.h"
#include "sample_profile.h"

namespace shadowprof {
namespace {

using namespace profile;
using test::sample_profile;
using test::TemporaryFolder;
namespace fs = std::filesystem;

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

std::string error_of(const auto& result) {
  return result ? "" : result.error().message;
}

TEST_CASE("what is written is read back") {
  const Profile p = sample_profile();
  CHECK(error_of(check_consistency(p)) == "");
  const std::string text = profile_json(p);
  const auto back = parse_profile(text);
  REQUIRE_MESSAGE(back.has_value(), error_of(back));
  CHECK(profile_json(*back) == text);
  CHECK(back->run.exit->signalled);
  CHECK(back->tables.edges.size() == 4);
  CHECK(back->functions.size() == 2);
}

TEST_CASE("names that are not UTF-8 still make valid JSON without control characters") {
  const std::string text = profile_json(sample_profile());
  CHECK(nlohmann::json::accept(text));
  CHECK(text.find("\"\xef\xbf\xbd\xef\xbf\xbd not utf-8\"") != std::string::npos);
  for (char c : text) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
}

TEST_CASE("a damaged profile is refused with one sentence") {
  const std::string good = profile_json(sample_profile());
  CHECK(error_of(parse_profile(good.substr(0, good.size() / 2))).starts_with("it is cut off"));
  CHECK(error_of(parse_profile("")) == "it is empty");
  CHECK(error_of(parse_profile("hello")).starts_with("it is not JSON"));
  CHECK(error_of(parse_profile("{}")) == "it is not a profile of shadowprof");
  CHECK(error_of(parse_profile("[]")) == "it is not a profile of shadowprof");
  const auto changed = [&](const char* from, const char* to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return error_of(parse_profile(text.replace(at, std::string(from).size(), to)));
  };
  CHECK(changed("shadowprof.profile", "other") ==
        "it is not a profile of shadowprof (schema \"other\")");
  CHECK(changed("\"version\":1", "\"version\":2") ==
        "it has version 2, this program reads version 1");
  CHECK(changed("\"module\":[0,0,1]", "\"module\":[0,0,9]") ==
        "row 2 of the table of blocks names a module that is not there (2 modules)");
  CHECK(changed("\"module\":[0,0,1]", "\"module\":[0,0]") ==
        "tables.blocks.offset is not as long as the other columns");
  CHECK(changed("\"module\":[0,0,1]", "\"module\":[0,0,-1]") ==
        "tables.blocks.module[2] is not a count");
  CHECK(changed("\"block\":[2]", "\"block\":[3]") ==
        "row 0 of the table of interruptions names block 3 of 3");
  CHECK(changed("\"kind\":[0", "\"kind\":[7") ==
        "tables.edges.kind[0] is not in the list of kinds");
  Profile no_path = sample_profile();
  no_path.tables.paths[0].blocks.clear();
  CHECK(error_of(parse_profile(profile_json(no_path))) ==
        "row 0 of the table of paths has no blocks");
  Profile endless = sample_profile();
  endless.tables.blocks.back().at.offset = ~uint64_t{0};
  CHECK(error_of(parse_profile(profile_json(endless))) ==
        "row 2 of the table of blocks ends beyond all addresses");
  Profile countless = sample_profile();
  for (BlockCount& b : countless.tables.blocks) b.count = uint64_t{1} << 63;
  CHECK(error_of(parse_profile(profile_json(countless))) ==
        "more instructions are in the block table than can be counted");
  CHECK(changed("\"attributed\":28", "\"attributed\":29").starts_with("28 instructions are in"));
  CHECK(changed("\"pid\":42", "\"pid\":\"x\"") == "run.pid is not a number");
  CHECK(changed("\"engine\"", "\"motor\"") == "run.engine is missing");
}

TEST_CASE("no change of a byte makes the reader misbehave") {
  const std::string good = profile_json(sample_profile());
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; i++) {
    std::string text = good;
    text[random() % text.size()] = static_cast<char>("0123456789,:{}[]\"-x\x80"[random() % 20]);
    const auto result = parse_profile(text);
    if (!result) CHECK(result.error().message.find('\n') == std::string::npos);
  }
}

TEST_CASE("a profile is private, replaces only profiles and leaves nothing else behind") {
  const TemporaryFolder dir;
  const std::string path = dir / "p.json";
  CHECK(error_of(check_output(path)) == "");
  CHECK(error_of(write_profile(sample_profile(), path)) == "");
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(error_of(read_profile(path)) == "");
  CHECK(error_of(write_profile(sample_profile(), path)) == "");
  CHECK(dir.entries() == 1);

  const std::string foreign = dir.write("foreign", "{\"schema\": \"other\"}");
  CHECK(error_of(check_output(foreign)).find("is not a profile of shadowprof") !=
        std::string::npos);
  CHECK(!write_profile(sample_profile(), foreign));
  CHECK(content(foreign) == "{\"schema\": \"other\"}");
  CHECK(error_of(check_output(dir.write("empty", ""))) == "");
  CHECK(error_of(check_output(dir.path())).find("is a directory") != std::string::npos);
  CHECK(!check_output(dir / "missing/p.json"));
  CHECK(!read_profile(dir / "missing"));
}

TEST_CASE("a symbolic link to a profile stays a link") {
  const TemporaryFolder dir;
  REQUIRE(write_profile(sample_profile(), dir / "real"));
  fs::create_symlink("real", dir / "link");
  Profile p = sample_profile();
  p.run.pid = 4711;
  CHECK(error_of(write_profile(p, dir / "link")) == "");
  CHECK(fs::is_symlink(dir / "link"));
  CHECK(read_profile(dir / "real")->run.pid == 4711);
}

TEST_CASE("a symbolic link of somebody else is not followed") {
  if (::geteuid() != 0) return;  // nobody else can make a link that is not his own
  const TemporaryFolder dir;
  REQUIRE(write_profile(sample_profile(), dir / "real"));
  fs::create_symlink("real", dir / "second");
  fs::create_symlink("second", dir / "first");
  constexpr uid_t kNobody = 65534;
  REQUIRE(::lchown((dir / "second").c_str(), kNobody, kNobody) == 0);
  Profile p = sample_profile();
  p.run.pid = 4711;
  for (const char* name : {"first", "second"}) {
    const std::string refusal =
        "cannot write " + (dir / "second") + ": it is a symbolic link of another user (uid 65534)";
    CHECK(error_of(write_profile(p, dir / name)) == refusal);
    CHECK(error_of(check_output(dir / name)) == refusal);
  }
  CHECK(read_profile(dir / "real")->run.pid != 4711);
  CHECK(dir.entries() == 3);
}

TEST_CASE("links that lead in a circle are said") {
  const TemporaryFolder dir;
  fs::create_symlink("b", dir / "a");
  fs::create_symlink("a", dir / "b");
  CHECK(error_of(write_profile(sample_profile(), dir / "a")).find("Too many levels") !=
        std::string::npos);
}

TEST_CASE("a full disk is said and the old profile stays") {
  const TemporaryFolder dir;
  const std::string path = dir / "p.json";
  REQUIRE(write_profile(sample_profile(), path));
  const std::string before = content(path);
  // A file size limit fails write(2) as a full disk does: in the middle.
  struct rlimit old {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const struct rlimit small { 1000, old.rlim_max };
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Status status = write_profile(sample_profile(), path);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK(error_of(status).starts_with("cannot write "));
  CHECK(content(path) == before);
  CHECK(dir.entries() == 1);
  CHECK(error_of(write_profile(sample_profile(), "/dev/full")).find("No space left") !=
        std::string::npos);
  CHECK(error_of(write_profile(sample_profile(), "/dev/null")) == "");
}

TEST_CASE("large tables are written and read in seconds") {
  Profile p;
  p.modules = {{"/bin/big", "", 0, 1, 1}};
  for (uint64_t i = 0; i < 100'000; i++) {
    p.tables.blocks.push_back({{0, i * 16}, 16, 4, 1 + i % 1000});
    p.tables.edges.push_back({{0, i * 16 + 14}, {0, i * 7}, EdgeKind::taken, i + 1});
  }
  p.coverage.attributed = executed_instructions(p.tables.blocks, p.tables.interruptions);
  p.coverage.instructions_profiled = p.coverage.instructions_total = p.coverage.attributed;
  const TemporaryFolder dir;
  REQUIRE(write_profile(p, dir / "big"));
  const auto back = read_profile(dir / "big");
  REQUIRE_MESSAGE(back.has_value(), error_of(back));
  CHECK(back->tables.edges.back().count == 100'000);
}

}  // namespace
}  // namespace shadowprof
