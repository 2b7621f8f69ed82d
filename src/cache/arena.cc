// SPDX-License-Identifier: MIT
#include "cache/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "ptrace/send_fd.h"

namespace shadowprof::cache {
namespace {

// For programs that are linked to a fixed address in the first 2 GB: away from multiples of
// 0x1000'0000, and where the most is left in one piece for MAP_32BIT (0x4000'0000 and up).
constexpr uint64_t kFixedProgramCaches[] = {0x7400'0000, 0x6400'0000, 0x5400'0000, 0x4400'0000,
                                            0x3400'0000};
// Below a program that the kernel has placed.
constexpr uint64_t kGapsBelowProgram[] = {0x1000'0000, 0x2400'0000, 0x3c00'0000, 0x5400'0000};
// Where the kernel places programs that are not linked to an address. Sanitizers know that place,
// too.
constexpr uint64_t kFarSlots = 0x5560'0000'0000 + kOddOffset;

// While it lives, a process that has used up its file descriptors may have a few more.
class SpareDescriptors {
 public:
  explicit SpareDescriptors(Tid thread) : thread_(thread) {
    if (::prlimit(thread.value, RLIMIT_NOFILE, nullptr, &before_) != 0) return;
    const rlim_t wanted = before_.rlim_cur + kSpare;
    const rlimit more{wanted, std::max(before_.rlim_max, wanted)};
    raised_ = ::prlimit(thread.value, RLIMIT_NOFILE, &more, nullptr) == 0;
  }
  ~SpareDescriptors() {
    if (raised_) (void)::prlimit(thread_.value, RLIMIT_NOFILE, &before_, nullptr);
  }
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;

 private:
  static constexpr rlim_t kSpare = 8;
  Tid thread_;
  rlimit before_{};
  bool raised_ = false;
};

}  // namespace

bool is_free(const std::vector<kernel::Mapping>& mappings, GuestRange range) {
  return std::none_of(mappings.begin(), mappings.end(),
                      [&](const kernel::Mapping& m) { return m.range.overlaps(range); });
}

uint64_t cache_address(const std::vector<kernel::Mapping>& mappings, Tid process, size_t bytes) {
  const auto auxv = kernel::read_auxv(process);
  if (!auxv || !auxv->entry) return 0;
  const auto program =
      std::find_if(mappings.begin(), mappings.end(),
                   [&](const kernel::Mapping& m) { return m.range.contains(*auxv->entry); });
  if (program == mappings.end()) return 0;
  const uint64_t start = program->file_start().value;
  const auto is_good = [&](uint64_t at) {
    return is_free(mappings, {GuestAddr(at), GuestAddr(at + bytes)});
  };
  if (start <= UINT32_MAX) {
    for (const uint64_t place : kFixedProgramCaches)
      if (is_good(place + kOddOffset)) return place + kOddOffset;
    return 0;
  }
  for (const uint64_t gap : kGapsBelowProgram) {
    const uint64_t at = ((start - gap - bytes) & ~0xfffffull) + kOddOffset;
    if (is_good(at)) return at;
  }
  return 0;
}

uint64_t slots_address(uint64_t cache, size_t bytes, size_t before) {
  if (cache <= UINT32_MAX) return kFarSlots + before;
  return (cache - before - bytes - kOddOffset) & ~0xfffull;
}

Result<GuestAddr> map_memfd(ptrace::RemoteSyscalls& remote, int memfd, size_t bytes, int protection,
                            uint64_t wanted) {
  std::optional<SpareDescriptors> spare;
  Result<int> sent = send_fd(remote, memfd);
  if (!sent && sent.error().errno_value == EMFILE) {
    spare.emplace(remote.thread());
    sent = send_fd(remote, memfd);
  }
  SP_ASSIGN(const int fd, std::move(sent));
  auto mapped = wanted == 0 ? Result<GuestAddr>(fail("no place"))
                            : remote.mmap(GuestAddr(wanted), bytes, protection,
                                          MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  if (!mapped) mapped = remote.mmap(GuestAddr(), bytes, protection, MAP_SHARED, fd, 0);
  SP_TRY(remote.close(fd));
  if (!mapped) return mapped;
  SP_TRY(remote.madvise(*mapped, bytes, MADV_DONTFORK));
  SP_TRY(remote.madvise(*mapped, bytes, MADV_DONTDUMP));
  return mapped;
}

}  // namespace shadowprof::cache
