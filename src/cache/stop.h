// SPDX-License-Identifier: MIT
//
// What it means that a thread of the code cache has stopped for a signal. Both executors of cache
// code, that of full mode and bursts (inject/engine.h) and that of replicas (shadow/executor.h),
// switch on the answer; what they do then is their own.
//
// An int3 of ours has executed (Stop::is_trap). `at` is its place, and `pc` where the guest is:
// nothing of what the guest has there has happened. r15 is the trace cursor, or when only counting
// the state page; the guest's r15 is in the state page. All other registers are the guest's but
// for those that are named here. At the first five the guest is between two fragments, and all
// that it has executed is recorded. At the last four it is at a point (`at.point`) of one, and what
// it has executed of that one is not recorded.
//
//   miss             goes to `pc` by the exit `at.exit`, which is not linked
//   branch_miss      goes to `pc` by an indirect branch, for which that has no entry. rcx is the
//                    key; the guest's rcx and rdx are parked (emu/translate/slot_layout.h). If `pc`
//                    can be no address, the branch was to fault and has not
//   log_full         the same, and the log of such pairs, which counting has, is full. `pc` is
//                    not set: it is the start of the block that the last entry names
//   stale            before the fragment `at.fragment`, which was dropped, or is not what the guest
//                    has at `pc` any more
//   system_call      before the call at `pc`, which the gateway leaves to us. The registers are
//                    those of the call: at the gateway's syscall instruction the thread makes it
//   call_over        behind a call, at `pc`, because the slot says that it is to stop there
//   turn_over        in inserted code, which goes on as it is: between two fragments, or before the
//                    target of an indirect branch is looked up. `pc` is not set
//   stored_pointer   behind the instruction at `pc`, which has executed, and has stored the x87
//                    unit's pointer: an address in the cache. The thread may go on as it is
//   sets_trap_flag   before a popf that is about to set the trap flag
//   native_insn      before an instruction that has to be executed at its own address. It is
//                    alone in its fragment
//   unsupported      before code that must not be executed under the engine: unsupported_reason
//                    of the fragment says why
//
// An instruction in the cache has failed, and nothing of it has happened. `at` is where it is.
//
//   full_buffer      a store into the guard page of the buffer that is being filled. r15 is the
//                    cursor: what is before it is recorded, and from there to the guard page is
//                    the beginning of a record. When both have moved to another buffer, the
//                    thread goes on as it is
//   unaligned        the program wants all accesses to be aligned (eflags.AC), and this one, of a
//                    record or its own, is not
//   unreadable_code  `at.fragment` cannot read the code that it compares itself with, and has
//                    executed nothing yet. The guest's rcx and rdx are in the state page
//   unreadable_mask  the gateway cannot read the mask that the call at `pc` is to set; else as at
//                    system_call
//   read_ahead       what the record was to have of a store's place could not be read; whether the
//                    store faults, and how, its instruction will tell
//   fault            any other; at a point it is the guest's own
//
// The rest says nothing of the cache, wherever in it the thread is (`at`).
//
//   watchpoint       an instruction has executed, for which a debug register waited
//   step             a hardware step is over
//   sent             somebody has sent the signal, so it may be kept back. `at` is not set
#pragma once

#include <csignal>
#include <cstdint>

#include "cache/slots.h"
#include "emu/code_cache.h"
#include "machine/registers.h"

namespace shadowprof::cache {

struct Stop {
  enum class Kind : uint8_t {
    miss,
    branch_miss,
    log_full,
    stale,
    system_call,
    call_over,
    turn_over,
    stored_pointer,
    sets_trap_flag,
    native_insn,
    unsupported,  // the last int3
    full_buffer,
    unaligned,
    unreadable_code,
    unreadable_mask,
    read_ahead,
    fault,
    watchpoint,
    step,
    sent,
  };
  Kind kind = Kind::sent;
  emu::CachePosition at{};
  GuestAddr pc{};

  // By an int3 of ours.
  bool is_trap() const { return kind <= Kind::unsupported; }
};

// For a thread in engine context, whose slot this is, and which fills this one of its buffers.
// `regs` and `info` are as the kernel has them (ptrace/signal_cause.h).
Stop decode_stop(const emu::CodeCache& cache, const Slot& slot, size_t buffer,
                 const machine::Registers& regs, const siginfo_t& info);
// For one in guest context: nothing of ours.
Stop decode_guest_stop(const machine::Registers& regs, const siginfo_t& info);

// The guest's program counter, for a thread of the cache with these registers that is at `at`,
// which is exact but for log_full.
GuestAddr guest_pc(const emu::CodeCache& cache, const Slot& slot, const machine::Registers& regs,
                   const emu::CachePosition& at);
// The indirect branch that has missed; its number is part of the key in rcx.
RunId branching_site(const emu::CodeCache& cache, const Slot& slot);

}  // namespace shadowprof::cache
