// SPDX-License-Identifier: MIT
#include "shadow/file_mappings.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <algorithm>

#include "base/unique_fd.h"
#include "ptrace/send_fd.h"

namespace shadowprof::shadow {
namespace {

// Each takes some calls before the first sample.
constexpr unsigned kMostAnew = 32;

// Memory that processes share by a name (shm_open(3)) is none.
bool is_shared_file(const kernel::Mapping& m) {
  return m.shared && m.writable && m.inode != 0 && !m.deleted && !m.path.starts_with("/dev/shm/");
}

// A regular file of a file system whose pages are as large as others.
bool may_be_mapped_anew(int fd) {
  struct stat status;
  struct statfs system;
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && ::fstatfs(fd, &system) == 0 &&
         system.f_type != HUGETLBFS_MAGIC;
}

// By the mapping itself, which leads to no other file; only root may.
UniqueFd open_for_reading(Tid process, const kernel::Mapping& m) {
  const std::string link = fmt::format("/proc/{}/map_files/{:x}-{:x}", process.value,
                                       m.range.start.value, m.range.end.value);
  struct stat status;
  if (::stat(link.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return UniqueFd(::open(link.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

bool map_anew(ptrace::RemoteSyscalls& remote, const kernel::Mapping& m) {
  const UniqueFd file = open_for_reading(remote.thread(), m);
  if (!file.valid() || !may_be_mapped_anew(file.get())) return false;
  const auto sent = ptrace::send_fd(remote, file.get(), O_RDONLY);
  if (!sent) return false;
  const int protection = PROT_READ | (m.executable ? PROT_EXEC : 0);
  const auto anew =
      remote.mmap(GuestAddr(), m.range.size(), protection, MAP_SHARED, *sent, m.offset);
  (void)remote.close(*sent);
  if (!anew) return false;
  const auto moved = remote.call(SYS_mremap, *anew, m.range.size(), m.range.size(),
                                 MREMAP_MAYMOVE | MREMAP_FIXED, m.range.start);
  if (moved && *moved >= 0) return true;
  (void)remote.munmap(*anew, m.range.size());
  return false;
}

}  // namespace

bool has_shared_files(const std::vector<kernel::Mapping>& mappings) {
  return std::ranges::any_of(mappings, is_shared_file);
}

void show_as_in_program(std::vector<kernel::Mapping>& mappings,
                        const std::vector<GuestRange>& anew) {
  const auto is_anew = [&](const kernel::Mapping& m) {
    return std::ranges::any_of(anew,
                               [&](const GuestRange& range) { return range.overlaps(m.range); });
  };
  for (kernel::Mapping& m : mappings) m.writable |= m.shared && is_anew(m);
}

std::vector<GuestRange> map_files_anew(ptrace::RemoteSyscalls& remote,
                                       const std::vector<kernel::Mapping>& mappings,
                                       const Descriptors& descriptors) {
  std::vector<GuestRange> anew;
  unsigned tried = 0;
  for (const kernel::Mapping& m : mappings) {
    if (!is_shared_file(m) || tried++ >= kMostAnew || descriptors.may_have_leased(m.inode))
      continue;
    if (map_anew(remote, m)) anew.push_back(m.range);
  }
  // The kernel lets go of a file when the thread that has unmapped it comes out of the kernel.
  if (!anew.empty()) (void)remote.call(SYS_getpid);
  return anew;
}

}  // namespace shadowprof::shadow
