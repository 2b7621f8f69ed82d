// SPDX-License-Identifier: MIT
//
// Each probe does on a small scale what the profiler does on a large one. The ptrace calls here are
// the only ones outside src/ptrace: a probe has to see the bare result of one call.
#include "kernel/features.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/die_with_parent.h"
#include "base/result.h"
#include "base/types.h"
#include "base/unique_fd.h"

namespace shadowprof::kernel {
namespace {

// A child that only waits, and dies with this object or with us. It makes only async-signal-safe
// calls, so that a probe may run in a process with threads.
class WaitingChild {
 public:
  static Result<WaitingChild> start() {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) return fail_errno(errno, "cannot start a process");
    if (pid == 0) {
      if (!die_with_parent(parent)) ::_exit(1);
      for (;;) ::pause();
    }
    return WaitingChild(Tid(pid));
  }

  WaitingChild(WaitingChild&& other) noexcept : tid_(other.tid_) { other.tid_ = Tid(); }
  WaitingChild& operator=(WaitingChild&&) = delete;
  ~WaitingChild() {
    if (tid_ == Tid()) return;
    if (::kill(tid_.value, SIGKILL) != 0) return;  // it dies with us
    int status = 0;
    while (::waitpid(tid_.value, &status, __WALL) < 0 && errno == EINTR) {
    }
  }

  pid_t pid() const { return tid_.value; }

  // Seizes it and waits until it has stopped.
  Status seize_and_stop() const {
    if (::ptrace(PTRACE_SEIZE, pid(), nullptr, nullptr) != 0)
      return fail_errno(errno, "cannot trace a process of our own (PTRACE_SEIZE)");
    if (::ptrace(PTRACE_INTERRUPT, pid(), nullptr, nullptr) != 0)
      return fail_errno(errno, "cannot stop a traced process (PTRACE_INTERRUPT)");
    int status = 0;
    pid_t waited = 0;
    do {
      waited = ::waitpid(pid(), &status, __WALL);
    } while (waited < 0 && errno == EINTR);
    if (waited < 0) return fail_errno(errno, "cannot wait for a traced process");
    if (!WIFSTOPPED(status)) return fail("a traced process ended instead of stopping");
    return {};
  }

  Status detach() const {
    if (::ptrace(PTRACE_DETACH, pid(), nullptr, nullptr) != 0)
      return fail_errno(errno, "cannot let go of a traced process (PTRACE_DETACH)");
    return {};
  }

 private:
  explicit WaitingChild(Tid tid) : tid_(tid) {}
  Tid tid_;
};

// What helps when ptrace is refused. The scope file is documented in the kernel's
// Documentation/admin-guide/LSM/Yama.rst.
std::string ptrace_advice(int error) {
  if (error != EPERM && error != EACCES && error != ENOSYS) return "";
  UniqueFd fd(::open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC));
  char scope = '0';
  if (fd.valid() && ::read(fd.get(), &scope, 1) == 1 && scope >= '2')
    return fmt::format("; kernel.yama.ptrace_scope is {}{}", scope,
                       scope == '3' ? " until the next boot" : ", set it to 1 or run as root");
  return "; in a container, start it with --cap-add=SYS_PTRACE or a system call filter that allows "
         "ptrace";
}

Feature finish(Feature feature, const Status& outcome, std::string_view advice = "") {
  feature.works = outcome.has_value();
  if (!outcome) feature.problem = outcome.error().message + std::string(advice);
  return feature;
}

Feature finish_ptrace(Feature feature, const Status& outcome) {
  const std::string advice = outcome ? "" : ptrace_advice(outcome.error().errno_value);
  return finish(std::move(feature), outcome, advice);
}

Status try_proc() {
  struct statfs fs {};
  if (::statfs("/proc", &fs) != 0) return fail_errno(errno, "cannot look at /proc");
  if (fs.f_type != PROC_SUPER_MAGIC) return fail("/proc is not mounted");
  // A proc of another process namespace does not know us, or as somebody else.
  char self[32] = {};
  const ssize_t length = ::readlink("/proc/self", self, sizeof self - 1);
  if (length < 0) return fail_errno(errno, "/proc belongs to another process namespace");
  if (std::atoi(self) != ::getpid()) return fail("/proc belongs to another process namespace");
  UniqueFd maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!maps.valid()) return fail_errno(errno, "cannot open /proc/self/maps");
  return {};
}

Status try_ptrace() {
  SP_ASSIGN(const WaitingChild child, WaitingChild::start());
  SP_TRY(child.seize_and_stop());
  return child.detach();
}

Status try_syscall_info() {
  SP_ASSIGN(const WaitingChild child, WaitingChild::start());
  SP_TRY(child.seize_and_stop());
  __ptrace_syscall_info info{};
  const long bytes =
      ::ptrace(PTRACE_GET_SYSCALL_INFO, child.pid(), reinterpret_cast<void*>(sizeof info), &info);
  if (bytes < 0)
    return fail_errno(errno, "cannot ask about a system call (PTRACE_GET_SYSCALL_INFO, Linux 5.3)");
  if (info.stack_pointer == 0)
    return fail("the kernel's answer about a system call is empty (PTRACE_GET_SYSCALL_INFO)");
  return child.detach();
}

Status try_signal_mask() {
  SP_ASSIGN(const WaitingChild child, WaitingChild::start());
  SP_TRY(child.seize_and_stop());
  uint64_t mask = 0;
  if (::ptrace(PTRACE_GETSIGMASK, child.pid(), reinterpret_cast<void*>(sizeof mask), &mask) != 0)
    return fail_errno(errno, "cannot read a signal mask (PTRACE_GETSIGMASK, Linux 3.11)");
  return child.detach();
}

Status try_process_vm_readv() {
  // The child keeps the value of the moment of fork: what is read is its memory, not ours.
  constexpr uint64_t kOfChild = 0x5ad0'0f11e5;
  volatile uint64_t cookie = kOfChild;
  SP_ASSIGN(const WaitingChild child, WaitingChild::start());
  cookie = ~kOfChild;
  uint64_t got = 0;
  iovec local{&got, sizeof got};
  iovec remote{const_cast<uint64_t*>(&cookie), sizeof got};
  const ssize_t bytes = ::process_vm_readv(child.pid(), &local, 1, &remote, 1, 0);
  if (bytes < 0)
    return fail_errno(errno, "cannot read a child's memory in one call (process_vm_readv)");
  if (bytes != sizeof got || got != kOfChild)
    return fail("a child's memory was read wrongly (process_vm_readv)");
  return {};
}

Status try_memfd() {
  const long page = ::sysconf(_SC_PAGESIZE);
  // As the code cache is made. That its mode forbids to execute it (vm.memfd_noexec) does not
  // matter to who maps it.
  const UniqueFd fd(::memfd_create("shadowprof-probe", MFD_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, "cannot make a file in memory (memfd_create)");
  if (::ftruncate(fd.get(), page) != 0) return fail_errno(errno, "cannot size a file in memory");
  void* at =
      ::mmap(nullptr, static_cast<size_t>(page), PROT_READ | PROT_EXEC, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return fail_errno(errno, "cannot map code of a file in memory");
  ::munmap(at, static_cast<size_t>(page));
  return {};
}

}  // namespace

Feature probe_proc() {
  return finish({"proc", "memory maps, threads and state of the program"}, try_proc(),
                "; mount it with: mount -t proc proc /proc");
}

Feature probe_ptrace() {
  return finish_ptrace({"ptrace", "stopping the program and reading its registers"}, try_ptrace());
}

Feature probe_syscall_info() {
  return finish_ptrace({"ptrace_syscall_info", "telling the entry of a system call from its exit"},
                       try_syscall_info());
}

Feature probe_signal_mask() {
  return finish_ptrace({"ptrace_signal_mask", "leaving the program's signal masks as they were"},
                       try_signal_mask());
}

Feature probe_process_vm_readv() {
  return finish_ptrace({.name = "process_vm_readv",
                        .purpose = "reading the program's memory quickly",
                        .without = "it is read more slowly"},
                       try_process_vm_readv());
}

Feature probe_memfd() {
  return finish({.name = "memfd",
                 .purpose = "the code cache and the trace buffers",
                 .without = "shadow mode and bursts are interpreted, full mode does not work"},
                try_memfd());
}

std::vector<Feature> probe_features() {
  return {probe_proc(),        probe_ptrace(),           probe_syscall_info(),
          probe_signal_mask(), probe_process_vm_readv(), probe_memfd()};
}

}  // namespace shadowprof::kernel
