// SPDX-License-Identifier: MIT
#include "probe/calibrate.h"

#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "base/limits.h"
#include "base/log.h"
#include "probe/own_cores.h"
#include "probe/timed_code.h"
#include "profile/random.h"

namespace shadowprof::probe {
namespace {

using profile::LoadKind;

constexpr const char* kName = "latency";
constexpr size_t kLatenciesOfRound = 7 + profile::kLoadKinds;
constexpr size_t kRounds = 8;       // are enough
constexpr size_t kRoundsOfARun = 3;  // of the first one; later ones add a round each

// A round whose stamps took that much longer than the least ones shared its core.
constexpr double kMostQuietRatio = 1.1;

constexpr size_t kLine = 64;
constexpr size_t kHalfPage = 2048;
constexpr size_t kNearLoads = 1500;
constexpr size_t kFarLoads = 600;
constexpr size_t kAcrossPages = 16;
constexpr size_t kFaults = 32;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMostWorkBytes = size_t{8} << 20;
// For a host where nothing can be measured: orders of magnitude.
constexpr profile::LatencyCalibration kUnknown{
    .resolution = 1, .overhead = 30, .typical = {4, 14, 50, 300}, .spread = 100};

using Times = std::vector<uint32_t>;
// Times of loads, and of the stamps around each.
struct Series {
  Times loads, stamps;

  void add(TimedCode::Cycles cycles) {
    loads.push_back(cycles.load);
    stamps.push_back(cycles.stamps);
  }
};

double quantile(Times& times, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(times.size() - 1));
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(at), times.end());
  return times[at];
}

// One time is as coarse as the clock, their mean is not. What is far from the others is an
// interruption.
double mean_of_near(Times& times, double resolution) {
  const double middle = quantile(times, 0.5);
  const double most = std::max(2 * middle, middle + 3 * resolution);
  double sum = 0, count = 0;
  for (const uint32_t time : times) {
    if (time > most) continue;
    sum += time;
    count++;
  }
  return sum / count;
}

// A part of a large set lies in nearer caches, and others drive a part of it out of a shared one.
double mean_of_middle(Times& times) {
  std::sort(times.begin(), times.end());
  const size_t from = times.size() / 4, to = times.size() * 5 / 8;
  double sum = 0;
  for (size_t i = from; i < to; i++) sum += times[i];
  return sum / static_cast<double>(to - from);
}

double step_of(const Times& times) {
  uint32_t least = UINT32_MAX;
  for (size_t i = 1; i < times.size(); i++) {
    const uint32_t step = std::max(times[i], times[i - 1]) - std::min(times[i], times[i - 1]);
    if (step != 0) least = std::min(least, step);
  }
  return least == UINT32_MAX ? 1 : least;
}

size_t cache_bytes(int name, size_t otherwise) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? static_cast<size_t>(bytes) : otherwise;
}

// Memory of our own, in huge pages where there are any: what misses a translation buffer is another
// matter.
class Memory {
 public:
  explicit Memory(size_t bytes)
      : bytes_(bytes + kHugePage),
        memory_(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (!exists()) return;
    ::madvise(memory_, bytes_, MADV_HUGEPAGE);
    const auto address = reinterpret_cast<uintptr_t>(memory_);
    begin_ = static_cast<char*>(memory_) + (kHugePage - address % kHugePage) % kHugePage;
    std::memset(begin_, 1, bytes);
  }
  ~Memory() {
    if (exists()) ::munmap(memory_, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  bool exists() const { return memory_ != MAP_FAILED; }
  char* at(size_t offset) { return begin_ + offset; }

 private:
  size_t bytes_;
  void* memory_;
  char* begin_ = nullptr;
};

class Calibration {
 public:
  Calibration(TimedCode& code, Memory& memory, uint64_t seed)
      : code_(code), memory_(memory), random_(seed) {}

  LatencyRound round(size_t l1, size_t l2, size_t l3) {
    LatencyRound r;
    char* line = memory_.at(0);
    Series hits = repeat([&] { return code_.time_load(line); });
    r.resolution = step_of(hits.stamps);
    r.overhead = mean_of_near(hits.stamps, r.resolution);
    const auto near = [&](Series series) {
      return mean_of_near(series.loads, r.resolution) - mean_of_near(series.stamps, r.resolution);
    };
    const auto far = [&](Series series) {
      return mean_of_middle(series.loads) - mean_of_near(series.stamps, r.resolution);
    };
    for (size_t i = 0; i < profile::kLoadKinds; i++) {
      const auto kind = static_cast<LoadKind>(i);
      if (kind == LoadKind::gather && !TimedCode::has_gather()) continue;
      if (kind != LoadKind::move) hits = repeat([&] { return code_.time_kind(kind, line); });
      r.hits[i] = std::max(1.0, near(hits));
    }
    r.l2 = near(random_loads(std::min(l2 / 2, 8 * l1), kNearLoads));
    r.l3 = far(random_loads(std::min({l3 / 4, 8 * l2, kMostWorkBytes}), kFarLoads));
    r.dram = far(flushed_loads());
    r.fault = least_fault() - r.overhead;
    Series across = from_other_core();
    if (!across.loads.empty()) r.across = std::max(0.0, far(std::move(across)));
    return r;
  }

 private:
  template <typename Time>
  static Series repeat(Time time) {
    Series series;
    for (size_t warm = 0; warm < 16; warm++) (void)time();
    for (size_t i = 0; i < kNearLoads; i++) series.add(time());
    return series;
  }
  Series random_loads(size_t bytes, size_t count) {
    for (size_t i = 0; i < 2 * bytes; i += kLine)
      (void)*static_cast<const volatile char*>(memory_.at(i % bytes));
    Series series;
    for (size_t i = 0; i < count; i++) series.add(code_.time_load(memory_.at(random_line(bytes))));
    return series;
  }
  // Other lines of the pages are loaded first: translations are not what is measured.
  Series flushed_loads() {
    Series series;
    for (size_t i = 0; i < kFarLoads; i++) {
      char* line = memory_.at(random_line(kMostWorkBytes));
      _mm_clflush(line);
      (void)*static_cast<const volatile char*>(
          memory_.at(static_cast<size_t>(line - memory_.at(0)) ^ kHalfPage));
      _mm_mfence();
      series.add(code_.time_load(line));
    }
    return series;
  }
  // Every second line of halves of pages, as processors load pairs of lines. Other lines of the
  // pages are loaded on this core before, for the translations.
  Series from_other_core() {
    const OwnCores cores;
    const std::vector<size_t> all = cores.all();
    if (all.size() < 2) return {};
    const size_t here = random_.next() % all.size();
    const size_t there = (here + 1 + random_.next() % (all.size() - 1)) % all.size();
    std::vector<char*> lines;
    for (size_t page = 0; page < kAcrossPages; page++)
      for (size_t i = 0; i < kHalfPage; i += 2 * kLine)
        lines.push_back(memory_.at(page * limits::kPageBytes + i));
    for (size_t i = lines.size(); i > 1; i--) std::swap(lines[i - 1], lines[random_.next() % i]);
    for (char* line : lines) _mm_clflush(line);
    if (!OwnCores::stay_on(all[there])) return {};
    for (size_t pass = 0; pass < 2; pass++)
      for (const char* line : lines) (void)*static_cast<const volatile char*>(line);
    if (!OwnCores::stay_on(all[here])) return {};
    for (size_t page = 0; page < kAcrossPages; page++)
      (void)*static_cast<const volatile char*>(memory_.at(page * limits::kPageBytes + kHalfPage));
    Series series;
    for (char* line : lines) series.add(code_.time_load(line));
    return series;
  }
  // The least but one: no interruption is that short.
  double least_fault() {
    constexpr size_t kBytes = kFaults * limits::kPageBytes;
    void* pages = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 0;
    ::madvise(pages, kBytes, MADV_NOHUGEPAGE);
    Times times(kFaults);
    for (size_t i = 0; i < kFaults; i++)
      times[i] = code_.time_load(static_cast<char*>(pages) + i * limits::kPageBytes).load;
    ::munmap(pages, kBytes);
    return quantile(times, 1.0 / kFaults);
  }
  size_t random_line(size_t bytes) { return random_.next() % (bytes / kLine) * kLine; }

  TimedCode& code_;
  Memory& memory_;
  profile::Random random_;
};

std::vector<LatencyRound> latency_rounds_from(const std::vector<double>& numbers) {
  std::vector<LatencyRound> rounds;
  if (numbers.size() % kLatenciesOfRound != 0) return rounds;
  for (size_t i = 0; i < numbers.size(); i += kLatenciesOfRound) {
    LatencyRound r;
    const double* n = &numbers[i];
    r.resolution = n[0];
    r.overhead = n[1];
    r.l2 = n[2];
    r.l3 = n[3];
    r.dram = n[4];
    r.fault = n[5];
    r.across = n[6];
    std::copy_n(n + 7, profile::kLoadKinds, r.hits.begin());
    rounds.push_back(r);
  }
  return rounds;
}

std::vector<double> numbers_of_latencies(const std::vector<LatencyRound>& rounds) {
  std::vector<double> numbers;
  for (const LatencyRound& r : rounds) {
    numbers.insert(numbers.end(),
                   {r.resolution, r.overhead, r.l2, r.l3, r.dram, r.fault, r.across});
    numbers.insert(numbers.end(), r.hits.begin(), r.hits.end());
  }
  return numbers;
}

template <typename Get>
std::vector<double> sorted(const std::vector<LatencyRound>& rounds, Get get) {
  std::vector<double> values;
  for (const LatencyRound& r : rounds) values.push_back(get(r));
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

Result<LatencyRound> measure_latency_round(uint64_t seed) {
  Memory memory(kMostWorkBytes);
  if (!memory.exists()) return fail_errno(errno, "cannot calibrate latencies");
  SP_ASSIGN(TimedCode code, TimedCode::create());
  return Calibration(code, memory, seed)
      .round(cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10),
             cache_bytes(_SC_LEVEL2_CACHE_SIZE, 512 << 10),
             cache_bytes(_SC_LEVEL3_CACHE_SIZE, 16 << 20));
}

profile::LatencyCalibration calibration_of(const std::vector<LatencyRound>& rounds) {
  const auto least = [&](auto get) { return sorted(rounds, get).front(); };
  const double least_overhead = least([](const LatencyRound& r) { return r.overhead; });
  std::vector<LatencyRound> quiet;
  std::ranges::copy_if(rounds, std::back_inserter(quiet), [&](const LatencyRound& r) {
    return r.overhead <= kMostQuietRatio * least_overhead;
  });
  const auto middle = [&](auto get) { return sorted(quiet, get)[quiet.size() / 2]; };
  profile::LatencyCalibration c;
  c.resolution = least([](const LatencyRound& r) { return r.resolution; });
  c.overhead = middle([](const LatencyRound& r) { return r.overhead; });
  for (size_t i = 0; i < profile::kLoadKinds; i++)
    c.hits[i] = middle([i](const LatencyRound& r) { return r.hits[i]; });
  c.typical[0] = c.hits[static_cast<size_t>(LoadKind::move)];
  c.typical[1] = middle([](const LatencyRound& r) { return r.l2; });
  c.typical[2] = least([](const LatencyRound& r) { return r.l3; });
  c.typical[3] = least([](const LatencyRound& r) { return r.dram; });
  for (size_t i = 1; i < c.typical.size(); i++)
    c.typical[i] = std::max(c.typical[i], c.typical[i - 1]);
  c.fault = least([](const LatencyRound& r) { return r.fault; });
  const auto greatest = [&](auto get) { return sorted(rounds, get).back(); };
  c.across = greatest([](const LatencyRound& r) { return r.across; });
  const double l3_in_middle =
      sorted(rounds, [](const LatencyRound& r) { return r.l3; })[rounds.size() / 2];
  c.spread = c.typical[2] > 0 ? std::max(1.0, l3_in_middle / c.typical[2]) : 1;
  return c;
}

profile::LatencyCalibration calibrate_latency(const HostNotes& notes) {
  auto rounds = latency_rounds_from(notes.load(kName));
  if (rounds.size() > kRounds) rounds.clear();
  const size_t known = rounds.size();
  const size_t wanted = known == 0 ? kRoundsOfARun : std::min(kRounds, known + 1);
  while (rounds.size() < wanted) {
    auto round = measure_latency_round(rounds.size() + 1);
    if (!round) {
      detail("{}", round.error().message);
      break;
    }
    rounds.push_back(*round);
  }
  if (rounds.size() != known) notes.store(kName, numbers_of_latencies(rounds));
  return rounds.empty() ? kUnknown : calibration_of(rounds);
}

}  // namespace shadowprof::probe
