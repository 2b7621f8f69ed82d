// SPDX-License-Identifier: MIT
#include "ptrace/start_stack.h"

#include <elf.h>

#include <array>
#include <cstdint>

#include "ptrace/remote_memory.h"

namespace shadowprof::ptrace {
namespace {

constexpr std::array<uint8_t, 16> kNotRandom = {0x3b, 0x91, 0x5e, 0xc4, 0x27, 0xd8, 0x6a, 0xf0,
                                                0x8c, 0x13, 0xb5, 0x49, 0xe6, 0x72, 0x0d, 0xaf};

// The address behind the zero that ends an array of pointers.
Result<GuestAddr> behind_pointers(RemoteMemory& memory, GuestAddr at) {
  for (;;) {
    SP_ASSIGN(const uint64_t pointer, memory.read_value<uint64_t>(at));
    at = at + sizeof pointer;
    if (pointer == 0) return at;
  }
}

// Where the auxiliary vector begins.
Result<GuestAddr> find_vector(RemoteMemory& memory, Tracee program) {
  Registers regs;
  if (!program.get_registers_if_alive(regs)) return thread_is_gone(program.tid());
  const GuestAddr arguments = GuestAddr(regs.rsp) + sizeof(uint64_t);  // behind their number
  SP_ASSIGN(const GuestAddr environment, behind_pointers(memory, arguments));
  return behind_pointers(memory, environment);
}

}  // namespace

Status fix_start(Tracee program) {
  RemoteMemory memory(program.tid());
  SP_ASSIGN(GuestAddr at, find_vector(memory, program));
  for (;; at = at + sizeof(Elf64_auxv_t)) {
    SP_ASSIGN(Elf64_auxv_t entry, memory.read_value<Elf64_auxv_t>(at));
    if (entry.a_type == AT_NULL) return {};
    if (entry.a_type == AT_RANDOM) {
      SP_TRY(memory.write_value(GuestAddr(entry.a_un.a_val), kNotRandom));
    } else if (entry.a_type == AT_SYSINFO_EHDR) {
      entry.a_type = AT_IGNORE;
      SP_TRY(memory.write_value(at, entry));
    }
  }
}

}  // namespace shadowprof::ptrace
