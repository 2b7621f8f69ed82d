// SPDX-License-Identifier: MIT
//
// What the translator records is what happened: instruction sequence, result and address registers,
// load times, for every combination of captures.
#include <cstdlib>

#include "recording.h"

#include <doctest/doctest.h>

namespace shadowprof::inject_test {
namespace {

std::string guest(const char* name) {
  const char* folder = std::getenv("CAPTURE_GUESTS");
  REQUIRE(folder != nullptr);
  return std::string(folder) + "/" + name;
}

emu::CapturePlan plan_of(int bits) {
  return {.values = (bits & 1) != 0,
          .addresses = (bits & 2) != 0,
          .load_cycles = (bits & 4) != 0,
          .stored = (bits & 8) != 0,
          .moments = (bits & 8) != 0};
}

void require_right(const Recording& recording, const Verdict& verdict) {
  CHECK(!recording.run.end.signalled);
  CHECK(recording.run.end.value == 0);
  for (const std::string& complaint : verdict.complaints) FAIL_CHECK(complaint);
}

TEST_CASE("every plan records what single steps show") {
  const std::string program = guest("capture_mix");
  const auto reference = step_on_hardware({program});
  for (int bits = 0; bits < 16; bits++) {
    CAPTURE(bits);
    const emu::CapturePlan plan = plan_of(bits);
    const Recording recording = record({program}, plan);
    const Verdict verdict = check(recording, plan, *reference);
    require_right(recording, verdict);
    CHECK(verdict.insns > 1000);
    CHECK((verdict.slots > 0) == (bits != 0));
    CHECK((verdict.timed_loads > 0) == plan.load_cycles);
    CHECK((verdict.stamps > 0) == plan.load_cycles);
    CHECK(verdict.stamps <= verdict.timed_loads);
    CHECK((verdict.moments > 0) == plan.moments);
  }
}

TEST_CASE("a record that meets the guard page moves on as a whole") {
  const std::string program = guest("capture_long");
  const uint64_t stack = first_stack_pointer(program);
  for (int bits = 0; bits < 8; bits++) {
    CAPTURE(bits);
    const emu::CapturePlan plan = plan_of(bits);
    const Recording recording = record({program}, plan);
    const auto reference = model_of_long(program, stack);
    const Verdict verdict = check(recording, plan, *reference);
    require_right(recording, verdict);
    CHECK(recording.run.counts.drains >= (bits == 0 ? 1 : 3));
  }
}

TEST_CASE("the tables answer for known values, strides and constants") {
  // capture_mix's first loop, by hand: rdx is a constant number from memory, rsi goes up by 8, rcx
  // down by 1 from 40.
  const Recording recording = record({guest("capture_mix")}, {.values = true, .addresses = true});
  const trace::BlockTable& table = *recording.table;
  std::vector<uint64_t> counters, pointers, constants;
  for (const auto& chunk : recording.sink.chunks()) {
    trace::Reader reader(table, chunk);
    for (auto next = reader.next(); next && *next && counters.size() < 39; next = reader.next()) {
      if ((*next)->special()) continue;
      const trace::Run& run = table.run((*next)->run());
      if (run.exit != trace::RunExit::taken) continue;
      const auto slots = table.slots(run);
      for (size_t s = 0; s < slots.size(); s++) {
        if (slots[s].kind != trace::SlotKind::value) continue;
        if (slots[s].reg == decoder::kRcx) counters.push_back((*next)->slot(s));
        if (slots[s].reg == decoder::kRsi) pointers.push_back((*next)->slot(s));
        if (slots[s].reg == decoder::kR8) constants.push_back((*next)->slot(s));
      }
    }
  }
  REQUIRE(counters.size() >= 39);
  // The first record began before the loop and has the initial values, too.
  CHECK(counters[0] == 40);
  for (uint64_t i = 1; i < 39; i++) CHECK(counters[i] == 40 - i);
  REQUIRE(pointers.size() >= 38);
  for (size_t i = 1; i < 38; i++) CHECK(pointers[i] == pointers[i - 1] + 8);
  for (const uint64_t v : constants) CHECK(v == 7);
}

}  // namespace
}  // namespace shadowprof::inject_test
