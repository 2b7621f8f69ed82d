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
#include <cstdint>
#include <vector>

#include "base/limits.h"
#include "base/unique_fd.h"

namespace shadowprof::sample {
namespace {

constexpr size_t kPages = 512;
constexpr size_t kBatch = 16;
constexpr size_t kBytes = kPages * limits::kPageBytes;
// Between a page and the next.
constexpr int kReads = 50;
// Even if nothing could be told from what the rest takes.
constexpr double kLeast = 1e-7;

// Written to as a program does it, here and there and while it works on something else: a fault takes
// a third longer then than in a loop of nothing but faults, as it has displaced what is needed next.
class Pages {
 public:
  Pages(int flags, int fd)
      : memory_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, fd, 0)), other_(kBytes, 1) {
    if (exist()) ::madvise(memory_, kBytes, MADV_NOHUGEPAGE);
  }
  ~Pages() {
    if (exist()) ::munmap(memory_, kBytes);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  bool exist() const { return memory_ != MAP_FAILED; }
  // Each page once. Seconds for one, as in most of the batches: in some the machine may have stood still.
  double use_all() {
    std::array<double, kPages / kBatch> seconds;
    size_t page = 0;
    for (double& batch : seconds) {
      const auto start = std::chrono::steady_clock::now();
      for (size_t i = 0; i < kBatch; i++, page += kStride) use(page % kPages);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      batch = spent.count() / kBatch;
    }
    bytes()[0] = static_cast<uint8_t>(random_);  // so that it is worked out
    auto* const middle = seconds.begin() + seconds.size() / 2;
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

 private:
  static constexpr size_t kStride = 197;  // odd, so that all of the pages have their turn

  volatile uint8_t* bytes() { return static_cast<volatile uint8_t*>(memory_); }
  void use(size_t page) {
    bytes()[page * limits::kPageBytes] = 1;
    for (int i = 0; i < kReads; i++) {
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      random_ += other_[(random_ >> 32) % kBytes];
    }
  }

  void* memory_;
  std::vector<uint8_t> other_;
  uint64_t random_ = 1;
};

void measure_shared_with_child(shadow::FaultPrice& price) {
  Pages pages(MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (!pages.exist()) return;
  pages.use_all();
  const double usual = pages.use_all();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::pause();
    ::_exit(0);
  }
  if (child < 0) return;
  price.copied = std::max(kLeast, pages.use_all() - usual);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const pid_t short_lived = ::fork();
  if (short_lived == 0) ::_exit(0);
  if (short_lived > 0) ::waitpid(short_lived, nullptr, 0);
  price.kept = std::clamp(pages.use_all() - usual, kLeast, price.copied);
}

// As replicas map the trace buffers, whose pages exist.
void measure_mapped(shadow::FaultPrice& price) {
  const UniqueFd memory(::memfd_create("pages", MFD_CLOEXEC));
  if (!memory.valid() || ::ftruncate(memory.get(), kBytes) != 0) return;
  Pages first(MAP_SHARED, memory.get()), second(MAP_SHARED, memory.get());
  if (!first.exist() || !second.exist()) return;
  first.use_all();
  price.mapped = second.use_all();
  price.mapped = std::max(kLeast, price.mapped - second.use_all());
}

}  // namespace

shadow::FaultPrice measure_faults() {
  shadow::FaultPrice price;
  measure_shared_with_child(price);
  measure_mapped(price);
  return price;
}

}  // namespace shadowprof::sample
