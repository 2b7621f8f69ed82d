// SPDX-License-Identifier: MIT
#include "probe/fault_price.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/die_with_parent.h"
#include "base/limits.h"
#include "base/processor_time.h"
#include "base/unique_fd.h"
#include "ptrace/trial_child.h"

namespace shadowprof::probe {
namespace {

constexpr size_t kPages = 128;
constexpr size_t kBatch = 16;
constexpr size_t kBytes = kPages * limits::kPageBytes;
// Between a page and the next.
constexpr int kReads = 50;
constexpr size_t kStops = 64;
// Even if nothing could be told from what the rest takes.
constexpr double kLeast_s = 1e-7;

template <size_t N>
double median(std::array<double, N> values) {
  std::ranges::nth_element(values, values.begin() + N / 2);
  return values[N / 2];
}

// Written to as a program does it, here and there and while it works on something else: a fault
// takes a third longer then than in a loop of nothing but faults, as it has displaced what is
// needed next.
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
  // Each page once. Seconds for one, as in most of the batches: in some the machine may have stood
  // still.
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
    return median(seconds);
  }

  void use(size_t page) {
    bytes()[page * limits::kPageBytes] = 1;
    for (int i = 0; i < kReads; i++) {
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      random_ += other_[(random_ >> 32) % kBytes];
    }
  }

 private:
  static constexpr size_t kStride = 49;  // odd, so that all of the pages have their turn

  volatile uint8_t* bytes() { return static_cast<volatile uint8_t*>(memory_); }

  void* memory_;
  std::vector<uint8_t> other_;
  uint64_t random_ = 1;
};

// Seconds for a page that a child has, too.
struct SharedPages {
  double copied = 0;  // while it lives
  double kept = 0;    // when it is gone
};

// The child has all signals blocked: whatever handler we have is not for it.
pid_t fork_deaf() {
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::fork();
  if (child != 0) ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return child;
}

[[noreturn]] void wait_for_the_end(pid_t parent) {
  if (!die_with_parent(parent)) ::_exit(1);
  for (;;) ::pause();
}

// Nothing where it cannot be measured.
std::optional<SharedPages> measure_shared_with_child() {
  Pages pages(MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (!pages.exist()) return std::nullopt;
  pages.use_all();
  const double usual = pages.use_all();
  const pid_t self = ::getpid();
  double copied = 0;
  for (int i = 0; i < 2; i++) {
    const ptrace::TrialChild child(fork_deaf());
    if (child.is_it()) wait_for_the_end(self);
    if (!child.exists()) return std::nullopt;
    if (i == 0) copied = pages.use_all() - usual;
  }
  return SharedPages{copied, pages.use_all() - usual};
}

// As replicas map the trace buffers, whose pages exist.
std::optional<double> measure_mapped() {
  const UniqueFd memory(::memfd_create("pages", MFD_CLOEXEC));
  if (!memory.valid() || ::ftruncate(memory.get(), kBytes) != 0) return std::nullopt;
  Pages first(MAP_SHARED, memory.get()), second(MAP_SHARED, memory.get());
  if (!first.exist() || !second.exist()) return std::nullopt;
  first.use_all();
  const double mapped = second.use_all();
  return mapped - second.use_all();
}

// It stops while it works on something, as a replica does.
[[noreturn]] void stop_again_and_again(Pages& pages, pid_t parent) {
  sigset_t trap;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  ::sigprocmask(SIG_UNBLOCK, &trap, nullptr);
  pages.use_all();  // they are its own from now on
  if (!ptrace::TrialChild::be_traced(parent)) ::_exit(1);
  for (size_t i = 0;; i++) {
    pages.use(i % kPages);
    asm volatile("int3" ::: "memory");
  }
}

// A part of the child's time, in the middle of batches. 0 where it cannot be measured.
double measure_stopped() {
  Pages pages(MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (!pages.exist()) return 0;
  const pid_t self = ::getpid();
  ptrace::TrialChild child(fork_deaf());
  if (child.is_it()) stop_again_and_again(pages, self);
  bool is_stopped = child.await_stop();
  std::array<double, kStops / kBatch> seconds{};
  for (double& batch : seconds) {
    const auto before = processor_seconds_of(child.tid());
    for (size_t i = 0; i < kBatch && is_stopped; i++) is_stopped = child.go_on();
    const auto after = processor_seconds_of(child.tid());
    if (is_stopped && before && after) batch = (*after - *before) / kBatch;
  }
  return median(seconds);
}

}  // namespace

std::optional<FaultRound> measure_fault_round() {
  const auto shared = measure_shared_with_child();
  const auto mapped = measure_mapped();
  if (!shared || !mapped) return std::nullopt;
  return FaultRound{shared->copied, shared->kept, *mapped, measure_stopped()};
}

machine::FaultPrice price_of(std::span<const FaultRound> rounds) {
  const auto middle = [&](double FaultRound::*what) {
    std::vector<double> seconds;
    for (const FaultRound& round : rounds) seconds.push_back(round.*what);
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  };
  machine::FaultPrice price;
  price.copied = std::max(kLeast_s, middle(&FaultRound::copied));
  price.kept = std::clamp(middle(&FaultRound::kept), kLeast_s, price.copied);
  price.mapped = std::max(kLeast_s, middle(&FaultRound::mapped));
  if (const double stopped = middle(&FaultRound::stopped); stopped > 0) price.stopped = stopped;
  return price;
}

}  // namespace shadowprof::probe
