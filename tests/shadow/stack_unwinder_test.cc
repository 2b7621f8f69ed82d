// SPDX-License-Identifier: MIT
//
// The unwinder on this very process: what a function was called from is known here by other means.
#include "shadow/stack_unwinder.h"
#include "shadow/emulator_space.h"

#include <doctest/doctest.h>
#include <elf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace shadowprof {
namespace {

using shadow::CallStack;

std::vector<uint64_t> expected;  // return addresses, innermost first
machine::Registers seen;

__attribute__((noinline)) void note_return(void* address) {
  expected.insert(expected.begin(), reinterpret_cast<uint64_t>(address));
}

// Registers as they are at a label in this function.
#define TAKE_REGISTERS(r)                                                                    \
  asm volatile(                                                                              \
      "lea 1f(%%rip), %%rax\n mov %%rax, %0\n mov %%rsp, %1\n mov %%rbp, %2\n mov %%rbx, %3\n" \
      "mov %%r12, %4\n mov %%r13, %5\n mov %%r14, %6\n mov %%r15, %7\n 1: nop"                \
      : "=m"((r).rip), "=m"((r).rsp), "=m"((r).rbp), "=m"((r).rbx), "=m"((r).r12),           \
        "=m"((r).r13), "=m"((r).r14), "=m"((r).r15)                                          \
      :                                                                                      \
      : "rax", "memory")

CallStack unwind() {
  static shadow::StackUnwinder unwinder;
  const auto mappings = kernel::read_maps(Tid(::getpid()));
  REQUIRE(mappings.has_value());
  unwinder.set_mappings(*mappings);
  shadow::ProcessMemory memory{Tid(::getpid())};
  return unwinder.unwind(memory, seen);
}

// The stack must still be there when it is looked at: so the innermost function does it.
CallStack result;

__attribute__((noinline)) int innermost() {
  note_return(__builtin_return_address(0));
  TAKE_REGISTERS(seen);
  result = unwind();
  asm volatile("" ::: "memory");
  return static_cast<int>(expected.size());
}

__attribute__((noinline)) int middle(int n) {
  if (expected.empty()) note_return(__builtin_return_address(0));
  const int below = n > 0 ? middle(n - 1) : innermost();
  asm volatile("" ::: "memory");  // the call is no tail call, and the recursion no loop
  return below + 1;
}

bool has(const CallStack& stack, uint64_t address) {
  return std::any_of(stack.callers.begin(), stack.callers.end(),
                     [&](const CallStack::Caller& c) { return c.address.value == address; });
}

TEST_CASE("a stack is the return addresses of its functions, up to the thread's start") {
  expected.clear();
  CHECK(middle(3) > 0);
  REQUIRE(expected.size() == 2);  // of innermost(), and of the outermost middle()
  REQUIRE(result.callers.size() > 5);
  CHECK(result.callers[0].address.value == expected[0]);
  CHECK(result.callers[4].address.value == expected[1]);
  for (size_t i = 2; i < 4; i++)
    CHECK(result.callers[i].address.value == result.callers[1].address.value);
  CHECK(result.whole);
  CHECK(std::none_of(result.callers.begin(), result.callers.end(),
                     [](const CallStack::Caller& c) { return c.exact; }));
}

TEST_CASE("code without unwind tables ends the stack, and nothing is guessed behind it") {
  // sub $8, %rsp; call *%rdi; add $8, %rsp; ret
  constexpr uint8_t kCode[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};
  constexpr uint64_t kReturnPoint = 6;
  void* page = ::mmap(nullptr, limits::kPageBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    MESSAGE("skipped: this host allows no memory that is writable and executable");
    return;
  }
  std::memcpy(page, kCode, sizeof kCode);
  expected.clear();
  reinterpret_cast<void (*)(int (*)())>(page)(innermost);
  const uint64_t in_page = reinterpret_cast<uint64_t>(page) + kReturnPoint;
  REQUIRE(result.callers.size() == 1);
  CHECK(result.callers[0].address.value == in_page);
  CHECK(!result.whole);
  ::munmap(page, limits::kPageBytes);
}

uint64_t interrupted_at = 0;

void on_signal(int, siginfo_t*, void* context) {
  const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  interrupted_at = static_cast<uint64_t>(registers[REG_RIP]);
  innermost();
}

TEST_CASE("what a signal interrupted is not taken for a return address") {
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO;
  REQUIRE(::sigaction(SIGUSR1, &action, nullptr) == 0);
  expected.clear();
  REQUIRE(::raise(SIGUSR1) == 0);
  REQUIRE(has(result, interrupted_at));
  for (const CallStack::Caller& c : result.callers)
    CHECK(c.exact == (c.address.value == interrupted_at));
  CHECK(result.whole);
}

TEST_CASE("where the kernel enters the dynamic loader nobody has called it") {
  const uint64_t loader = ::getauxval(AT_BASE);
  if (loader == 0) {
    MESSAGE("skipped: this test is a static program");
    return;
  }
  Elf64_Ehdr header{};
  std::memcpy(&header, reinterpret_cast<const void*>(loader), sizeof header);
  TAKE_REGISTERS(seen);
  seen.rip = loader + header.e_entry;
  const CallStack stack = unwind();
  CHECK(stack.whole);
  CHECK(stack.callers.empty());
}

TEST_CASE("the record of a stack says how long it is, and whether that is all of it") {
  CallStack stack;
  stack.callers = {{GuestAddr(0x1234'5678'9abc), false}, {GuestAddr(0x10), true}};
  const auto words = shadow::start_of_trace(5, &stack);
  REQUIRE(words.size() == 8);
  CHECK(trace::special_kind(words[0]) == trace::SpecialKind::sample_start);
  CHECK(trace::special_length(words[0]) == 8);
  CHECK(words[3] == 0);
  CHECK(words[4] == 0x5678'9abc);
  CHECK(words[5] == 0x1234);
  CHECK(words[7] == 0x8000'0000);
  CHECK(shadow::start_of_trace(5, nullptr).size() == 3);
}

}  // namespace
}  // namespace shadowprof
