// SPDX-License-Identifier: MIT
//
// Profile files that are made to cost memory or time, and files that are no files.
#include "profile/file/profile_input.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "../temporary_folder.h"
#include "profile/file/json_file.h"
#include "profile/file/output_file.h"
#include "sample_profile.h"

namespace shadowprof {
namespace {

using namespace profile;
using test::TemporaryFolder;

std::string refusal(const auto& result) {
  return result ? "" : result.error().message;
}

void write_packed(const std::string& path, Compression kind, const std::string& piece, int times) {
  std::ofstream file(path, std::ios::binary);
  const auto compressor = Compressor::create(kind);
  std::string packed;
  for (int i = 0; i < times; i++) compressor->add(piece, i + 1 == times, packed);
  file << packed;
}

// A list of counts, without end.
class EndlessRows final : public json::TextPieces {
 public:
  std::string_view next() override {
    if (piece_.empty()) {
      for (int i = 0; i < 100'000; i++) piece_ += "1,";
      return "[";
    }
    return piece_;
  }

 private:
  std::string piece_;
};

TEST_CASE("a small file that unpacks to gigabytes is refused before it has done so") {
  const TemporaryFolder dir;
  const std::string blanks(1 << 20, ' ');
  for (const auto& [kind, name] : {std::pair(Compression::zstd, "bomb.zst"),
                                   std::pair(Compression::gzip, "bomb.gz")}) {
    write_packed(dir / name, kind, blanks, 400);
    CHECK(refusal(read_profile(dir / name)).find("unpacks to more than") != std::string::npos);
  }
}

TEST_CASE("a profile of any size that is packed as well as profiles are is read") {
  const TemporaryFolder dir;
  Profile p = test::sample_profile();
  for (uint64_t i = 0; i < 100'000; i++)
    p.tables.edges.push_back({{0, 0x100 + 7 * i}, {0, 0x200}, EdgeKind::jump, i});
  for (const char* name : {"p.json", "p.json.gz", "p.json.zst"}) {
    REQUIRE(refusal(write_profile(p, dir / name)) == "");
    const auto back = read_profile(dir / name);
    REQUIRE_MESSAGE(back.has_value(), refusal(back));
    CHECK(profile_json(*back) == profile_json(p));
  }
}

TEST_CASE("nesting, rows and strings have limits") {
  CHECK(refusal(parse_profile(std::string(1'000'000, '['))).find("nested deeper than 32") !=
        std::string::npos);
  std::string objects;
  for (int i = 0; i < 1000; i++) objects += "{\"a\":";
  CHECK(refusal(parse_profile(objects)).find("nested deeper") != std::string::npos);
  CHECK(refusal(parse_profile("[\"" + std::string(2 << 20, 'x') + "\"]"))
            .find("a string of more than") != std::string::npos);
  EndlessRows rows;
  CHECK_THROWS_AS(json::parse(rows), json::Bad);
}

TEST_CASE("lists of counts keep all their bits") {
  json::Numbers numbers;
  const std::vector<uint64_t> all = {0, 255, 256, 65535, 65536, 0xffffffff, 0x100000000, ~0ull, 1};
  for (const uint64_t n : all) numbers.push_back(n);
  REQUIRE(numbers.size() == all.size());
  for (size_t i = 0; i < all.size(); i++) CHECK(numbers[i] == all[i]);
}

TEST_CASE("a pipe without a writer ends soon, one with a writer is read") {
  const TemporaryFolder dir;
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK(refusal(read_profile(dir / "pipe")).ends_with("it is empty"));
  const std::string text = profile_json(test::sample_profile());
  std::thread writer([&] { std::ofstream(dir / "pipe") << text; });
  // The first open may come before the writer's.
  Result<Profile> read = fail("not read");
  for (int i = 0; i < 1000 && !read; i++) {
    read = read_profile(dir / "pipe");
    if (!read) ::usleep(1000);
  }
  if (!read) ::close(::open((dir / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
  writer.join();
  REQUIRE_MESSAGE(read.has_value(), refusal(read));
  CHECK(profile_json(*read) == text);
}

TEST_CASE("devices and folders are not read") {
  CHECK(refusal(read_profile("/dev/zero")).find("neither a file nor a pipe") != std::string::npos);
  CHECK(refusal(read_profile("/")) != "");
}

TEST_CASE("a pipe without a reader, and a disk, are no output") {
  const TemporaryFolder dir;
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK(refusal(check_output(dir / "pipe")).find("no program reads") != std::string::npos);
  CHECK(refusal(OutputFile::open(dir / "pipe")).find("no program reads") != std::string::npos);
  CHECK(refusal(open_in_place("/dev/null", S_IFBLK)).find("is a disk") != std::string::npos);
  const UniqueFd reader(::open((dir / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader.valid());
  CHECK(refusal(check_output(dir / "pipe")) == "");
  CHECK(refusal(write_profile(test::sample_profile(), dir / "pipe")) == "");
  std::string got(1 << 20, '\0');
  const ssize_t n = ::read(reader.get(), got.data(), got.size());
  REQUIRE(n > 0);
  CHECK(got.substr(0, static_cast<size_t>(n)) == profile_json(test::sample_profile()));
}

}  // namespace
}  // namespace shadowprof
