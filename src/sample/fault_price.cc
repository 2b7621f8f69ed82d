// SPDX-License-Identifier: MIT
#include "sample/fault_price.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>

#include "base/limits.h"
#include "base/unique_fd.h"

namespace shadowprof::sample {
namespace {

constexpr size_t kPages = 512;
constexpr size_t kBatch = 16;
constexpr size_t kBytes = kPages * limits::kPageBytes;

class Pages {
 public:
  Pages(int flags, int fd)
      : memory_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, fd, 0)) {
    if (exist()) ::madvise(memory_, kBytes, MADV_NOHUGEPAGE);
  }
  ~Pages() {
    if (exist()) ::munmap(memory_, kBytes);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  bool exist() const { return memory_ != MAP_FAILED; }
  // Seconds for one, as in most of the batches: in some the machine may have stood still.
  double write_all() {
    auto* bytes = static_cast<volatile char*>(memory_);
    std::array<double, kPages / kBatch> seconds;
    for (double& batch : seconds) {
      const auto start = std::chrono::steady_clock::now();
      for (size_t i = 0; i < kBatch; i++, bytes += limits::kPageBytes) *bytes = 1;
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      batch = spent.count() / kBatch;
    }
    auto* const middle = seconds.begin() + seconds.size() / 2;
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

 private:
  void* memory_;
};

void measure_shared_with_child(shadow::FaultPrice& price) {
  Pages pages(MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (!pages.exist()) return;
  pages.write_all();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::pause();
    ::_exit(0);
  }
  if (child < 0) return;
  price.copied = pages.write_all();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const pid_t short_lived = ::fork();
  if (short_lived == 0) ::_exit(0);
  if (short_lived > 0) ::waitpid(short_lived, nullptr, 0);
  price.kept = std::min(price.copied, pages.write_all());
}

// As replicas map the trace buffers, whose pages exist.
void measure_mapped(shadow::FaultPrice& price) {
  const UniqueFd memory(::memfd_create("pages", MFD_CLOEXEC));
  if (!memory.valid() || ::ftruncate(memory.get(), kBytes) != 0) return;
  Pages first(MAP_SHARED, memory.get()), second(MAP_SHARED, memory.get());
  if (!first.exist() || !second.exist()) return;
  first.write_all();
  price.mapped = second.write_all();
}

}  // namespace

shadow::FaultPrice measure_faults() {
  shadow::FaultPrice price;
  measure_shared_with_child(price);
  measure_mapped(price);
  return price;
}

}  // namespace shadowprof::sample
