// SPDX-License-Identifier: MIT
//
// The call stacks that a probe has met, each of which has a number: so a stack is one number of a
// tuple. A stack is the innermost calls, by where they return to, the innermost first. kNoMore
// behind them says that the stack goes on and nobody knows where.
//
// Bounded: kMostStacks, of Probe::kMostStack calls and kNoMore at most. That is 36 MB a probe, and
// 7 MB with stacks of kUsualStack calls.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collect/probes/probe.h"

namespace shadowprof::collect {

// Space for one, on its way into the table.
struct ProbeStack {
  std::array<uint64_t, Probe::kMostStack + 1> calls;
  size_t size = 0;

  void add(uint64_t returns_to) { calls[size++] = returns_to; }
  std::span<const uint64_t> all() const { return std::span(calls).first(size); }
};

class ProbeStacks {
 public:
  static constexpr size_t kMostStacks = size_t{1} << 16;
  static constexpr uint64_t kNoMore = 0;  // no code is there

  explicit ProbeStacks(size_t most = kMostStacks) : most_(most) { slots_.resize(kFirstSlots); }

  // Nothing: there is no room for another one.
  std::optional<uint32_t> number_of(const ProbeStack& stack);
  std::span<const uint64_t> calls(uint32_t number) const {
    const Stack& stack = stacks_[number];
    return std::span(calls_).subspan(stack.first, stack.size);
  }
  size_t size() const { return stacks_.size(); }

 private:
  static constexpr size_t kFirstSlots = 256;
  struct Stack {
    uint32_t first = 0;  // of calls_
    uint32_t size = 0;
    uint64_t hash = 0;
  };

  bool is(uint32_t number, uint64_t hash, const ProbeStack& stack) const;
  void grow();

  const size_t most_;
  std::vector<uint32_t> slots_;  // number of a stack + 1; open addressing
  std::vector<Stack> stacks_;
  std::vector<uint64_t> calls_;
};
static_assert(ProbeStacks::kMostStacks * (Probe::kMostStack + 1) < UINT32_MAX);

}  // namespace shadowprof::collect
