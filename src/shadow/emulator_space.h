// SPDX-License-Identifier: MIT
//
// What outlives the single sample of the interpreter: the code that it has lowered. Each sample has
// a replica of its own, whose memory is looked at from here.
#pragma once

#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "base/zeroed_array.h"
#include "cache/guest_code.h"
#include "emu/interpret/emulator.h"
#include "machine/memory_view.h"
#include "shadow/stack_unwinder.h"

namespace shadowprof::shadow {

class EmulatorSpace {
 public:
  explicit EmulatorSpace(trace::BlockTable& table);

  // `process` is stopped, and has the code that its mappings say.
  void prepare(Tid process, const std::vector<kernel::Mapping>& mappings);

  emu::Emulator& emulator() { return emulator_; }
  const emu::Emulator& emulator() const { return emulator_; }
  cache::GuestCode& code() { return code_; }
  StackUnwinder& unwinder() { return unwinder_; }
  const trace::BlockTable& table() const { return table_; }
  // One sample at a time fills them.
  static constexpr size_t kBuffers = 2;
  std::span<trace::Word> buffer(size_t which) { return buffers_[which].span(); }

 private:
  const trace::BlockTable& table_;
  cache::GuestCode code_;
  emu::Emulator emulator_;
  StackUnwinder unwinder_;
  static constexpr size_t kBufferWords = limits::kTraceBufferBytes / sizeof(trace::Word);
  ZeroedArray<trace::Word> buffers_[kBuffers] = {ZeroedArray<trace::Word>(kBufferWords),
                                                 ZeroedArray<trace::Word>(kBufferWords)};
};

// What its pages are fetched from.
class ProcessMemory : public machine::MemorySource {
 public:
  // A page that is not in memory may be one that a thread of the program must provide first, for
  // which nobody can wait who has stopped it (kernel/user_faults.h).
  enum class Missing : uint8_t { fetched, refused };
  explicit ProcessMemory(Tid process, Missing missing = Missing::fetched)
      : memory_(process), missing_(missing) {}
  size_t read_some(GuestAddr from, std::span<uint8_t> out) override;

 private:
  bool is_in_memory(uint64_t page);

  ptrace::RemoteMemory memory_;
  Missing missing_;
  UniqueFd page_map_{};
};

// A process's mappings as its memory is viewed. The kernel's vvar pages cannot be read from
// outside; they are the same in our process, unless `process` is in a time namespace of its own.
std::vector<machine::MemoryArea> memory_areas(Tid process,
                                              const std::vector<kernel::Mapping>& mappings);

}  // namespace shadowprof::shadow
