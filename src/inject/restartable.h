// SPDX-License-Identifier: MIT
//
// Restartable sequences as the program describes them (rseq(2), linux/rseq.h): a thread stores the
// address of a descriptor into its struct rseq and executes the instructions that the descriptor
// names; when the kernel takes it off its processor, or signals it, between their beginning and
// their end, it goes on at their abort address.
#pragma once

#include <optional>
#include <vector>

#include "base/types.h"
#include "decoder/insn.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::inject {

struct RestartableSequence {
  GuestRange code;
  GuestAddr abort;
};

// Where a thread's struct rseq holds the descriptor's address: eight aligned bytes.
inline GuestAddr sequence_pointer(GuestAddr rseq) {
  return rseq + 8;
}

// The one that a thread has announced. Nothing: none, or its descriptor cannot be read.
std::optional<RestartableSequence> announced_sequence(ptrace::RemoteMemory& memory, GuestAddr rseq);

// Every address that control can reach from within but by the kernel's doing, the abort address
// included. Nothing: they cannot be told, as it calls, returns, or jumps through a register, or is
// longer than any sequence should be.
std::optional<std::vector<GuestAddr>> ways_out(ptrace::RemoteMemory& memory,
                                               const RestartableSequence& sequence);

// May be executed twice in a row: stores eight bytes and changes nothing else.
bool is_plain_store(const decoder::Insn& insn);

}  // namespace shadowprof::inject
