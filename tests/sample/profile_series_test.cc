// SPDX-License-Identifier: MIT
#include "sample/profile_series.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "../temporary_folder.h"
#include "profile/file/json_file.h"

namespace shadowprof {
namespace {

using sample::ProfileSeries;
namespace fs = std::filesystem;

class Folder : public test::TemporaryFolder {
 public:
  std::string make_profile(const std::string& name) const {
    REQUIRE(profile::write_profile(profile::Profile(), *this / name));
    return *this / name;
  }
};

constexpr const char* kBegan = "2026-11-26T15:59:39Z";

TEST_CASE("an interval's file has the moment before the suffixes") {
  CHECK(ProfileSeries("x/app.json", 0).file_for(kBegan) == "x/app.20261126T155939Z.json");
  CHECK(ProfileSeries("app.json.gz", 0).file_for(kBegan) == "app.20261126T155939Z.json.gz");
  CHECK(ProfileSeries("app.zst", 0).file_for(kBegan) == "app.20261126T155939Z.zst");
  CHECK(ProfileSeries("/a.b/app", 0).file_for(kBegan) == "/a.b/app.20261126T155939Z");
}

TEST_CASE("two intervals of one second have two files") {
  const Folder folder;
  const ProfileSeries series(folder / "app.json", 0);
  folder.make_profile("app.20261126T155939Z.json");
  CHECK(series.file_for(kBegan) == folder / "app.20261126T155940Z.json");
}

TEST_CASE("the oldest files beyond those to be kept are removed, and no others") {
  const Folder folder;
  const ProfileSeries series(folder / "app.json", 2);
  const std::string oldest = folder.make_profile("app.20251126T155939Z.json");
  const std::string older = folder.make_profile("app.20261126T155939Z.json");
  const std::string newer = folder.make_profile("app.20261126T160939Z.json");
  const std::string newest = folder.make_profile("app.20261127T000000Z.json");
  const std::vector<std::string> others = {
      folder.write("app.20241126T155939Z.json", "{\"no\": \"profile\"}"),
      folder.make_profile("app.json"),
      folder.make_profile("app.20241126T155939Z.json.gz"),
      folder.make_profile("app.2024112xT155939Z.json"),
      folder.make_profile("app2.20241126T155939Z.json"),
      folder.make_profile("app.20241126T155939Z.json.old"),
  };
  fs::create_symlink(newest, folder / "app.20231126T155939Z.json");
  fs::create_directory(folder / "app.20221126T155939Z.json");
  series.remove_old();
  CHECK_FALSE(fs::exists(oldest));
  CHECK_FALSE(fs::exists(older));
  CHECK(fs::exists(newer));
  CHECK(fs::exists(newest));
  for (const std::string& other : others) CHECK(fs::exists(other));
  CHECK(fs::is_symlink(folder / "app.20231126T155939Z.json"));
  CHECK(fs::is_directory(folder / "app.20221126T155939Z.json"));
}

TEST_CASE("nothing is removed where all are to be kept") {
  const Folder folder;
  const std::string old = folder.make_profile("app.20251126T155939Z.json");
  folder.make_profile("app.20261126T155939Z.json");
  ProfileSeries(folder / "app.json", 0).remove_old();
  CHECK(fs::exists(old));
}

}  // namespace
}  // namespace shadowprof
