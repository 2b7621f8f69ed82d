// SPDX-License-Identifier: MIT
//
// usage: run_with_plan BITS PROGRAM [ARG...]
//
// Runs a program in the engine with a capture plan (1 values, 2 addresses, 4 load cycles, 8 all
// that can be wished for of each instruction, 16 stores and moments; 32: all this in bouts, and
// nothing else), reads its whole trace and throws it away: whatever is recorded, the program must
// not notice. Exits with the program's status; 125 when the trace is corrupt.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/check.h"
#include "recording.h"

namespace shadowprof::inject_test {
namespace {

class ReadingSink : public trace::TraceSink {
 public:
  explicit ReadingSink(const trace::BlockTable& table) : table_(table) {}
  void wait(uint64_t) override {}
  bool done(uint64_t) override { return true; }

 private:
  uint64_t take(const trace::Chunk& chunk) override {
    trace::Reader reader(table_, chunk.words);
    for (;;) {
      const auto next = reader.next();
      SP_CHECK(next.has_value(), "{}", next.error().message);
      if (!*next) return 0;
    }
  }

  const trace::BlockTable& table_;
};

class AllWishes final : public trace::CaptureWishes {
 public:
  void meet(BlockId) override {}
  trace::CaptureWish wish(BlockId, const decoder::Insn&, bool) override {
    return {
        .registers = 0xffff, .addresses = true, .results = true, .divisor = true, .cycles = true};
  }
  bool times_loads() const override { return true; }
};

int run(int bits, std::vector<std::string> argv) {
  trace::BlockTable table;
  ReadingSink sink(table);
  AllWishes wishes;
  emu::CapturePlan plan;
  plan.values = (bits & 1) != 0;
  plan.addresses = (bits & 2) != 0;
  plan.load_cycles = (bits & 4) != 0;
  if ((bits & 8) != 0) plan.wishes = &wishes;
  plan.stored = plan.moments = (bits & 16) != 0;
  std::optional<emu::CapturePlan> in_bouts;
  if ((bits & 32) != 0) {
    in_bouts = std::exchange(plan, {});
    in_bouts->of_bouts = true;
  }
  const inject::ProgramEnd end = run_in_engine(table, sink, plan, std::move(argv), in_bouts).end;
  return end.signalled ? 128 + end.value : end.value;
}

}  // namespace
}  // namespace shadowprof::inject_test

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: run_with_plan BITS PROGRAM [ARG...]\n", stderr);
    return 125;
  }
  return shadowprof::inject_test::run(std::atoi(argv[1]), {argv + 2, argv + argc});
}
