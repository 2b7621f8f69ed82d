// SPDX-License-Identifier: MIT
#include "profile/file/compression.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "../temporary_folder.h"
#include "profile/file/json_file.h"
#include "sample_profile.h"

namespace shadowprof {
namespace {

using namespace profile;

constexpr Compression kBoth[] = {Compression::gzip, Compression::zstd};

std::string packed(Compression kind, const std::string& text, size_t step) {
  auto compressor = Compressor::create(kind);
  std::string out;
  for (size_t at = 0; at < text.size(); at += step)
    compressor->add(std::string_view(text).substr(at, step), false, out);
  compressor->add("", true, out);
  return out;
}

std::string some_text(size_t bytes) {
  std::minstd_rand random(1);
  std::string text;
  while (text.size() < bytes) text += std::to_string(random() % 1000) + ",";
  text.resize(bytes);
  return text;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

TEST_CASE("what is packed in pieces of any size is unpacked whole") {
  for (Compression kind : kBoth) {
    for (size_t bytes : {0, 1, 65536, 300000}) {
      const std::string text = some_text(bytes);
      for (size_t step : {size_t{7777}, size_t{65536}, size_t{1} << 20}) {
        const std::string file = packed(kind, text, step);
        CHECK(compression_of(file) == kind);
        const auto back = decompress(file, text.size());
        REQUIRE(back.has_value());
        CHECK(*back == text);
      }
    }
  }
}

TEST_CASE("files that were put behind one another are one") {
  for (Compression kind : kBoth) {
    const auto back = decompress(packed(kind, "one ", 9) + packed(kind, "two", 9), 100);
    REQUIRE(back.has_value());
    CHECK(*back == "one two");
  }
}

TEST_CASE("damaged, cut off and endless data are errors") {
  for (Compression kind : kBoth) {
    const std::string text = some_text(100000);
    const std::string file = packed(kind, text, 4096);
    CHECK_FALSE(decompress(file, text.size() - 1));
    for (size_t size : {file.size() - 1, file.size() / 2, size_t{5}})
      CHECK_FALSE(decompress(file.substr(0, size), text.size()));
    std::string damaged = file;
    damaged[file.size() / 2] = static_cast<char>(damaged[file.size() / 2] ^ 0x55);
    CHECK_FALSE(decompress(damaged, 2 * text.size()));
  }
}

TEST_CASE("the beginning is known from the beginning") {
  const std::string text = some_text(3'000'000);
  for (Compression kind : kBoth)
    CHECK(decompress_head(packed(kind, text, 4096).substr(0, kHeadBytes), 100) ==
          text.substr(0, 100));
  CHECK(decompress_head("plain", 3) == "pla");
}

TEST_CASE("a profile is compressed by its suffix and replaces only profiles") {
  const test::TemporaryFolder dir;
  const Profile p = test::sample_profile();
  for (const char* file : {"p.json", "p.json.gz", "p.json.zst"}) {
    const std::string path = dir / file;
    REQUIRE(write_profile(p, path).has_value());
    CHECK(compression_of(content(path)) == compression_for(path));
    const auto back = read_profile(path);
    REQUIRE(back.has_value());
    CHECK(profile_json(*back) == profile_json(p));
    CHECK(write_profile(p, path).has_value());
  }
  const std::string foreign = dir.write("foreign.gz", packed(Compression::gzip, "hello\n", 9));
  CHECK_FALSE(write_profile(p, foreign));
  CHECK(decompress_head(content(foreign), 9) == "hello\n");
}

}  // namespace
}  // namespace shadowprof
