// SPDX-License-Identifier: MIT
//
// Where a program has been seen to be: program counters, and what its stacks hold. Gathered while
// its threads stand still, which must not take long; sorted out when they run again.
#pragma once

#include <span>
#include <vector>

#include "emu/code_source.h"
#include "ptrace/tracee.h"

namespace shadowprof::sample {

class SeenCode {
 public:
  // A thread with these registers, whose memory is that of `process`.
  void look(Tid process, const ptrace::Registers& registers);
  // The addresses at which it was, or to which it will return. Forgotten here.
  std::vector<GuestAddr> take(emu::CodeSource& source);
  void forget();

 private:
  std::vector<GuestAddr> pcs_;
  std::vector<uint64_t> stack_;
};

}  // namespace shadowprof::sample
