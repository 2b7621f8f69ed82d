// SPDX-License-Identifier: MIT
//
// The replica's address space. Two things are not allowed to it: shared pages that it could write,
// but for those of its own files, and new code. No shared mapping that it has from the program ever
// becomes writable (shared_pages.h), none is moved or doubled, and what it maps itself is private.
// Translations outlive the replica, and the next one
// has other memory: so a replica that maps, unmaps or reprotects code ends there. (The program
// itself does the same, and the next sample finds it done.)
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "base/limits.h"
#include "shadow/system_calls.h"

namespace shadowprof::shadow {
namespace {

constexpr int kSoftOffline = 101;  // MADV_SOFT_OFFLINE, which glibc does not define

GuestRange range_of(uint64_t address, uint64_t bytes) {
  const uint64_t end = address + bytes + limits::kPageBytes - 1;
  if (end < address) return {GuestAddr(address), GuestAddr(UINT64_MAX)};
  return {GuestAddr(address), GuestAddr(end & ~(limits::kPageBytes - 1))};
}

}  // namespace

SyscallAnswer SystemCalls::map(const Call& call) {
  const auto protection = static_cast<int>(call.args[2]);
  auto flags = static_cast<int>(call.args[3]);
  const bool fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
  if (protection & PROT_EXEC) return end(call, Outcome::code_changed, "maps code");
  if (fixed && code_.has_code(range_of(call.args[0], call.args[1]))) {
    return end(call, Outcome::code_changed, "maps over code");
  }
  if (!(flags & MAP_ANONYMOUS) && !have(call, static_cast<int>(call.args[4]))) {
    return end(call, Outcome::input);
  }
  OpenFile* file =
      flags & MAP_ANONYMOUS ? nullptr : descriptors_.find(static_cast<int>(call.args[4]));
  const OwnFile* own = file ? file->made.get() : nullptr;
  if (file && (own ? !own->is_known : written_.contains(file->id()))) {
    return end(call, Outcome::input, "maps what it has written itself");
  }
  const int type = flags & MAP_TYPE;
  if (own) {
    // Nobody else has it: it may stay shared.
  } else if (type == MAP_SHARED || type == MAP_SHARED_VALIDATE) {
    flags = (flags & ~(MAP_TYPE | MAP_SYNC)) | MAP_PRIVATE;
  }
  const auto mapped = call.remote.call(SYS_mmap, call.args[0], call.args[1], protection, flags,
                                       call.args[4], call.args[5]);
  if (!mapped) return end(call, Outcome::died, mapped.error().message);
  if (fixed && *mapped >= 0) shared_.forget(range_of(call.args[0], call.args[1]));
  return value(*mapped);
}

SyscallAnswer SystemCalls::protect(const Call& call) {
  const GuestRange range = range_of(call.args[0], call.args[1]);
  if ((call.args[2] & PROT_EXEC) || code_.has_code(range)) {
    return end(call, Outcome::code_changed, "changes the protection of code");
  }
  if ((call.args[2] & PROT_WRITE) && shared_.overlaps(range)) {
    return end(call, Outcome::system_call, "makes shared memory writable");
  }
  return execute(call);
}

SyscallAnswer SystemCalls::unmap(const Call& call) {
  const GuestRange range = range_of(call.args[0], call.args[1]);
  if (code_.has_code(range)) return end(call, Outcome::code_changed, "unmaps code");
  Answer made = execute(call);
  if (made.kind == Answer::Kind::value && made.value == 0) shared_.forget(range);
  return made;
}

SyscallAnswer SystemCalls::remap(const Call& call) {
  // A length of 0 doubles a shared mapping (mremap(2)).
  const GuestRange from = range_of(call.args[0], std::max<uint64_t>(call.args[1], 1));
  const GuestRange to = range_of(call.args[4], call.args[2]);
  const bool fixed = (call.args[3] & MREMAP_FIXED) != 0;
  if (code_.has_code(from) || (fixed && code_.has_code(to))) {
    return end(call, Outcome::code_changed, "moves code");
  }
  if (shared_.overlaps(from)) return end(call, Outcome::system_call, "moves shared memory");
  Answer made = execute(call);
  if (fixed && made.kind == Answer::Kind::value && made.value >= 0) shared_.forget(to);
  return made;
}

SyscallAnswer SystemCalls::advise(const Call& call) {
  switch (static_cast<int>(call.args[2])) {
    case MADV_REMOVE:
      return value(0);  // would punch a hole into the file
    case MADV_DONTNEED:  // a page comes back from what is shared, and its copy would be empty
      return shared_.has_copies(range_of(call.args[0], call.args[1]))
                 ? end(call, Outcome::system_call, "drops pages of shared memory")
                 : execute(call);
    case MADV_HWPOISON:
    case kSoftOffline:
      return end(call, Outcome::system_call);
    default:
      return execute(call);
  }
}

}  // namespace shadowprof::shadow
