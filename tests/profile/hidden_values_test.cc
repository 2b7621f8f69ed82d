// SPDX-License-Identifier: MIT
#include "profile/hidden_values.h"

#include <doctest/doctest.h>

#include <string>

#include "profile/accuracy.h"
#include "profile/compare/diff.h"
#include "profile/compare/merge.h"
#include "profile/file/json_file.h"
#include "profile/tables/address_of_run.h"
#include "sample_profile.h"

namespace shadowprof {
namespace {

using namespace profile;

constexpr uint64_t kSecret = 918'273'645'546;
constexpr uint64_t kSecretAddress = 0x7654'3210'9870;

// The secrets stand wherever a profile has what the program computed with.
Profile profile_with_secrets() {
  Profile p = test::sample_profile();
  p.tables.values[0].bits = 64;
  p.tables.values[0].figures.top = {{kSecret, 3}, {kSecretAddress, 1}};
  p.tables.arguments[0].figures.top = {{kSecretAddress, 1}};
  p.tables.arguments[1].figures.top = {{kSecret, 1}};
  p.tables.latency_values = {{LatencyClass::dram, kSecret, 1, CodeRef{0, 0x12}},
                             {LatencyClass::dram, kSecret + 1, 2, CodeRef{0, 0x12}}};
  p.tables.probes[1].numbers[0].number = kSecret;
  p.tables.probes[2].numbers[0].number = kSecret + 1;
  p.hotlists = compute_hotlists(p, 10);
  return p;
}

Profile hidden(Profile p) {
  hide_values(p);
  return p;
}

std::string told(const Profile& p) {
  return profile_json(p);
}

bool tells(const Profile& p, uint64_t number) {
  return told(p).find(std::to_string(number)) != std::string::npos;
}

Diff diff_of(const Profile& base, const Profile& now) {
  return compare_profiles(base, {}, now, {});
}

TEST_CASE("no value is left in a profile that hides them, and counts are as they were") {
  const Profile plain = profile_with_secrets();
  REQUIRE(tells(plain, kSecret));
  REQUIRE(tells(plain, kSecretAddress));
  const Profile p = hidden(plain);
  CHECK(!tells(p, kSecret));
  CHECK(!tells(p, kSecret + 1));
  CHECK(!tells(p, kSecretAddress));
  CHECK(has_hidden_values(p));
  CHECK(!has_hidden_values(plain));
  CHECK(check_consistency(p).has_value());
  const ValueFigures& before = plain.tables.values[0].figures;
  const ValueFigures& after = p.tables.values[0].figures;
  CHECK(after.count == before.count);
  CHECK(after.invariance() == before.invariance());
  REQUIRE(after.top.size() == before.top.size());
  for (size_t i = 0; i < after.top.size(); i++) CHECK(after.top[i].count == before.top[i].count);
}

TEST_CASE("equal values stay equal, other ones other, and addresses addresses") {
  const Profile p = hidden(profile_with_secrets());
  const uint64_t secret = p.tables.values[0].figures.top[0].value;
  const uint64_t address = p.tables.values[0].figures.top[1].value;
  CHECK(secret != address);
  CHECK(p.tables.arguments[0].figures.top[0].value == address);
  CHECK(p.tables.arguments[1].figures.top[0].value == secret);
  CHECK(is_address_of_run(p.modules, address));
  CHECK(!is_address_of_run(p.modules, secret));
  CHECK(p.hotlists.arguments[0].is_address == compute_hotlists(p, 10).arguments[0].is_address);
  CHECK(hidden(profile_with_secrets()).tables.values[0].figures.top[0].value != secret);
}

TEST_CASE("places in code and the number of calls of a stack are no values") {
  const Profile plain = profile_with_secrets();
  const Profile p = hidden(plain);
  CHECK(p.tables.probes[0].numbers == plain.tables.probes[0].numbers);
  CHECK(p.tables.probes[4].numbers == plain.tables.probes[4].numbers);
  CHECK(p.tables.probes[4].stack == plain.tables.probes[4].stack);
}

TEST_CASE("hidden values are shown as such, also out of a file") {
  const Profile p = hidden(profile_with_secrets());
  const auto read = parse_profile(told(p));
  REQUIRE(read.has_value());
  CHECK(told(*read) == told(p));
  for (const Hotlists& lists : {p.hotlists, read->hotlists, compute_hotlists(*read, 10)}) {
    for (const HotValue& row : lists.values) CHECK(row.type == ValueType::hidden);
    for (const HotArgument& row : lists.arguments) CHECK(row.type() == ValueType::hidden);
    for (const HotLatencyValue& row : lists.latency_values) CHECK(row.type == ValueType::hidden);
    CHECK(lists.probes.back().numbers.back().is_hidden);
    CHECK(!lists.probes.front().numbers.front().is_hidden);
  }
  CHECK(value_text(ValueType::hidden, 0x8000'0000'0012'3abc) == "#123abc");
}

TEST_CASE("a sum hides the values of all if one of them does") {
  const Profile plain = profile_with_secrets();
  for (const bool first : {true, false}) {
    Merger merger;
    REQUIRE(merger.add(first ? hidden(plain) : plain, "a", 1).has_value());
    REQUIRE(merger.add(first ? plain : hidden(plain), "b", 1).has_value());
    Profile sum = merger.finish();
    sum.hotlists = merger.hotlists(sum, 10);
    CHECK(has_hidden_values(sum));
    CHECK(!tells(sum, kSecret));
    CHECK(!tells(sum, kSecretAddress));
    CHECK(sum.tables.values[0].figures.count == 2 * plain.tables.values[0].figures.count);
  }
}

TEST_CASE("hidden values are not compared") {
  const Profile plain = profile_with_secrets();
  CHECK(diff_of(plain, plain).has_values);
  CHECK(!diff_of(plain, hidden(plain)).has_values);
  CHECK(!diff_of(hidden(plain), plain).has_values);
  CHECK(accuracy_of(plain, plain).diff_top.has_value());
  CHECK(!accuracy_of(plain, hidden(plain)).diff_top.has_value());
}

}  // namespace
}  // namespace shadowprof
