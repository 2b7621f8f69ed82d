// SPDX-License-Identifier: MIT
#include "inject/slots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace shadowprof::inject {
namespace {

// Calls that change mappings, signal handling or the GS base behind the translator's back, or that
// end the address space (the trace cursor is needed then), or open files that may be memory. Those
// that make a child, since bursts are not for children.
// rseq is here to be refused: the kernel compares the program counter with the guest's addresses,
// and would never see it inside a critical section.
constexpr unsigned kTracerCalls[] = {
    SYS_mprotect,       SYS_munmap,        SYS_mremap,        SYS_remap_file_pages,
    SYS_shmat,          SYS_shmdt,         SYS_pkey_mprotect, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn,  SYS_arch_prctl,    SYS_modify_ldt,
    SYS_prctl,          334 /* rseq */,    453 /* map_shadow_stack */,
    SYS_execve,         SYS_execveat,      SYS_ptrace,        SYS_open,
    SYS_creat,          437 /* openat2 */, SYS_fork,          SYS_vfork,
    SYS_clone,          SYS_clone3,
};

}  // namespace

emu::SyscallKind syscall_kind(unsigned nr) {
  for (unsigned n : kTracerCalls) {
    if (n == nr) return emu::SyscallKind::tracer;
  }
  if (nr == SYS_openat) return emu::SyscallKind::openat;
  return nr == SYS_mmap ? emu::SyscallKind::mmap : emu::SyscallKind::execute;
}

Result<SlotGroup> SlotGroup::create(emu::Recording recording) {
  SlotGroup group;
  const size_t bytes = group.bytes = kSlotsPerGroup * emu::slot_bytes(recording);
  group.memfd = UniqueFd(::memfd_create("shadowprof-slots", MFD_CLOEXEC));
  if (!group.memfd.valid()) return fail_errno(errno, "cannot create trace buffers (memfd_create)");
  if (::ftruncate(group.memfd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail_errno(errno, "cannot size the trace buffers to {} bytes", bytes);
  }
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                   group.memfd.get(), 0);
  if (p == MAP_FAILED) return fail_errno(errno, "cannot map {} bytes of trace buffers", bytes);
  group.host = static_cast<uint8_t*>(p);
  return group;
}

Result<SlotGroup> SlotGroup::create_behind(const SlotGroup& first, size_t index,
                                           emu::Recording recording) {
  SlotGroup group;
  group.bytes = kSlotsPerGroup * emu::slot_bytes(recording);
  const auto offset = static_cast<off_t>(index * group.bytes);
  if (::ftruncate(first.memfd.get(), offset + static_cast<off_t>(group.bytes)) != 0) {
    return fail_errno(errno, "cannot size the trace buffers to {} groups", index + 1);
  }
  void* p = ::mmap(nullptr, group.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                   first.memfd.get(), offset);
  if (p == MAP_FAILED)
    return fail_errno(errno, "cannot map {} bytes of trace buffers", group.bytes);
  group.host = static_cast<uint8_t*>(p);
  return group;
}

SlotGroup& SlotGroup::operator=(SlotGroup&& other) noexcept {
  memfd = std::move(other.memfd);
  std::swap(host, other.host);
  guest_base = other.guest_base;
  bytes = other.bytes;
  return *this;
}

SlotGroup::SlotGroup(SlotGroup&& other) noexcept
    : memfd(std::move(other.memfd)),
      host(std::exchange(other.host, nullptr)),
      guest_base(other.guest_base),
      bytes(other.bytes) {}

SlotGroup::~SlotGroup() {
  if (host) ::munmap(host, bytes);
}

// Numbers beyond those listed do not exist, so their calls neither block nor change anything.
void Slot::trap_all_calls(bool all) {
  uint8_t* kinds = host + emu::kSyscallKindsOffset;
  for (unsigned nr = 0; nr < 512; nr++) {
    kinds[nr] = static_cast<uint8_t>(all ? emu::SyscallKind::tracer : syscall_kind(nr));
  }
}

void Slot::initialise() {
  uint8_t* kinds = host + emu::kSyscallKindsOffset;
  std::memset(kinds, static_cast<int>(emu::SyscallKind::execute), emu::kSyscallKindsBytes);
  trap_all_calls(false);
  state().log_left = emu::kLogEntries;
  for (unsigned i = 0; i < 256; i++) {
    state().mmap_prot_plain[i] = (i & PROT_EXEC) == 0;
    state().mmap_flags_plain[i] = (i & MAP_FIXED) == 0;
    state().open_flags_plain[i] = (i & O_ACCMODE) == O_RDONLY;
  }
}

}  // namespace shadowprof::inject
