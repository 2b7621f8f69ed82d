// SPDX-License-Identifier: MIT
#include "shadow/shared_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/limits.h"

namespace shadowprof::shadow {

Status SharedPages::protect(ptrace::RemoteSyscalls& remote,
                            const std::vector<kernel::Mapping>& mappings) {
  for (const kernel::Mapping& m : mappings) {
    if (!m.shared) continue;
    const int executable = m.executable ? PROT_EXEC : 0;
    if (m.writable) {
      SP_TRY(remote.mprotect(m.range.start, m.range.size(), PROT_READ | executable));
    }
    shared_.push_back({m.range, m.writable, PROT_READ | PROT_WRITE | executable});
  }
  return {};
}

const SharedPages::Shared* SharedPages::find(GuestAddr address) const {
  const auto it = std::find_if(shared_.begin(), shared_.end(),
                               [&](const Shared& s) { return s.range.contains(address); });
  return it == shared_.end() ? nullptr : &*it;
}

bool SharedPages::contains(GuestAddr address) const {
  const Shared* shared = find(address);
  return shared && shared->writable &&
         !std::binary_search(private_.begin(), private_.end(), address.page());
}

bool SharedPages::overlaps(GuestRange range) const {
  return std::any_of(shared_.begin(), shared_.end(),
                     [&](const Shared& s) { return s.range.overlaps(range); });
}

bool SharedPages::has_copies(GuestRange range) const {
  const auto first = std::lower_bound(private_.begin(), private_.end(), range.start.page());
  return first != private_.end() && *first < range.end;
}

bool SharedPages::has_writable() const {
  return std::any_of(shared_.begin(), shared_.end(), [](const Shared& s) { return s.writable; });
}

// Nothing of it is a copy any more either.
void SharedPages::forget(GuestRange range) {
  std::erase_if(private_, [&](GuestAddr page) { return range.contains(page); });
  std::vector<Shared> left;
  for (const Shared& s : shared_) {
    if (!s.range.overlaps(range)) {
      left.push_back(s);
      continue;
    }
    const GuestRange parts[] = {{s.range.start, range.start}, {range.end, s.range.end}};
    for (const GuestRange& part : parts) {
      if (part.start < part.end) left.push_back({part, s.writable, s.protection});
    }
  }
  shared_ = std::move(left);
}

Status SharedPages::make_private(ptrace::RemoteSyscalls& remote, ptrace::RemoteMemory& memory,
                                 GuestRange range) {
  for (GuestAddr page = range.start.page(); page < range.end; page = page + limits::kPageBytes) {
    if (contains(page)) SP_TRY(copy_page(remote, memory, page));
  }
  return {};
}

// Filled elsewhere and then moved over the shared page, so that no other state is ever seen.
Status SharedPages::copy_page(ptrace::RemoteSyscalls& remote, ptrace::RemoteMemory& memory,
                              GuestAddr page) {
  const Shared* shared = find(page);
  std::array<uint8_t, limits::kPageBytes> bytes;
  SP_TRY(memory.read(page, bytes));
  SP_ASSIGN(const GuestAddr copy, remote.mmap(GuestAddr(), bytes.size(), PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS));
  SP_TRY(memory.write(copy, bytes));
  if (shared->protection & PROT_EXEC) {
    SP_TRY(remote.mprotect(copy, bytes.size(), shared->protection));
  }
  SP_ASSIGN(const int64_t moved, remote.call(SYS_mremap, copy.value, bytes.size(), bytes.size(),
                                             MREMAP_MAYMOVE | MREMAP_FIXED, page.value));
  if (moved < 0) return fail_errno(static_cast<int>(-moved), "mremap in a replica");
  private_.insert(std::lower_bound(private_.begin(), private_.end(), page), page);
  return {};
}

}  // namespace shadowprof::shadow
