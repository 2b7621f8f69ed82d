// SPDX-License-Identifier: MIT
#include "shadow/branch_counter.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "kernel/proc.h"
#include "ptrace/wait.h"
#include "shadow/replica.h"
#include "twin.h"

// rax counts from 0 to rdi. The branch in the middle lies between a comparison and who asks for it.
extern "C" const uint8_t counted_loop[], counted_loop_branch[], counted_loop_target[],
    counted_loop_end[];
asm(R"(
  .text
  .balign 64
counted_loop:
  xor %eax, %eax
1:
  lea (%rdi, %rax), %rcx
  add $1, %rax
  cmp %rdi, %rax
counted_loop_branch:
  .byte 0xe9
  .long counted_loop_target - . - 4
  .balign 16
counted_loop_target:
  .byte 0x48, 0x8d, 0x94, 0x07  # lea -1(%rdi, %rax), %rdx
  .long -1
  cmove %rdx, %rcx
  xor %rcx, %rdx
  jnz counted_loop_end
  cmp %rdi, %rax
  jb 1b
counted_loop_end:
  int3
)");

namespace shadowprof::shadow {
namespace {

GuestAddr place_of(const uint8_t* code) {
  return GuestAddr(reinterpret_cast<uint64_t>(code));
}

const CountedPlace kLoopBranch{place_of(counted_loop_branch), place_of(counted_loop_branch) + 5,
                               place_of(counted_loop_target)};

// The instruction that the branch leads to: lea -1(%rdi, %rax), %rdx
CountedPlace loop_insn() {
  const GuestAddr at = place_of(counted_loop_target);
  const auto insn = emu::first_movable_insn({counted_loop_target, 16}, at);
  REQUIRE(insn);
  REQUIRE(insn->at == at);
  return {at, at + insn->length, at + insn->length, insn};
}

class CountingTwin {
 public:
  explicit CountingTwin(const CountedPlace& place = kLoopBranch)
      : tracee(ptrace::seize(twin_.tid(), kReplica.options).value()) {
    REQUIRE(tracee.interrupt_if_alive());
    REQUIRE(ptrace::wait_for_stop(twin_.tid()));
    const auto mappings = kernel::read_maps(twin_.tid()).value();
    ptrace::RemoteMemory memory(twin_.tid());
    const auto syscall =
        ptrace::find_syscall_instruction(kernel::executable_ranges(mappings), memory);
    REQUIRE(syscall);
    ptrace::RemoteSyscalls remote(tracee, *syscall, kReplica);
    REQUIRE(counter.make_room(remote, mappings, {&place, 1}));
    REQUIRE(remote.finish());
  }
  void begin(uint64_t times) {
    ptrace::Registers registers = tracee.must_get_registers();
    registers.rip = place_of(counted_loop).value;
    registers.rdi = times;
    registers.orig_rax = machine::kNoSyscall;
    tracee.must_set_registers(registers);
  }
  // To the end of the loop.
  ptrace::Registers run() {
    REQUIRE(tracee.cont_if_alive());
    REQUIRE(ptrace::wait_for_stop(twin_.tid()));
    return tracee.must_get_registers();
  }
  ptrace::Registers step() {
    REQUIRE(tracee.step_if_alive());
    REQUIRE(ptrace::wait_for_stop(twin_.tid()));
    return tracee.must_get_registers();
  }

 private:
  Twin twin_;

 public:
  ptrace::Tracee tracee;
  BranchCounter counter{twin_.tid()};
};

uint64_t only(const Result<std::vector<uint64_t>>& passes) {
  REQUIRE(passes);
  REQUIRE(passes->size() == 1);
  return passes->front();
}

TEST_CASE("passes of a place are counted, and nothing else changes") {
  CountedPlace place = kLoopBranch;
  SUBCASE("a branch") {}
  SUBCASE("another instruction") {
    place = loop_insn();
  }
  CountingTwin twin(place);
  twin.begin(1000);
  REQUIRE(twin.counter.attach({&place, 1}));
  CHECK(twin.counter.is_attached());
  CHECK(twin.run().rax == 1000);
  CHECK(only(twin.counter.passes()) == 1000);
  REQUIRE(twin.counter.detach());
  twin.begin(500);
  CHECK(twin.run().rax == 500);
  REQUIRE(twin.counter.attach({&place, 1}));
  CHECK(only(twin.counter.passes()) == 1000);
  twin.begin(10);
  CHECK(twin.run().rax == 10);
  CHECK(only(twin.counter.passes()) == 1010);
}

TEST_CASE("who is stopped among the counter's instructions is behind the branch") {
  CountingTwin twin;
  twin.begin(3);
  REQUIRE(twin.counter.attach({&kLoopBranch, 1}));
  int within = 0;
  for (int steps = 0; steps < 30; steps++) {
    ptrace::Registers stopped = twin.step();
    ptrace::Registers guest = stopped;
    REQUIRE(twin.counter.outside(guest));
    if (guest.rip == stopped.rip) continue;
    within++;
    CHECK(guest.pc() == kLoopBranch.target);
    CHECK(guest.rcx == guest.rdi + guest.rax - 1);
    CHECK(guest.eflags == stopped.eflags);
  }
  CHECK(within >= 6);
}

TEST_CASE("a branch and what it leads to are counted together") {
  const std::array<CountedPlace, 2> places{kLoopBranch, loop_insn()};
  CountingTwin twin(places[0]);
  REQUIRE(twin.counter.has_room_for(places));
  twin.begin(100);
  REQUIRE(twin.counter.attach(places));
  CHECK(twin.run().rax == 100);
  const auto passes = twin.counter.passes();
  REQUIRE(passes);
  CHECK(*passes == std::vector<uint64_t>{100, 100});
}

TEST_CASE("who is stopped there is before an instruction or behind it") {
  const CountedPlace place = loop_insn();
  CountingTwin twin(place);
  twin.begin(3);
  REQUIRE(twin.counter.attach({&place, 1}));
  int before = 0, behind = 0;
  for (int steps = 0; steps < 40; steps++) {
    ptrace::Registers stopped = twin.step();
    ptrace::Registers guest = stopped;
    REQUIRE(twin.counter.outside(guest));
    if (guest.rip == stopped.rip) continue;
    CHECK(guest.rcx == guest.rdi + guest.rax - 1);
    CHECK(guest.eflags == stopped.eflags);
    if (guest.pc() == place.at) before++;
    if (guest.pc() != place.next) continue;
    behind++;
    CHECK(guest.rdx == guest.rdi + guest.rax - 1);
  }
  CHECK(before >= 10);
  CHECK(behind >= 2);
}

TEST_CASE("code that is not what it was is left alone") {
  CountedPlace other = kLoopBranch;
  SUBCASE("a branch") {
    other.target = other.target + 1;
  }
  SUBCASE("another instruction") {
    other = loop_insn();
    other.insn->bytes[other.insn->length - 1u]++;
  }
  CountingTwin twin;
  REQUIRE(twin.counter.attach({&other, 1}));
  CHECK_FALSE(twin.counter.is_attached());
}

TEST_CASE("memory that is no file's is no place to count") {
  CountingTwin twin;
  static uint8_t data[64];
  const CountedPlace elsewhere{place_of(data), place_of(data) + 5, place_of(data) + 5};
  ptrace::RemoteSyscalls remote(twin.tracee, GuestAddr(), kReplica);
  const auto mappings = kernel::read_maps(twin.tracee.tid()).value();
  CHECK_FALSE(twin.counter.make_room(remote, mappings, {&elsewhere, 1}));
}

}  // namespace
}  // namespace shadowprof::shadow
