// SPDX-License-Identifier: MIT
#include "sample/seen_code.h"

#include <utility>

#include "emu/translate/prefill.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::sample {
namespace {

// How much of a stack is searched for return addresses.
constexpr size_t kStackWords = 256;

}  // namespace

void SeenCode::look(Tid process, const ptrace::Registers& registers) {
  pcs_.push_back(registers.pc());
  const size_t before = stack_.size();
  stack_.resize(before + kStackWords);
  const std::span<uint64_t> words = std::span(stack_).subspan(before);
  const size_t bytes = ptrace::RemoteMemory(process).read_some(
      registers.sp(), {reinterpret_cast<uint8_t*>(words.data()), words.size_bytes()});
  stack_.resize(before + bytes / sizeof(uint64_t));
}

std::vector<GuestAddr> SeenCode::take(emu::CodeSource& source) {
  std::vector<GuestAddr> seen = std::exchange(pcs_, {});
  for (uint64_t word : std::exchange(stack_, {})) {
    if (emu::is_return_point(source, GuestAddr(word))) seen.push_back(GuestAddr(word));
  }
  return seen;
}

void SeenCode::forget() {
  pcs_.clear();
  stack_.clear();
}

}  // namespace shadowprof::sample
