// SPDX-License-Identifier: MIT
#include "shadow/descriptors.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <string_view>

#include "base/numbered_entries.h"
#include "base/unique_fd.h"
#include "kernel/direct_reads.h"
#include "kernel/fdinfo.h"
#include "kernel/file_leases.h"
#include "ptrace/send_fd.h"

namespace shadowprof::shadow {
namespace {

constexpr long kCloseRange = 436;

uint64_t offset_of(std::string_view fdinfo) {
  constexpr std::string_view kKey = "pos:\t";
  uint64_t offset = 0;
  if (fdinfo.starts_with(kKey)) {
    std::from_chars(fdinfo.data() + kKey.size(), fdinfo.data() + fdinfo.size(), offset);
  }
  return offset;
}

void insert(std::vector<int>& sorted, int value) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
  if (at == sorted.end() || *at != value) sorted.insert(at, value);
}

// As the kernel knows it already: the program stands still, and the server of the file may be gone.
bool look_at_file(Tid process, int fd, struct statx& status) {
  return ::statx(AT_FDCWD, link_to(process, fd).c_str(), AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO,
                 &status) == 0;
}

}  // namespace

std::string link_to(Tid process, int fd) {
  return fmt::format("/proc/{}/fd/{}", process.value, fd);
}

Descriptors Descriptors::of(Tid process) {
  constexpr size_t kMostBytes = 256;  // of fdinfo, whose first lines are wanted
  Descriptors descriptors;
  descriptors.program_ = process;
  descriptors.used_ = descriptors.missing_ =
      numbered_entries(fmt::format("/proc/{}/fd", process.value)).value_or(std::vector<int>{});
  if (descriptors.used_.size() > kMostKnown) return descriptors;
  for (int fd : descriptors.used_) {
    struct statx status;
    if (!look_at_file(process, fd, status)) continue;
    if ((status.stx_mode & S_IFMT) == 0) {
      const kernel::UserFaults one = kernel::user_faults_of(process, fd);
      descriptors.user_faults_.any |= one.any;
      descriptors.user_faults_.of_forks |= one.of_forks;
    }
    const bool directory = S_ISDIR(status.stx_mode);
    const bool has_data = S_ISREG(status.stx_mode) || S_ISBLK(status.stx_mode);
    const std::string info = has_data ? kernel::read_fdinfo(process, fd, kMostBytes) : "";
    descriptors.reads_directly_ |= kernel::is_opened_for_direct_reads(info);
    if (!directory && !S_ISREG(status.stx_mode)) continue;
    const uint64_t offset = offset_of(info);
    const OpenFile file{offset, directory, false,
                        makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino};
    auto shared = descriptors.already(fd, file);
    descriptors.files_[fd] = shared ? std::move(shared) : std::make_shared<OpenFile>(file);
  }
  return descriptors;
}

// The one that `fd` shares with a descriptor that is known; null: none, or the kernel does not say.
std::shared_ptr<OpenFile> Descriptors::already(int fd, const OpenFile& file) const {
  for (const auto& [other, known] : files_) {
    const bool alike = known->inode == file.inode && known->device == file.device &&
                       known->offset == file.offset;
    if (alike && ::syscall(SYS_kcmp, program_.value, program_.value, KCMP_FILE, other, fd) == 0) {
      return known;
    }
  }
  return nullptr;
}

Status Descriptors::leave_table(ptrace::RemoteSyscalls& remote) {
  SP_ASSIGN(const int64_t answer, remote.call(kCloseRange, 0, INT_MAX, CLOSE_RANGE_UNSHARE));
  if (answer < 0) return fail_errno(static_cast<int>(-answer), "close_range in a replica");
  return {};
}

bool Descriptors::is_missing(int fd) const {
  return std::binary_search(missing_.begin(), missing_.end(), fd);
}

bool Descriptors::open_missing(ptrace::RemoteSyscalls& remote, int fd) {
  const auto known = files_.find(fd);
  if (known == files_.end() || kernel::has_lease(program_, fd)) return false;
  const int kind = known->second->directory ? O_DIRECTORY : 0;
  const UniqueFd ours(
      ::open(link_to(program_, fd).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | kind));
  struct stat status;
  if (!ours.valid() || ::fstat(ours.get(), &status) != 0) return false;
  if (status.st_dev != known->second->device || status.st_ino != known->second->inode) return false;
  const auto sent = ptrace::send_fd(remote, ours.get(), O_RDONLY | kind);
  if (!sent) return false;
  if (*sent != fd) {
    const auto placed = remote.call(SYS_dup3, *sent, fd, 0);
    if (!remote.close(*sent) || !placed || *placed < 0) return false;
  }
  std::erase(missing_, fd);
  return true;
}

bool Descriptors::may_have_leased(ino_t inode) const {
  if (used_.size() > kMostKnown) return true;
  return std::ranges::any_of(files_, [&](const auto& file) {
    return file.second->inode == inode && kernel::has_lease(program_, file.first);
  });
}

OpenFile* Descriptors::find(int fd) {
  return is_missing(fd) ? nullptr : known(fd);
}

OpenFile* Descriptors::known(int fd) {
  const auto it = files_.find(fd);
  return it == files_.end() ? nullptr : it->second.get();
}

int Descriptors::lowest_free(int from) const {
  int fd = from;
  for (auto used = std::lower_bound(used_.begin(), used_.end(), from); used != used_.end();
       ++used) {
    if (*used != fd) break;
    fd++;
  }
  return fd;
}

void Descriptors::opened(int fd, std::shared_ptr<OpenFile> file) {
  closed(fd);
  insert(used_, fd);
  if (file) files_[fd] = std::move(file);
}

void Descriptors::appeared(int fd) {
  opened(fd, nullptr);
  insert(missing_, fd);
}

void Descriptors::duplicated(int from, int to) {
  if (from == to) return;
  const auto it = files_.find(from);
  opened(to, it == files_.end() ? nullptr : it->second);
}

void Descriptors::closed(int fd) {
  files_.erase(fd);
  std::erase(used_, fd);
  std::erase(missing_, fd);
}

void Descriptors::closed_range(uint32_t first, uint32_t last) {
  const std::vector<int> all = used_;
  for (const int fd : all) {
    if (static_cast<uint32_t>(fd) >= first && static_cast<uint32_t>(fd) <= last) closed(fd);
  }
}

}  // namespace shadowprof::shadow
