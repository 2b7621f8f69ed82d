// SPDX-License-Identifier: MIT
#include "shadow/signal_return.h"

#include <doctest/doctest.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <vector>

namespace shadowprof::shadow {
namespace {

// A copy of the frame that the kernel wrote, with its vector state behind it.
struct Frame {
  ucontext_t context{};
  std::vector<uint8_t> state;
};
Frame* caught = nullptr;

void on_signal(int, siginfo_t*, void* at) {
  std::memcpy(&caught->context, at, offsetof(ucontext_t, uc_sigmask) + sizeof(uint64_t));
  const auto* state = reinterpret_cast<const uint8_t*>(caught->context.uc_mcontext.fpregs);
  uint32_t extended_size = 0;
  std::memcpy(&extended_size, state + 468, sizeof extended_size);
  caught->state.assign(state, state + extended_size);
}

Frame frame_of_a_signal() {
  Frame frame;
  frame.state.reserve(1 << 16);
  caught = &frame;
  struct sigaction action {}, before {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGUSR1, &action, &before);
  ::raise(SIGUSR1);
  ::sigaction(SIGUSR1, &before, nullptr);
  return frame;
}

ptrace::Registers at_sigreturn(const Frame& frame) {
  ptrace::Registers registers{};
  registers.rsp = reinterpret_cast<uint64_t>(&frame.context);
  registers.cs = 0x33;
  registers.ss = 0x2b;
  registers.eflags = 0x202;
  registers.fs_base = 0x1234;
  return registers;
}

std::optional<SignalReturn> read(Frame& frame, size_t state_bytes = 1 << 16) {
  frame.context.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(frame.state.data());
  ptrace::RemoteMemory memory{Tid(::getpid())};
  const ptrace::ExtendedState now(state_bytes);
  return read_signal_frame(memory, at_sigreturn(frame), now);
}

TEST_CASE("a signal frame gives back the registers that were interrupted") {
  Frame frame = frame_of_a_signal();
  const auto back = read(frame);
  REQUIRE(back.has_value());
  const auto& saved = frame.context.uc_mcontext.gregs;
  CHECK(back->registers.rip == static_cast<uint64_t>(saved[REG_RIP]));
  CHECK(back->registers.rsp == static_cast<uint64_t>(saved[REG_RSP]));
  CHECK(back->registers.r15 == static_cast<uint64_t>(saved[REG_R15]));
  CHECK(back->registers.rax == static_cast<uint64_t>(saved[REG_RAX]));
  CHECK(back->registers.fs_base == 0x1234);
  CHECK(back->registers.orig_rax == machine::kNoSyscall);
  CHECK(back->signal_mask == *reinterpret_cast<const uint64_t*>(&frame.context.uc_sigmask));
  // x87 control word and xmm0 to xmm15.
  CHECK(std::memcmp(back->extended.data(), frame.state.data(), 2) == 0);
  CHECK(std::memcmp(back->extended.data() + 160, frame.state.data() + 160, 256) == 0);
}

TEST_CASE("a signal frame that is not well-formed is refused") {
  const Frame good = frame_of_a_signal();
  const auto refused = [&](auto damage) {
    Frame frame = good;
    damage(frame);
    return !read(frame).has_value();
  };
  CHECK(!refused([](Frame&) {}));
  CHECK(refused([](Frame& f) { f.state[464]++; }));                        // first magic number
  CHECK(refused([](Frame& f) { f.state[f.state.size() - 1]++; }));         // second one
  CHECK(refused([](Frame& f) { f.state[27] = 0xff; }));                    // bits of mxcsr
  CHECK(refused([](Frame& f) { f.state[527] = 0x80; }));                   // compacted
  CHECK(refused([](Frame& f) { f.context.uc_mcontext.gregs[REG_EFL] |= 0x100; }));
  CHECK(refused([](Frame& f) { f.context.uc_mcontext.gregs[REG_CSGSFS] ^= 0x10; }));  // 32-bit code
  Frame frame = good;
  CHECK(!read(frame, 600).has_value());  // state that this thread has no room for
  frame.context.uc_mcontext.fpregs = nullptr;
  ptrace::RemoteMemory memory{Tid(::getpid())};
  CHECK(!read_signal_frame(memory, at_sigreturn(frame), ptrace::ExtendedState(1 << 16)));
  ptrace::Registers nowhere = at_sigreturn(frame);
  nowhere.rsp = 0x10;
  CHECK(!read_signal_frame(memory, nowhere, ptrace::ExtendedState(1 << 16)));
}

}  // namespace
}  // namespace shadowprof::shadow
