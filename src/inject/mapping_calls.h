// SPDX-License-Identifier: MIT
//
// System calls by which memory comes and goes, or may change: whether they reach what is ours or
// what was translated, and what they have changed.
#pragma once

#include "base/types.h"
#include "cache/address_space.h"
#include "machine/registers.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::inject {

// The pages of so many bytes; none where that is more than there is: the kernel refuses it.
GuestRange pages(uint64_t address, uint64_t bytes);

// `regs` are those before the call, one that changes mappings.
//
// Where it wants memory to be, or not to be.
GuestRange wanted_by(const machine::Registers& regs);
// Does it reach memory that the engine has mapped?
bool changes_ours(const cache::AddressSpace& space, const machine::Registers& regs);
// It is about memory that nobody can execute, before the call and after it.
bool is_about_data(cache::AddressSpace& space, const machine::Registers& regs);
// What was translated of what has changed is dropped. Any call will do.
void note_mapping_call(cache::AddressSpace& space, const machine::Registers& before,
                       const machine::Registers& after);

bool is_open_call(long number);
// Does that call of the thread's open a process's memory for writing? Then code can change unseen
// in any page.
bool opens_memory(const machine::Registers& regs, Tid thread, ptrace::RemoteMemory& memory);

}  // namespace shadowprof::inject
