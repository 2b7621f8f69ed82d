// SPDX-License-Identifier: MIT
//
// What users write of conditions, and of what they set while a run goes on.
#include "sample/conditions.h"

#include <doctest/doctest.h>

#include "sample/run_settings.h"

namespace shadowprof {
namespace {

using sample::ConditionType;
using sample::RunSetting;

std::string why_no_condition(const std::string& text) {
  const auto condition = sample::parse_condition(text);
  return condition ? "it is one" : condition.error().message;
}

TEST_CASE("a condition says of which type how much is looked at") {
  CHECK(sample::parse_condition("values=all")->how.all());
  CHECK(sample::parse_condition("values=all")->type == ConditionType::values);
  CHECK(sample::parse_condition("latency=1/1")->how.all());
  const auto some = sample::parse_condition("latency=1/16");
  REQUIRE(some);
  CHECK(some->type == ConditionType::latency);
  CHECK(some->how.weight() == 16);
  CHECK(some->how.share() == 1.0 / 16);
  const auto burst = sample::parse_condition("values=burst:10,every:25");
  REQUIRE(burst);
  CHECK(burst->how.burst == 10);
  CHECK(burst->how.every == 25);
  CHECK(burst->how.share() == 0.4);
  CHECK(burst->how.window_us == 0);
  const auto time = sample::parse_condition("values=burst:500us,every:8ms");
  REQUIRE(time);
  CHECK(time->how.window_us == 500);
  CHECK(time->how.weight() == 16);
}

TEST_CASE("a condition is told as it may be written") {
  for (const char* text : {"all", "1/16", "1/1000000", "burst:10,every:25", "burst:500us,every:8ms",
                           "burst:2ms,every:1s"})
    CHECK(sample::to_text(sample::parse_condition(std::string("values=") + text)->how) == text);
  CHECK(sample::to_text(sample::parse_condition("values=burst:2,every:32")->how) == "1/16");
}

TEST_CASE("what is no condition is refused") {
  for (const char* text : {"",
                           "all",
                           "=",
                           "=all",
                           "values",
                           "values=",
                           "values=1",
                           "values=1/",
                           "values=1/0",
                           "values=2/3",
                           "values=1/16x",
                           "values=1/-1",
                           "values=1/1000001",
                           "values=burst:0,every:3",
                           "values=burst:4,every:3",
                           "values=burst:4,every:9x",
                           "values=burst:4",
                           "values=burst:4,9",
                           "values=burst:1,every:1000000000001",
                           "values=burst:1ms,every:3",
                           "values=burst:1,every:3s",
                           "values=burst:1m,every:3m",
                           "values=burst:2s,every:9s",
                           "values=burst:2ms,every:1ms",
                           "values=burst:0ms,every:1ms",
                           "values=1/99999999999999999999",
                           "VALUES=all",
                           "latency=all ",
                           " latency=all",
                           "lat\nency=all"}) {
    CAPTURE(text);
    CHECK(why_no_condition(text).find("is no condition") != std::string::npos);
    CHECK(why_no_condition(text).find('\n') == std::string::npos);
  }
}

TEST_CASE("what costs nothing to leave on has no condition, and says so") {
  for (const char* text : {"calls=1/100", "edge=all", "methods=1/2"})
    CHECK(why_no_condition(text).find("costs next to nothing") != std::string::npos);
  for (const char* text : {"paths=1/100", "address=1/4", "addresses=1/4", "hazard=all",
                           "waste=1/4", "streams=1/4"})
    CHECK(why_no_condition(text).find("has no condition: ") != std::string::npos);
}

TEST_CASE("what is set is a frequency, a size of samples, or a condition") {
  const auto hertz = sample::parse_setting("freq=2.5");
  REQUIRE(hertz);
  CHECK(hertz->what == RunSetting::What::frequency);
  CHECK(hertz->frequency_hz == 2.5);
  CHECK(sample::parse_setting("freq=auto")->frequency_hz == 0);
  CHECK(sample::parse_setting("sample-size=50000")->sample_size == 50'000);
  CHECK(sample::parse_setting("sample-size=auto")->sample_size == 0);
  const auto values = sample::parse_setting("values=burst:1,every:64");
  REQUIRE(values);
  CHECK(values->name == "values");
  CHECK(values->value == "1/64");
  for (const char* text :
       {"", "freq", "freq=", "freq=0", "freq=-1", "freq=nan", "freq=inf", "freq=1e9", "freq=1x",
        "sample-size=", "sample-size=999", "sample-size=-1", "sample-size=1e6",
        "sample-size=99999999999999999999", "values=", "edges=1/2", "top=5"}) {
    CAPTURE(text);
    CHECK(!sample::parse_setting(text));
  }
}

}  // namespace
}  // namespace shadowprof
