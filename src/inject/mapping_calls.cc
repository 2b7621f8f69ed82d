// SPDX-License-Identifier: MIT
#include "inject/mapping_calls.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <string>
#include <string_view>

namespace shadowprof::inject {
namespace {

constexpr uint64_t kUserEnd = uint64_t{1} << 47;

// By an mremap; no bytes of a shared mapping are a second one of all of it.
GuestRange moved_pages(const machine::Registers& regs) {
  return pages(regs.rdi, std::max<uint64_t>(regs.rsi, 1));
}

// Nothing if it has no place.
GuestRange placed(uint64_t address, uint64_t bytes, bool has_place) {
  return has_place ? pages(address, bytes) : GuestRange{};
}

std::string path_at(ptrace::RemoteMemory& memory, GuestAddr address) {
  std::array<uint8_t, PATH_MAX> bytes;
  const size_t size = memory.read_some(address, bytes);
  const auto end = std::find(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size), 0);
  return {bytes.begin(), end};
}

// Does `path`, as `thread` sees it, name /proc/PID/mem?
bool is_memory_file(Tid thread, int directory, const std::string& path) {
  const std::string proc = fmt::format("/proc/{}/", thread.value);
  std::string ours =
      proc + (directory == AT_FDCWD ? "cwd/" : fmt::format("fd/{}/", directory)) + path;
  if (path.starts_with("/")) ours = proc + "root" + path;
  // /proc/self is our own directory here; what matters is that it is some process's memory.
  char resolved[PATH_MAX];
  if (!::realpath(ours.c_str(), resolved)) return false;
  struct statfs file_system;
  return std::string_view(resolved).ends_with("/mem") && ::statfs(resolved, &file_system) == 0 &&
         file_system.f_type == PROC_SUPER_MAGIC;
}

long call_number(const machine::Registers& regs) {
  return static_cast<int>(regs.rax);
}

// 0: there is no such segment, or it is one of an IPC namespace that we are not in.
uint64_t attached_bytes(int segment) {
  shmid_ds status{};
  return ::shmctl(segment, IPC_STAT, &status) == 0 ? status.shm_segsz : 0;
}

}  // namespace

GuestRange pages(uint64_t address, uint64_t bytes) {
  // More than there is: the kernel refuses it.
  if (bytes > kUserEnd || address > kUserEnd) return {};
  const uint64_t end = (address + bytes + limits::kPageBytes - 1) & ~(limits::kPageBytes - 1);
  return {GuestAddr(address), GuestAddr(end)};
}

GuestRange wanted_by(const machine::Registers& regs) {
  if (call_number(regs) == SYS_shmat)
    return pages(regs.rsi, attached_bytes(static_cast<int>(regs.rdi)));
  const bool to_place = call_number(regs) == SYS_mremap && (regs.r10 & MREMAP_FIXED) != 0;
  return to_place ? pages(regs.r8, regs.rdx) : pages(regs.rdi, regs.rsi);
}

bool changes_ours(const cache::AddressSpace& space, const machine::Registers& regs) {
  switch (call_number(regs)) {
    case SYS_mmap:
      return (regs.r10 & MAP_FIXED) != 0 && space.is_ours(wanted_by(regs));
    case SYS_shmat:
      return regs.rsi != 0 && space.is_ours(wanted_by(regs));
    default:
      return space.is_ours(pages(regs.rdi, regs.rsi)) || space.is_ours(wanted_by(regs));
  }
}

bool is_about_data(cache::AddressSpace& space, const machine::Registers& regs) {
  cache::GuestCode& code = space.code();
  if (changes_ours(space, regs)) return false;
  if (call_number(regs) == SYS_mremap) {
    const bool has_place = (regs.r10 & MREMAP_FIXED) != 0;
    return !code.has_code(moved_pages(regs)) &&
           !(has_place && code.has_code(pages(regs.r8, regs.rdx)));
  }
  const bool makes_code = call_number(regs) != SYS_munmap && (regs.rdx & PROT_EXEC) != 0;
  return !makes_code && !code.has_code(pages(regs.rdi, regs.rsi));
}

void note_mapping_call(cache::AddressSpace& space, const machine::Registers& before,
                       const machine::Registers& after) {
  const auto result = static_cast<int64_t>(after.rax);
  const bool failed = result < 0 && result > -4096;
  switch (call_number(before)) {
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_pkey_mprotect: {
      // Even a failed mprotect may have changed the first part of its range.
      const GuestRange range = pages(before.rdi, before.rsi);
      if ((before.rdx & PROT_EXEC) || space.code().has_code(range)) space.mappings_changed(range);
      break;
    }
    case SYS_mmap: {
      // Even a failed one may have unmapped the place that it was given, and mremap the end of what
      // was to be moved, too (mm/mmap.c mmap_region, mm/mremap.c mremap_to).
      const bool fixed = (before.r10 & MAP_FIXED) != 0;
      const GuestRange range = placed(fixed ? before.rdi : after.rax, before.rsi, fixed || !failed);
      if ((!failed && (before.rdx & PROT_EXEC)) || space.code().has_code(range))
        space.mappings_changed(range);
      break;
    }
    case SYS_mremap: {
      const bool fixed = (before.r10 & MREMAP_FIXED) != 0;
      const GuestRange from = moved_pages(before);
      const GuestRange to = placed(fixed ? before.r8 : after.rax, before.rdx, fixed || !failed);
      if (space.code().has_code(from) || space.code().has_code(to)) {
        space.mappings_changed(from);
        space.mappings_changed(to);
      }
      break;
    }
    case SYS_shmat:
    case SYS_shmdt:
    case SYS_remap_file_pages:
    case SYS_modify_ldt:
      // Rare: whatever they did, look at everything anew.
      space.mappings_changed({GuestAddr(0), GuestAddr(UINT64_MAX & ~0xfffull)});
      break;
    default:
      break;
  }
}

bool is_open_call(long nr) {
  return nr == SYS_open || nr == SYS_creat || nr == SYS_openat || nr == SYS_openat2;
}

bool opens_memory(const machine::Registers& regs, Tid thread, ptrace::RemoteMemory& memory) {
  const long nr = call_number(regs);
  const bool at = nr == SYS_openat || nr == SYS_openat2;
  uint64_t flags = nr == SYS_open ? regs.rsi : nr == SYS_creat ? O_WRONLY : regs.rdx;
  if (nr == SYS_openat2) flags = memory.read_value<uint64_t>(GuestAddr(regs.rdx)).value_or(O_RDWR);
  if ((flags & O_ACCMODE) == O_RDONLY) return false;
  const int directory = at ? static_cast<int>(regs.rdi) : AT_FDCWD;
  return is_memory_file(thread, directory, path_at(memory, GuestAddr(at ? regs.rsi : regs.rdi)));
}

}  // namespace shadowprof::inject
