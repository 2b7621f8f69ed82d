// SPDX-License-Identifier: MIT
//
// The system calls by which a program learns whose it is, and whose files are, answered for one
// user (machine/machine_facts.h): the program is that user's, and so are all files.
//
//   asked     getuid and the like, getgroups: answered here
//   told      stat and the like: the owner in what the kernel has answered is replaced
//   taken on  setuid and the like of that very user: nothing is to be done; of another one the
//             kernel does it, and from then on the process is told the truth
//   given     chown and the like to that user: a call in its place leaves the owner as it is
//
// What the program may do remains what its real user may do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "machine/registers.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::inject {

struct UserCall {
  const machine::Registers& regs;
  ptrace::RemoteMemory& memory;
  bool& has_changed;  // of a process: it has become another user

  long number() const { return static_cast<int>(regs.rax); }
};

std::span<const unsigned> user_calls();
// Is it one that something of the above is done for?
bool concerns_user(const UserCall& call);
// What it returns. Nothing: the kernel is to answer it.
std::optional<int64_t> answer_user_call(const UserCall& call);
// The call that is made in its place; none for most.
std::optional<machine::Registers> call_in_its_place(const UserCall& call);
// The kernel has answered it, and without an error.
void mend_user_call(const UserCall& call);

}  // namespace shadowprof::inject
