// SPDX-License-Identifier: MIT
#include "inject/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "inject/send_fd.h"

namespace shadowprof::inject {
namespace {

constexpr uint64_t kFixedProgramCache = 0x7000'0000 + kOddOffset;
constexpr uint64_t kGapBelowProgram = 0x1000'0000;

bool is_free(const std::vector<kernel::Mapping>& mappings, GuestRange range) {
  return std::none_of(mappings.begin(), mappings.end(),
                      [&](const kernel::Mapping& m) { return m.range.overlaps(range); });
}

// While it lives, a process that has used up its file descriptors may have a few more.
class SpareDescriptors {
 public:
  explicit SpareDescriptors(Tid process) : process_(process) {
    if (::prlimit(process.value, RLIMIT_NOFILE, nullptr, &before_) != 0) return;
    const rlim_t wanted = before_.rlim_cur + kSpare;
    const rlimit more{wanted, std::max(before_.rlim_max, wanted)};
    raised_ = ::prlimit(process.value, RLIMIT_NOFILE, &more, nullptr) == 0;
  }
  ~SpareDescriptors() {
    if (raised_) (void)::prlimit(process_.value, RLIMIT_NOFILE, &before_, nullptr);
  }
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;

 private:
  static constexpr rlim_t kSpare = 8;
  Tid process_;
  rlimit before_{};
  bool raised_ = false;
};

}  // namespace

uint64_t cache_address(const std::vector<kernel::Mapping>& mappings, Tid process, size_t bytes) {
  const auto auxv = kernel::read_auxv(process);
  if (!auxv || !auxv->entry) return 0;
  const auto program =
      std::find_if(mappings.begin(), mappings.end(),
                   [&](const kernel::Mapping& m) { return m.range.contains(*auxv->entry); });
  if (program == mappings.end()) return 0;
  const uint64_t start = program->range.start.value - program->offset;
  uint64_t wanted = kFixedProgramCache;
  if (start > UINT32_MAX) wanted = ((start - kGapBelowProgram - bytes) & ~0xfffffull) + kOddOffset;
  const GuestRange range{GuestAddr(wanted), GuestAddr(wanted + bytes)};
  return is_free(mappings, range) ? wanted : 0;
}

Result<GuestAddr> map_memfd(ptrace::RemoteSyscalls& remote, Tid process, int memfd, size_t bytes,
                            int protection, uint64_t wanted) {
  std::optional<SpareDescriptors> spare;
  Result<int> sent = send_fd(remote, process, memfd);
  if (!sent && sent.error().errno_value == EMFILE) {
    spare.emplace(process);
    sent = send_fd(remote, process, memfd);
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

}  // namespace shadowprof::inject
