// SPDX-License-Identifier: MIT
#include "clock/cpu_clock.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace shadowprof::clock {
namespace {

// Each thread has events for each processor, as only those of one processor can be inherited and
// have a ring. Beyond so many, file descriptors and kernel memory are better spent elsewhere.
constexpr size_t kMostWatched = 1024;
// 64 KiB of records are 800 ticks: a second of the fastest clock that we use, and more. Those of
// all that a processor executes are four times as many: each program that begins maps some thirty
// pieces of code, and a compiler is begun dozens of times a second.
constexpr size_t kProcessorPages = 64;
constexpr int kMostWithManyPages = 32;  // processors; of more the kernel's memory would be too much
// To begin and end a window is an interrupt on each of them.
constexpr size_t kMostProcessors = 256;

// linux/perf_event.h of Debian 12 has it; PERF_REG_X86_IP of asm/perf_regs.h.
constexpr uint64_t kProgramCounter = uint64_t{1} << 8;

// In the place of a thread's number.
constexpr Tid kEverybody(-1);

perf_event_attr attributes(const EventScope& scope) {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.exclude_kernel = !scope.sees_kernel;
  attr.exclude_hv = 1;
  attr.exclude_idle = 1;
  attr.inherit = scope.of == EventsOf::threads;
  attr.inherit_thread = scope.of == EventsOf::threads && scope.threads_only;
  attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD |
                     PERF_SAMPLE_REGS_USER;
  attr.sample_regs_user = kProgramCounter;
  attr.sample_id_all = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  return attr;
}

perf_event_attr of_ticks(std::chrono::nanoseconds period, const EventScope& scope) {
  perf_event_attr attr = attributes(scope);
  attr.config = PERF_COUNT_SW_CPU_CLOCK;
  attr.sample_period = static_cast<uint64_t>(period.count());
  return attr;
}

// What is mapped and how threads are called is to be known while there are no ticks, too.
perf_event_attr of_names(const EventScope& scope) {
  perf_event_attr attr = attributes(scope);
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.mmap = attr.mmap2 = 1;  // of executable memory
  attr.comm = attr.comm_exec = 1;
  return attr;
}

int processors() {
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_CONF)));
}

UniqueFd open_event(perf_event_attr attr, Tid thread, int processor) {
  return UniqueFd(static_cast<int>(
      ::syscall(SYS_perf_event_open, &attr, thread.value, processor, -1, PERF_FLAG_FD_CLOEXEC)));
}

// Fields of a record, in their order. Past its end everything is 0.
class Fields {
 public:
  explicit Fields(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T next() {
    T value{};
    if (bytes_.size() >= sizeof(T)) std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(std::min(bytes_.size(), sizeof(T)));
    return value;
  }
  std::string text() const {
    const auto* begin = reinterpret_cast<const char*>(bytes_.data());
    return {begin, ::strnlen(begin, bytes_.size())};
  }

 private:
  std::span<const uint8_t> bytes_;
};

// All records but samples end with the ids and the time that samples begin with.
uint64_t time_at_end(std::span<const uint8_t> record) {
  if (record.size() < sizeof(uint64_t)) return 0;
  return Fields(record.subspan(record.size() - sizeof(uint64_t))).next<uint64_t>();
}

ClockEvent read_tick(const perf_event_header& header, std::span<const uint8_t> record) {
  Fields fields(record);
  Tick tick;
  const auto at = fields.next<uint64_t>();
  tick.process = Tid(fields.next<int32_t>());
  tick.thread = Tid(fields.next<int32_t>());
  const auto time = fields.next<uint64_t>();
  tick.ns = fields.next<uint64_t>();
  const auto abi = fields.next<uint64_t>();
  tick.in_kernel = (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER;
  if (abi != PERF_SAMPLE_REGS_ABI_NONE) tick.user = GuestAddr(fields.next<uint64_t>());
  if (!tick.in_kernel) tick.user = GuestAddr(at);
  return {time, tick};
}

// As /proc/PID/maps names it (kernel/proc.h).
void name_mapping(std::string name, kernel::Mapping& mapping) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (name == "//anon") return;
  if (mapping.inode != 0 && name.ends_with(kDeleted)) {
    name.resize(name.size() - kDeleted.size());
    mapping.deleted = true;
  }
  mapping.path = std::move(name);
}

std::optional<ClockEvent> read_mapped(const perf_event_header& header,
                                      std::span<const uint8_t> record) {
  if ((header.misc & PERF_RECORD_MISC_MMAP_DATA) != 0) return std::nullopt;
  Fields fields(record);
  Mapped mapped;
  mapped.process = Tid(fields.next<int32_t>());
  fields.next<uint32_t>();
  mapped.mapping.range.start = GuestAddr(fields.next<uint64_t>());
  mapped.mapping.range.end = mapped.mapping.range.start + fields.next<uint64_t>();
  mapped.mapping.offset = fields.next<uint64_t>();
  mapped.mapping.dev_major = fields.next<uint32_t>();
  mapped.mapping.dev_minor = fields.next<uint32_t>();
  mapped.mapping.inode = fields.next<uint64_t>();
  fields.next<uint64_t>();  // the inode's generation
  mapped.mapping.executable = true;
  fields.next<uint64_t>();  // protection, flags
  name_mapping(fields.text(), mapped.mapping);
  return ClockEvent{time_at_end(record), mapped};
}

ClockEvent read_named(const perf_event_header& header, std::span<const uint8_t> record) {
  Fields fields(record);
  Named named;
  named.process = Tid(fields.next<int32_t>());
  named.thread = Tid(fields.next<int32_t>());
  named.name = fields.text();
  named.by_exec = (header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
  return {time_at_end(record), named};
}

}  // namespace

// Tried on ourselves: the kernel takes the widest that it permits.
Result<CpuClock> CpuClock::open(std::chrono::nanoseconds period, EventsOf widest) {
  constexpr EventScope kProcessors;
  const int here = std::max(0, ::sched_getcpu());
  if (widest == EventsOf::processors &&
      open_event(of_ticks(period, kProcessors), kEverybody, here).valid())
    return CpuClock(period, kProcessors);
  int error = 0;
  for (const bool threads_only : {true, false}) {
    for (const bool sees_kernel : {true, false}) {
      const EventScope scope{EventsOf::threads, sees_kernel, threads_only};
      if (open_event(of_ticks(period, scope), Tid(), -1).valid()) return CpuClock(period, scope);
      error = errno;
    }
    if (error != EINVAL && error != E2BIG) break;
  }
  return fail_errno(error, "the kernel permits no clock events (perf_event_open)");
}

// Threads that are made by those that have events inherit them. A thread that is made meanwhile by
// one that has none yet is not seen; to look again would watch those twice that have inherited.
Status CpuClock::watch(Tid process) {
  processes_.insert(process);
  if (whose() == EventsOf::processors && rings_.empty() && !watch_processors()) {
    rings_.clear();
    watched_ = 0;
    scope_.of = EventsOf::threads;
  }
  if (whose() == EventsOf::processors) return {};
  SP_ASSIGN(const std::vector<Tid> threads, kernel::list_threads(process));
  for (const Tid thread : threads) SP_TRY(watch_thread(process, thread));
  return {};
}

Status CpuClock::watch_processors() {
  const int count = processors();
  if (static_cast<size_t>(count) > kMostProcessors) return fail("there are {} processors", count);
  for (int processor = 0; processor < count; processor++)
    SP_TRY(watch_on(processor, Tid(), kEverybody));
  return {};
}

Status CpuClock::watch_thread(Tid process, Tid thread) {
  const int count = processors();
  if (watched_ + static_cast<size_t>(count) > kMostWatched)
    return fail("there are too many threads to watch each on {} processors", count);
  given_[thread] = process;
  for (int processor = 0; processor < count; processor++)
    SP_TRY(watch_on(processor, process, thread));
  return {};
}

Status CpuClock::watch_on(int processor, Tid process, Tid thread) {
  perf_event_attr ticks = of_ticks(period_, scope_);
  ticks.disabled = paused_;
  EventRing::Events events{.process = process, .lasting = {}, .paused = {}};
  events.lasting = open_event(of_names(scope_), thread, processor);
  if (events.lasting.valid()) events.paused = open_event(ticks, thread, processor);
  if (!events.paused.valid()) {
    if (errno == ENODEV || errno == ESRCH) return {};  // not there, or no more
    return fail_errno(errno, "cannot watch the processor time of thread {}", thread.value);
  }
  watched_++;
  if (const auto ring = rings_.find(processor); ring != rings_.end())
    return ring->second.add(std::move(events));
  const bool has_many = whose() == EventsOf::processors && processors() <= kMostWithManyPages;
  SP_ASSIGN(EventRing ring, EventRing::map(std::move(events),
                                           has_many ? kProcessorPages : EventRing::kFewestPages));
  rings_.emplace(processor, std::move(ring));
  return {};
}

// Child processes have inherited its events where the kernel cannot leave them out.
void CpuClock::forget(Tid process) {
  processes_.erase(process);
  if (whose() == EventsOf::processors || !scope_.threads_only) return;
  for (auto& [processor, ring] : rings_) watched_ -= ring.forget(process);
  std::erase_if(given_, [&](const auto& thread) { return thread.second == process; });
}

// The kernel says the one that the event was opened with (kernel/events/core.c, last_period).
void CpuClock::mend_period(Tick& tick) const {
  if (whose() == EventsOf::processors || given_.contains(tick.thread))
    tick.ns = static_cast<uint64_t>(period_.count());
}

// The kernel says -1 for a thread that is nearly gone.
bool CpuClock::is_watched(const ClockEvent& event) const {
  return std::visit(
      [&](const auto& what) {
        if constexpr (requires { what.thread; })
          if (what.thread.value <= 0) return false;
        return processes_.contains(what.process);
      },
      event.what);
}

void CpuClock::enable(bool on) {
  if (paused_ == !on) return;
  paused_ = !on;
  for (const auto& [processor, ring] : rings_) ring.enable(on);
}

bool CpuClock::set_period(std::chrono::nanoseconds period) {
  early_ = drain();
  bool all = true;
  for (const auto& [processor, ring] : rings_)
    all = ring.set_period(static_cast<uint64_t>(period.count())) && all;
  if (all) period_ = period;
  return all;
}

std::vector<ClockEvent> CpuClock::drain() {
  std::vector<ClockEvent> events = std::exchange(early_, {});
  const auto keep = [&](std::optional<ClockEvent> event) {
    if (event && is_watched(*event)) events.push_back(std::move(*event));
  };
  const auto see = [&](const perf_event_header& header, std::span<const uint8_t> record) {
    switch (header.type) {
      case PERF_RECORD_SAMPLE: {
        ClockEvent event = read_tick(header, record);
        mend_period(std::get<Tick>(event.what));
        keep(std::move(event));
        break;
      }
      case PERF_RECORD_MMAP2:
        keep(read_mapped(header, record));
        break;
      case PERF_RECORD_COMM:
        keep(read_named(header, record));
        break;
      case PERF_RECORD_LOST: {
        Fields fields(record);
        fields.next<uint64_t>();
        lost_ += fields.next<uint64_t>();
        break;
      }
      default:
        break;
    }
  };
  for (auto& [processor, ring] : rings_) ring.drain(see);
  std::ranges::stable_sort(events, {}, &ClockEvent::at_ns);
  return events;
}

}  // namespace shadowprof::clock
