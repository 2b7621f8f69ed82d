// SPDX-License-Identifier: MIT
#include "inject/fixed/turn_calls.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>

namespace shadowprof::inject {
namespace {

constexpr unsigned kQuietCalls[] = {
    SYS_stat,
    SYS_fstat,
    SYS_lstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_lseek,
    SYS_brk,
    SYS_madvise,
    SYS_mincore,
    SYS_access,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getpgrp,
    SYS_getpgid,
    SYS_getsid,
    SYS_getcwd,
    SYS_readlink,
    SYS_readlinkat,
    SYS_getdents,
    SYS_getdents64,
    SYS_prlimit64,
    SYS_getrlimit,
    SYS_setrlimit,
    SYS_uname,
    SYS_sysinfo,
    SYS_set_tid_address,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_sigaltstack,
    SYS_umask,
    SYS_chdir,
    SYS_getgroups,
    SYS_capget,
    SYS_getrusage,
    SYS_getpriority,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_rt_sigpending,
    SYS_fadvise64,
    SYS_statfs,
    SYS_fstatfs,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    SYS_membarrier,
    SYS_dup,
};

// The first argument is a descriptor.
constexpr unsigned kTransfers[] = {
    SYS_read,  SYS_write,  SYS_pread64, SYS_pwrite64, SYS_readv,     SYS_writev,
    SYS_fsync, SYS_preadv, SYS_pwritev, SYS_close,    SYS_fdatasync, SYS_ftruncate,
};

// A disk is waited for by nobody else.
bool is_about_file(const machine::Registers& regs, Tid thread) {
  struct stat file;
  const std::string link = fmt::format("/proc/{}/fd/{}", thread.value, static_cast<int>(regs.rdi));
  return ::stat(link.c_str(), &file) == 0 && (S_ISREG(file.st_mode) || S_ISDIR(file.st_mode));
}

bool futex_may_wait(uint32_t operation) {
  switch (operation & static_cast<uint32_t>(FUTEX_CMD_MASK)) {
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
    case FUTEX_WAKE_OP:
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
    case FUTEX_UNLOCK_PI:
      return false;
    default:
      return true;
  }
}

}  // namespace

bool is_quiet_call(unsigned number) {
  return std::ranges::count(kQuietCalls, number) != 0;
}

bool may_wait(const machine::Registers& regs, Tid thread) {
  const auto number = static_cast<unsigned>(regs.rax);
  if (number == SYS_futex) return futex_may_wait(static_cast<uint32_t>(regs.rsi));
  if (number == SYS_sched_yield || number == SYS_tgkill || number == SYS_kill) return false;
  if (number == SYS_munmap || number == SYS_mprotect) return false;
  return std::ranges::count(kTransfers, number) == 0 || !is_about_file(regs, thread);
}

}  // namespace shadowprof::inject
