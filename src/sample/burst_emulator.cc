// SPDX-License-Identifier: MIT
#include "sample/burst_emulator.h"

#include <algorithm>
#include <cerrno>

#include "base/spread.h"
#include "kernel/proc.h"
#include "kernel/user_faults.h"

namespace shadowprof::sample {
namespace {

// A thread's turn, and how late the end of a burst may be: about 0.2 ms. Where a program has its
// memory all over the place, a page that is new takes as long as a hundred instructions.
constexpr uint64_t kTurnInstructions = 20'000;
constexpr uint64_t kTurnNews = 50;
constexpr size_t kTurnWords = 48 * 1024;
static_assert(kTurnWords > 4 * limits::kMaxRecordWords);

// Where code and permissions are is looked up again after so long: to read the list of mappings,
// and which pages of code were rewritten, takes longer than a short burst.
constexpr auto kKnownFor = std::chrono::milliseconds(500);

bool is_in_its_code(const shadow::PausedThread& thread) {
  return thread.stop.is_event(ptrace::StopEvent::stop) && !thread.registers.in_syscall();
}

// It is over: what comes of one that was interrupted is decided when the thread goes on natively.
bool is_behind_call(const shadow::PausedThread& thread) {
  return (thread.stop.is_event(ptrace::StopEvent::stop) ||
          thread.stop.kind() == ptrace::WaitStatus::Kind::syscall_stop) &&
         thread.registers.in_syscall() && !thread.registers.restart_pending();
}

// A thread that makes many calls is hardly met elsewhere than in them, as it stops when the present
// one is over, and most of all in those that take long. What it does behind these would be seen too
// often, and the rest never: so it first makes some of the calls that come next, any number below
// 32 as often as another.
constexpr unsigned kMostCallsBits = 5;
unsigned calls_to_walk_over(uint64_t number) {
  return static_cast<unsigned>(spread(number) >> (64 - kMostCallsBits));
}

// Then all that it does up to the next call is seen, or long stretches would count as short ones.
constexpr uint64_t kMostBetweenCalls = 50'000;

const char* name_of_stop(emu::StopReason reason) {
  switch (reason) {
    case emu::StopReason::budget:
    case emu::StopReason::buffer_full:
      return "turn";
    case emu::StopReason::system_call:
      return "system_call";
    case emu::StopReason::fault:
      return "fault";
    case emu::StopReason::no_code:
      return "no_code";
    case emu::StopReason::unsupported:
      return "unsupported";
    case emu::StopReason::long_string:
      return "long_string";
  }
  return "?";
}

}  // namespace

Status BurstEmulator::learn(Tid thread) {
  SP_ASSIGN(const auto pages, kernel::read_statm(thread));
  SP_ASSIGN(const auto mappings, kernel::read_maps(thread));
  space_.prepare(thread, mappings);
  view_.set_areas(shadow::memory_areas(thread, mappings));
  handles_faults_ = kernel::read_user_faults(thread).any;
  mapped_ = pages.mapped;
  learned_at_ = Clock::now();
  return {};
}

// Where there are tens of thousands of mappings it takes tens of milliseconds.
void BurstEmulator::look_at(shadow::Program& program) {
  const auto pages = kernel::read_statm(program.pid());
  const bool is_known =
      pages && mapped_ == pages->mapped && Clock::now() - learned_at_ < kKnownFor;
  if (!is_known && (!program.is_running() || !learn(program.pid()))) mapped_.reset();
  if (mapped_) space_.emulator().begin(view_, plan_);
}

// What was learned holds if as much is mapped as then. A mapping that was replaced since by another
// of its size is seen later: its pages are as they are now, its permissions as they were.
Status BurstEmulator::begin(shadow::Pause& paused) {
  const Tid tid = paused.threads().front().tracee.tid();
  SP_ASSIGN(const auto pages, kernel::read_statm(tid));
  if (mapped_ != pages.mapped) {
    SP_TRY(learn(tid));
    space_.emulator().begin(view_, plan_);
  }
  space_.code().look_through(tid);
  source_ = std::make_unique<shadow::ProcessMemory>(
      tid, handles_faults_ ? shadow::ProcessMemory::Missing::refused
                           : shadow::ProcessMemory::Missing::fetched);
  view_.set_source(*source_);
  const bool is_alone = paused.threads().size() == 1;
  drawn_ = collect::SampleSeries::Drawn::by_time;
  if (is_alone && is_behind_call(paused.threads().front()) &&
      !paused.walk_over_calls(calls_to_walk_over(burst_))) {
    return fail_errno(EAGAIN, "it sleeps in a system call");
  }
  std::erase_if(paused.threads(), [&](const shadow::PausedThread& thread) {
    const bool is_behind = is_alone && is_behind_call(thread);
    if (!is_behind && !is_in_its_code(thread)) return false;
    Thread t{thread.tracee, thread.registers};
    t.most = is_behind ? std::max(most_, kMostBetweenCalls) : most_;
    if (is_behind) drawn_ = collect::SampleSeries::Drawn::evenly;
    t.registers.orig_rax = machine::kNoSyscall;
    if (!t.tracee.get_extended_state_if_alive(t.extended)) return false;
    if (stacks_) copy_stack(t);
    interpreted_.push_back(std::move(t));
    return true;
  });
  if (interpreted_.empty()) return fail_errno(EAGAIN, "no thread can be interpreted");
  burst_++;
  return {};
}

void BurstEmulator::copy_stack(Thread& t) {
  const GuestAddr pointer(t.registers.rsp);
  const machine::MemoryArea* area = view_.area_of(pointer);
  if (!area) return;
  t.first = t.registers;
  t.stack = std::make_unique<shadow::StackCopy>(*source_, pointer, area->range);
}

bool BurstEmulator::owns(Tid tid) const {
  return std::any_of(interpreted_.begin(), interpreted_.end(),
                     [&](const Thread& t) { return t.tracee.tid() == tid; });
}

// A stopped thread reports nothing but its end.
bool BurstEmulator::serve(Tid tid, const ptrace::WaitStatus&) {
  std::erase_if(interpreted_, [&](const Thread& t) { return t.tracee.tid() == tid; });
  return false;
}

bool BurstEmulator::work() {
  if (interpreted_.empty()) return false;
  Thread t = std::move(interpreted_.front());
  interpreted_.pop_front();
  emu::Emulator& emulator = space_.emulator();
  emulator.load(t.registers, t.extended);
  const std::span<trace::Word> buffer = space_.buffer(0).first(kTurnWords);
  const uint64_t turn = std::min(kTurnInstructions, t.most - t.instructions);
  const emu::Stopped stopped = emulator.run(buffer, turn, kTurnNews);
  t.words.insert(t.words.end(), buffer.begin(),
                 buffer.begin() + static_cast<ptrdiff_t>(stopped.words));
  t.instructions += stopped.instructions;
  instructions_ += stopped.instructions;
  stops_[name_of_stop(stopped.reason)]++;
  const bool goes_on =
      stopped.reason == emu::StopReason::budget || stopped.reason == emu::StopReason::buffer_full;
  if (t.instructions >= t.most) {
    reason_ = "budget";
    retire(t);
  } else if (goes_on) {
    emulator.store(t.registers, t.extended);
    interpreted_.push_back(std::move(t));
  } else {
    reason_ = name_of_stop(stopped.reason);
    retire(t);
  }
  return true;
}

void BurstEmulator::retire(Thread& t) {
  (void)t.tracee.cont_if_alive();
  done_.push_back(std::move(t));
}

void BurstEmulator::end() {
  for (Thread& t : interpreted_) retire(t);
  interpreted_.clear();
}

// Its thread is native again.
void BurstEmulator::submit(Thread& t) {
  shadow::CallStack stack;
  if (t.stack) stack = space_.unwinder().unwind(*t.stack, t.first);
  (void)trace::sum_records(space_.table(), t.words, shares_);
  const auto start = shadow::start_of_trace(burst_, stacks_ ? &stack : nullptr);
  trace::submit_burst(sink_, t.tracee.tid(), start, t.words);
}

uint64_t BurstEmulator::conclude() {
  shares_ = {};
  for (Thread& t : done_) submit(t);
  done_.clear();
  written_.clear();
  view_.take_written([this](GuestAddr page, std::span<const uint8_t>) {
    written_.push_back(page.value / limits::kPageBytes);
  });
  view_.clear();
  source_.reset();
  return std::exchange(instructions_, 0);
}

void BurstEmulator::forget_program() {
  interpreted_.clear();
  mapped_.reset();
}

BurstTotals BurstEmulator::totals() const {
  BurstTotals totals;
  totals.fragments = space_.emulator().fragments_made();
  totals.stops = stops_;
  return totals;
}

}  // namespace shadowprof::sample
