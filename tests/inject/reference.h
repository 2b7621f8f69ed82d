// SPDX-License-Identifier: MIT
//
// What a program really does, instruction by instruction: the judge of recorded values.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "decoder/insn.h"

namespace shadowprof::inject_test {

struct Moment {  // right before an instruction
  GuestAddr pc;
  std::array<uint64_t, 16> gpr{};  // encoding order
  // What a compare, store or division that names memory will find there, and what the instruction
  // before has left in its vector register (the low 64 bits) or mask register.
  uint64_t memory = 0;
  uint64_t element = 0;
};

// Runs forward; at() may only be asked for numbers that do not fall, or fall by one.
class Reference {
 public:
  virtual ~Reference() = default;
  // The moment before instruction `n`, counted from the program's first; null behind the last.
  virtual const Moment* at(size_t n) = 0;
  virtual const decoder::Insn& insn(GuestAddr pc) = 0;
};

// The environment of all runs. Restartable sequences are refused on some hosts (docs/full-mode.md),
// so the C library does not ask for them.
inline constexpr char kEnvironment[] = "GLIBC_TUNABLES=glibc.pthread.rseq=0";

// By the processor: every instruction of the program single-stepped, addresses not randomised. A
// repeated string instruction, which traps after each iteration, is one.
std::unique_ptr<Reference> step_on_hardware(const std::vector<std::string>& program);

// Where the kernel puts the stack of a program without arguments.
uint64_t first_stack_pointer(const std::string& program);

// By arithmetic: what capture_long.S was written to do. Its stack begins at `stack`.
std::unique_ptr<Reference> model_of_long(const std::string& program, uint64_t stack);

}  // namespace shadowprof::inject_test
