// SPDX-License-Identifier: MIT
#include "ptrace/start_stack.h"

#include <elf.h>

#include "ptrace/remote_memory.h"

namespace shadowprof::ptrace {
namespace {

// The address behind the zero that ends an array of pointers.
Result<GuestAddr> behind_pointers(RemoteMemory& memory, GuestAddr at) {
  for (;;) {
    SP_ASSIGN(const uint64_t pointer, memory.read_value<uint64_t>(at));
    at = at + sizeof pointer;
    if (pointer == 0) return at;
  }
}

}  // namespace

Status hide_vdso(Tracee program) {
  Registers regs;
  if (!program.get_registers_if_alive(regs)) return thread_is_gone(program.tid());
  RemoteMemory memory(program.tid());
  const GuestAddr arguments = GuestAddr(regs.rsp) + sizeof(uint64_t);  // behind their number
  SP_ASSIGN(const GuestAddr environment, behind_pointers(memory, arguments));
  SP_ASSIGN(GuestAddr at, behind_pointers(memory, environment));
  for (;; at = at + sizeof(Elf64_auxv_t)) {
    SP_ASSIGN(Elf64_auxv_t entry, memory.read_value<Elf64_auxv_t>(at));
    if (entry.a_type == AT_NULL) return {};
    if (entry.a_type != AT_SYSINFO_EHDR) continue;
    entry.a_type = AT_IGNORE;
    return memory.write_value(at, entry);
  }
}

}  // namespace shadowprof::ptrace
