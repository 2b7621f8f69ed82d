// SPDX-License-Identifier: MIT
#include "inject/call_kinds.h"

#include <sys/syscall.h>

namespace shadowprof::inject {
namespace {

// Calls that change mappings, signal handling or the GS base behind the translator's back, or that
// end the address space (the trace cursor is needed then), or open files that may be memory. Those
// that make a child, since bursts are not for children.
// rseq is here because restartable sequences are executed in guest context (engine_sequences.cc).
constexpr unsigned kTracerCalls[] = {
    SYS_mprotect,       SYS_munmap,        SYS_mremap,        SYS_remap_file_pages,
    SYS_shmat,          SYS_shmdt,         SYS_pkey_mprotect, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn,  SYS_arch_prctl,    SYS_modify_ldt,
    SYS_prctl,          SYS_rseq,          453 /* map_shadow_stack */,
    SYS_execve,         SYS_execveat,      SYS_open,          SYS_creat,
    SYS_openat2,        SYS_fork,          SYS_vfork,         SYS_clone,
    SYS_clone3,
};

}  // namespace

// Numbers beyond those listed do not exist, so their calls neither block nor change anything.
emu::SyscallKind call_kind(unsigned number) {
  for (unsigned n : kTracerCalls) {
    if (n == number) return emu::SyscallKind::tracer;
  }
  if (number == SYS_openat) return emu::SyscallKind::openat;
  if (number == SYS_ptrace) return emu::SyscallKind::ptrace;
  return number == SYS_mmap ? emu::SyscallKind::mmap : emu::SyscallKind::execute;
}

}  // namespace shadowprof::inject
