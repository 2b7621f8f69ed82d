// SPDX-License-Identifier: MIT
//
// usage: capture_check ADDRESS PROGRAM [ARG...]
//
// Single-steps a small static program that has no signals, then records it with every capture plan
// and compares the values of all instructions at ADDRESS and above. For programs that capture_test
// does not know, as the random ones of tests/fuzz.
#include <cstdio>
#include <cstdlib>

#include "recording.h"

namespace shadowprof::inject_test {
namespace {

int check_all_plans(GuestAddr values_from, const std::vector<std::string>& program) {
  const auto reference = step_on_hardware(program);
  int failed = 0;
  for (int bits = 0; bits < 16; bits++) {
    const emu::CapturePlan plan{.values = (bits & 1) != 0,
                                .addresses = (bits & 2) != 0,
                                .load_cycles = (bits & 4) != 0,
                                .stored = (bits & 8) != 0,
                                .moments = (bits & 8) != 0};
    const Recording recording = record(program, plan);
    const Verdict verdict = check(recording, plan, *reference, values_from);
    for (const std::string& complaint : verdict.complaints) {
      fmt::print("plan {}: {}\n", bits, complaint);
    }
    failed += !verdict.complaints.empty();
  }
  return failed != 0;
}

}  // namespace
}  // namespace shadowprof::inject_test

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: capture_check ADDRESS PROGRAM [ARG...]\n", stderr);
    return 2;
  }
  return shadowprof::inject_test::check_all_plans(
      shadowprof::GuestAddr(std::strtoull(argv[1], nullptr, 0)), {argv + 2, argv + argc});
}
