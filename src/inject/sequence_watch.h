// SPDX-License-Identifier: MIT
//
// Restartable sequences of the program (restartable.h). The kernel compares the program counter
// with the program's addresses, so a sequence is executed there, by the program's own instructions:
//
//   registered   a data breakpoint on the pointer tells when a thread announces a sequence
//   announced    the thread, in the cache, is right behind the store. When it is resumed, what it
//                has announced is forgotten by the kernel, as a thread in the cache is in no
//                sequence; and had it stopped inside the sequence, it would have been taken off its
//                processor there. So it goes back to the store, in guest context, and executes that
//                once more, with breakpoints wherever the sequence can be left
//   under way    the kernel aborts it when it must. Any stop but that of a breakpoint is an
//                interruption like those: it is aborted by us
//   left         the thread goes on in the cache
//
// What a sequence executes is not recorded. A thread that announces one while it is brought to
// guest context has been interrupted, too. A program whose sequences cannot be run so leaves the
// engine. In bursts who announces one is interrupted, and leaves.
#pragma once

#include <csignal>
#include <optional>

#include "decoder/insn.h"
#include "inject/guest_process.h"
#include "inject/guest_thread.h"
#include "inject/restartable.h"
#include "ptrace/wait.h"
#include "trace/block_table.h"

namespace shadowprof::inject {

// `regs` are the guest's before rseq(2). False: it is to be refused. Where its area may be the
// kernel judges, so any address will do to find out.
bool can_watch_sequences(GuestThread& t, const ptrace::Registers& regs);
// The call was made with these.
void after_rseq(GuestThread& t, const ptrace::Registers& before);
// Where the thread, or its parent's before it was forked, has registered its struct rseq; null:
// nowhere.
Status set_rseq(GuestThread& t, GuestAddr rseq);

// Was it stopped by the breakpoint on its pointer, or by one where a sequence is left?
bool met_breakpoint(const GuestThread& t, const siginfo_t& info, const ptrace::Registers& regs);
// What the thread has announced while it was on its way to guest context.
void note_announced_sequence(GuestThread& t);
// The thread is in guest context with these registers, which are not yet set.
void abort_announced_sequence(GuestThread& t, ptrace::Registers& regs);
void abort_sequence(GuestThread& t, const RestartableSequence& sequence, ptrace::Registers& regs);
// A thread with a sequence under way has stopped: it is in guest context behind it, or where it has
// been aborted. True: a breakpoint has stopped it, and there is nothing else to do about the stop.
bool end_sequence(GuestThread& t, const ptrace::WaitStatus& stop);

// The instruction before `pc`, which the thread has just executed in `fragment`.
std::optional<decoder::Insn> insn_before(const trace::BlockTable& table, const GuestThread& t,
                                         FragmentId fragment, GuestAddr pc);

}  // namespace shadowprof::inject
