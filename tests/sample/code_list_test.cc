// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "sample/code_list.h"

namespace shadowprof::sample {
namespace {

constexpr std::string_view kConditions = "program build-id:00ff\ncpu A processor @ 1 GHz\n";

CodeList example() {
  return {{"build-id:00ff", {0, 0x1040, 0x1041, 0xffff'ffff'ffff}}, {"file:1:2:3:4.5", {0x10}}};
}

TEST_CASE("a code list that was written is read again") {
  for (const CodeList& list : {example(), CodeList{}}) {
    const auto read = parse_code_list(write_code_list(list, kConditions), kConditions);
    REQUIRE(read.has_value());
    CHECK(*read == list);
  }
}

TEST_CASE("a code list in which any byte is another is refused") {
  const std::string text = write_code_list(example(), kConditions);
  for (size_t i = 0; i < text.size(); i++) {
    for (const char other : {'0', '\n', '+', static_cast<char>(text[i] ^ 1)}) {
      std::string damaged = text;
      if (damaged[i] == other) continue;
      damaged[i] = other;
      const auto read = parse_code_list(damaged, kConditions);
      CHECK_MESSAGE(!read.has_value(), "byte ", i, " of ", damaged);
    }
  }
}

TEST_CASE("a code list that ends too early, or too late, is refused") {
  const std::string text = write_code_list(example(), kConditions);
  for (size_t size = 0; size < text.size(); size++) {
    CHECK(!parse_code_list(std::string_view(text).substr(0, size), kConditions).has_value());
  }
  CHECK(!parse_code_list(text + "\n", kConditions).has_value());
  CHECK(!parse_code_list(text + text, kConditions).has_value());
}

TEST_CASE("a code list for another program is refused") {
  const std::string text = write_code_list(example(), kConditions);
  CHECK(!parse_code_list(text, "program build-id:00fe\n").has_value());
}

// With a checksum that is right, as somebody might write it.
std::string with_modules(const std::string& modules) {
  std::string text = write_code_list({}, kConditions);
  text.resize(text.rfind("end "));
  text += modules;
  char end[16];
  std::snprintf(end, sizeof end, "end %08x\n", checksum(text));
  return text + end;
}

TEST_CASE("nonsense with a right checksum is refused") {
  CHECK(parse_code_list(with_modules("module x 2\n1\n+1\n"), kConditions).has_value());
  for (const char* modules :
       {"module x 2\n1\n", "module x 1\n+1\n", "module x 2\n1\n1\n", "module x 2\n1\n+0\n",
        "module x 2\n1\n+ffffffffffffffff\n", "module x 1\n1\n+1\n", "module x\n1\n",
        "module x -1\n", "module x 1\n10000000000000000\n", "module x 1\n\n", "1\n",
        "module x 99999999999\n1\n"}) {
    CHECK_MESSAGE(!parse_code_list(with_modules(modules), kConditions).has_value(), modules);
  }
}

TEST_CASE("places are added once, and only as long as there is room") {
  CodeList list = {{"a", {1, 5}}};
  add_places(list, {{"a", {2, 5, 9}}, {"b", {7}}, {"c", {}}});
  CHECK(list == CodeList{{"a", {1, 2, 5, 9}}, {"b", {7}}});
  std::vector<uint64_t> many(kMostListedPlaces);
  for (size_t i = 0; i < many.size(); i++) many[i] = 16 * i;
  add_places(list, {{"a", many}});
  CHECK(place_count(list) == kMostListedPlaces);
  CHECK(parse_code_list(write_code_list(list, kConditions), kConditions).value() == list);
}

}  // namespace
}  // namespace shadowprof::sample
