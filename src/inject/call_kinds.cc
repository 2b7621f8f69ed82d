// SPDX-License-Identifier: MIT
#include "inject/call_kinds.h"

#include <sys/syscall.h>

namespace shadowprof::inject {
namespace {

// Calls that change mappings, signal handling or the GS base behind the translator's back, or that
// end the address space (the trace cursor is needed then), or open files that may be memory. Those
// that make a child, since bursts are not for children.
// rseq is here because restartable sequences are executed in guest context (sequence_watch.h).
constexpr unsigned kTracerCalls[] = {
    SYS_mprotect,      SYS_munmap,
    SYS_mremap,        SYS_remap_file_pages,
    SYS_shmat,         SYS_shmdt,
    SYS_pkey_mprotect, SYS_rt_sigreturn,
    SYS_arch_prctl,    SYS_modify_ldt,
    SYS_prctl,         SYS_rseq,
    SYS_execve,        SYS_execveat,
    SYS_open,          SYS_creat,
    SYS_openat2,       SYS_fork,
    SYS_vfork,         SYS_clone,
    SYS_clone3,        453 /* map_shadow_stack */,
};

}  // namespace

// Numbers beyond those listed do not exist, so their calls neither block nor change anything.
emu::SyscallKind call_kind(unsigned number) {
  for (unsigned n : kTracerCalls) {
    if (n == number) return emu::SyscallKind::tracer;
  }
  switch (number) {
    case SYS_mmap:
      return emu::SyscallKind::mmap;
    case SYS_openat:
      return emu::SyscallKind::openat;
    case SYS_ptrace:
      return emu::SyscallKind::ptrace;
    case SYS_rt_sigaction:
      return emu::SyscallKind::action;
    case SYS_rt_sigprocmask:
      return emu::SyscallKind::mask;
    default:
      return emu::SyscallKind::execute;
  }
}

}  // namespace shadowprof::inject
