// SPDX-License-Identifier: MIT
//
// A stack for the signal handlers of native cells (cells.h), which may have the guest's stack
// pointer in the processor when they fault. For the present thread, while the object lives.
#pragma once

#include <csignal>
#include <memory>

namespace shadowprof::emu {

class SignalStack {
 public:
  SignalStack() {
    constexpr size_t kBytes = size_t{64} << 10;
    thread_local const std::unique_ptr<char[]> memory(new char[kBytes]);
    stack_t stack{};
    stack.ss_sp = memory.get();
    stack.ss_size = kBytes;
    ::sigaltstack(&stack, &former_);
  }
  ~SignalStack() { ::sigaltstack(&former_, nullptr); }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  stack_t former_{};
};

}  // namespace shadowprof::emu
