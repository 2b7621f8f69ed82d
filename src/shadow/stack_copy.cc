// SPDX-License-Identifier: MIT
#include "shadow/stack_copy.h"

#include <algorithm>
#include <cstring>

namespace shadowprof::shadow {
namespace {

// With more no more stacks were whole (python3 all of them, cc1plus 60 to 80 %).
constexpr uint64_t kMostStackBytes = uint64_t{32} << 10;

}  // namespace

StackCopy::StackCopy(machine::MemorySource& memory, GuestAddr pointer, GuestRange stack)
    : memory_(memory), stack_(stack), start_(pointer.page()) {
  if (!stack.contains(pointer)) return;
  const auto wanted = static_cast<uint64_t>(stack.end - start_);
  bytes_.resize(std::min(wanted, kMostStackBytes));
  bytes_.resize(memory.read_some(start_, bytes_));
}

size_t StackCopy::read_some(GuestAddr from, std::span<uint8_t> out) {
  if (!stack_.contains(from)) return memory_.read_some(from, out);
  if (from < start_) return 0;
  const auto at = static_cast<size_t>(from - start_);
  if (at >= bytes_.size()) return 0;
  const size_t n = std::min(out.size(), bytes_.size() - at);
  std::memcpy(out.data(), &bytes_[at], n);
  return n;
}

}  // namespace shadowprof::shadow
