// SPDX-License-Identifier: MIT
//
// Threads that take turns, so that they execute the same in each run (turn_order.h).
//
// One thread runs at a time, of all processes. All others are parked: they are stopped, or have
// stopped and what they report is left alone until they have the turn; or they sleep in the kernel.
// The kernel does what it does natively: futexes, pipes, locks and signals are its own. Since there
// is one thread at a time, the order in which threads come to wait, and are woken, is always the
// same.
//
//   turn over       translated code has counted down its backward branches (translator_turns.cc).
//                   Such code is made when there is somebody else to run, or a wait has an end.
//   a call          that may wait stops behind itself (StatePage::stops_behind_call). Until then
//                   the thread is looked at: when it is asleep, the turn is somebody else's.
//   a wake          of a sleeper is over before the call that wakes returns. So who gets the next
//                   turn is known when each thread that does not sleep any more has reported.
//   a timeout       is taken out of the call (TimedWait::wait_endlessly); the clock's owners, who
//                   are we, end it by an interrupt.
//
// When nobody can go on, somebody outside is waited for. A thread that sleeps in a way that was not
// expected, such as for a page that userfaultfd(2) has to bring, is interrupted after a while, and
// loses its turn.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <string_view>

#include "inject/call_kinds.h"
#include "inject/engine.h"
#include "inject/turn_calls.h"
#include "kernel/proc.h"
#include "kernel/table.h"
#include "ptrace/interruption.h"

namespace shadowprof::inject {

using ptrace::StopEvent;
using ptrace::WaitOutcome;

namespace {

// In looks. The first take a microsecond or so each: on another processor the thread is as fast.
// Who yields instead of sleeping comes last where others want the processor, too.
constexpr unsigned kBusy = 8;
constexpr unsigned kEager = 200;
constexpr timespec kShortPause{0, 4'000};
constexpr timespec kPause{0, 50'000};
constexpr unsigned long kTimerSlack_ns = 1'000;
constexpr std::chrono::seconds kDeepSleep{2};  // longer than for a busy disk: for another thread
constexpr std::chrono::seconds kPatience{2};
// What a call takes of a turn: about as much time.
constexpr uint64_t kBranchesOfACall = 200;
constexpr long kWake_ns = 10'000'000;
// So many of these. Who is asleep uninterruptibly is, as a rule, served by a disk.
constexpr unsigned kUnexpectedSleep = 5;
constexpr unsigned kUninterruptibleSleep = 200;

using Clock = std::chrono::steady_clock;

void pause(unsigned looks) {
  if (looks >= kBusy) ::nanosleep(looks < kEager ? &kShortPause : &kPause, nullptr);
}

bool has_ended(char state) {
  return state == 'Z' || state == 'X';
}

}  // namespace

Status Engine::prepare_turns() {
  take_interruptions(SIGPROF, [](int) {});
  SP_ASSIGN(ThreadTimer timer, ThreadTimer::create(SIGPROF));
  wake_timer_.emplace(std::move(timer));
  return {};
}

// `t` is the only thread.
void Engine::begin_turns(GuestThread& t) {
  if (turns_.is_active()) return;
  turns_.begin(t.tracee.tid());
  wake_timer_->every(kWake_ns);
  (void)::prctl(PR_SET_TIMERSLACK, kTimerSlack_ns, 0, 0, 0);
  watch_turn_calls(t);
}

void Engine::watch_turn_calls(GuestThread& t) {
  for (unsigned number = 0; number < cache::kListedCalls; number++) {
    using enum emu::SyscallKind;
    const emu::SyscallKind kind = call_kind(number);
    const bool is_of_signals = kind == action || kind == mask;
    if (is_of_signals || (kind == execute && !is_quiet_call(number))) t.slot->watch(number);
  }
}

// The next report to handle.
WaitOutcome Engine::next_in_turn() {
  const auto is_urgent = [&](const WaitOutcome& o) {
    return o.status.ends_the_thread() || !threads_.contains(o.tid);
  };
  for (;; looks_++) {
    stops_.fetch();
    if (const auto urgent = stops_.take_if(is_urgent)) return *urgent;
    if (await_endings()) continue;
    if (!turns_.holder()) {
      GuestThread* next = give_turn();
      if (next == nullptr) return await_others();
      looks_ = 0;
      if (next->parked) resume(*next);
      continue;
    }
    const Tid tid = *turns_.holder();
    const auto holder = threads_.find(tid);
    if (holder == threads_.end()) {
      turns_.forget(tid);
      continue;
    }
    const auto is_its = [&](const WaitOutcome& o) { return o.tid == tid; };
    if (const auto report = stops_.take_if(is_its)) {
      looks_ = 0;
      holder->second->sleeps_deeply = false;
      return *report;
    }
    const WaitOutcome::Kind waited = await_holder(*holder->second);
    if (waited != WaitOutcome::Kind::status) return {.kind = waited, .tid = {}, .status = {}};
  }
}

// Somebody is about to end: until it is over nobody knows whom that wakes.
bool Engine::await_endings() {
  if (!somebody_ends_) return false;
  for (const auto& [tid, t] : threads_) {
    const bool ends = t->ending || t->process->is_ending;
    if (!ends || has_ended(state_of(*t))) continue;
    if (looks_ == 0) looking_since_ = Clock::now();
    if (Clock::now() - looking_since_ > kPatience) break;
    pause(looks_);
    return true;
  }
  looks_ = 0;
  somebody_ends_ = false;
  return true;  // what it has reported comes first
}

GuestThread* Engine::give_turn() {
  if (may_have_woken_) settle();
  fire_timers();
  if (may_have_woken_) settle();
  end_waits_until(clock_->now_ns());
  const auto next = turns_.give([&](Tid tid) { return can_go_on(tid); });
  if (!next) return nullptr;
  if (idle_since_) note_waits_for_others();
  idle_since_.reset();
  looks_asleep_ = 0;
  GuestThread& t = *threads_.at(*next);
  if (t.slot) t.slot->state().turn_left = turn_length();
  return &t;
}

void Engine::pass_turn(GuestThread& t) {
  if (!turns_.is_holder(t.tracee.tid())) return;
  catch_up(t);
  turns_.pass();
}

bool Engine::can_go_on(Tid tid) {
  const auto it = threads_.find(tid);
  if (it == threads_.end() || it->second->ending) return false;
  return it->second->parked || stops_.has_fetched(tid);
}

// The thread is about to be set going. True: it is not, now, or has been.
bool Engine::withholds(GuestThread& t, int signal) {
  if (t.ending) return false;
  if (!turns_.is_holder(t.tracee.tid())) {
    t.parked = true;
    turns_.add(t.tracee.tid());
    return true;
  }
  t.parked = false;
  return signal == 0 && needs_turn_checks(t) && add_turn_checks(t);
}

// Somebody else could run, or will be able to when time has passed.
bool Engine::is_contended() {
  if (may_have_woken_) settle();
  return std::ranges::any_of(turns_.waiting(), [&](Tid tid) { return can_go_on(tid); }) ||
         first_deadline() || timers_.any_armed();
}

bool Engine::needs_turn_checks(GuestThread& t) {
  if (!t.slot || !t.in_engine || t.process->space->translator().counts_turns()) return false;
  if (t.in_call || t.in_vfork || t.executing || t.trapped || t.leaves || t.holding) return false;
  return !t.under_way && !t.cut.is_active() && is_contended();
}

// All code is translated anew.
bool Engine::add_turn_checks(GuestThread& t) {
  Registers regs;
  if (!t.tracee.get_registers_if_alive(regs)) return false;
  cache::AddressSpace& space = *t.process->space;
  // It would make its call twice.
  if (space.cache().locate(regs.rip).kind == emu::CachePosition::Kind::before_syscall) return false;
  if (!to_guest(t, regs) || !t.tracee.set_registers_if_alive(regs)) return true;
  space.translator().count_turns();
  flush(t);
  enter(t, regs);
  return true;
}

// The beginning of a file of the thread's in /proc, as it is now.
std::string_view Engine::look_into(GuestThread& t, UniqueFd& file, const char* name,
                                   std::span<char> text) {
  if (!file.valid()) {
    const std::string path =
        fmt::format("/proc/{}/task/{}/{}", t.process->pid.value, t.tracee.tid().value, name);
    file = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

// As in proc(5); X: there is no such thread. Who is about to sleep says so first, then looks at
// what it would wait for, and may go on: wait4(2) finds a child that has ended. So a sleeper is
// asked for its call, too, which the kernel tells when it is off its processor. It may have stopped
// meanwhile, or sleep in a page fault: in no call.
char Engine::state_of(GuestThread& t) {
  std::array<char, 512> text;
  const auto look = [&] {
    return kernel::state_in_stat(look_into(t, t.stat, "stat", text)).value_or('X');
  };
  const char state = look();
  if (state != 'S' || is_executing(*t.process)) return state;
  const std::string_view call = look_into(t, t.present_call, "syscall", text);
  if (call.starts_with("running")) return 'R';
  return call.starts_with("-1") ? look() : state;
}

// Before Linux 5.7 it is told of no call until an execve of the process is over, which waits for
// its other threads.
bool Engine::is_executing(const GuestProcess& process) const {
  return std::ranges::any_of(threads_, [&](const auto& entry) {
    return entry.second->process == &process && entry.second->executing;
  });
}

template <typename Wanted>
void Engine::settle_those(Wanted is_wanted) {
  for (const Tid tid : std::deque(turns_.waiting())) {
    const auto it = threads_.find(tid);
    if (it == threads_.end()) {
      turns_.forget(tid);
    } else if (!it->second->parked && !it->second->ending && is_wanted(*it->second)) {
      settle(*it->second);
    }
  }
}

// Afterwards it is known who can go on.
void Engine::settle() {
  may_have_woken_ = false;
  settle_those([](const GuestThread&) { return true; });
}

// What a call of the holder's has woken may be on its way out of a call of its own, in which it
// takes what is there by then: bytes of a pipe, events of many descriptors. It is to have taken
// them before the holder's next call brings more. A futex has nothing to take.
void Engine::settle_takers() {
  if (may_have_woken_) settle_those([](const GuestThread& t) { return t.call != SYS_futex; });
}

// Until it has reported something, or has ended, or is in such a state.
template <typename InState>
void Engine::look_until(GuestThread& t, InState is_settled) {
  const Clock::time_point start = Clock::now();
  for (unsigned looks = 0; Clock::now() - start < kPatience; looks++) {
    stops_.fetch();
    if (stops_.has_fetched(t.tracee.tid())) return;
    const char state = state_of(t);
    if (has_ended(state) || is_settled(state)) return;
    pause(looks);
  }
}

// Until it sleeps, or has reported something.
void Engine::settle(GuestThread& t) {
  look_until(t, [&](char state) {
    if (state == 't' || state == 'T') {  // it listens, or has reported
      stops_.fetch();
      return true;
    }
    return state == 'S' || (state == 'D' && (t.in_vfork || t.sleeps_deeply));
  });
}

WaitOutcome::Kind Engine::await_holder(GuestThread& t) {
  if (!t.in_call) {
    const WaitOutcome::Kind waited = stops_.await_any();
    if (waited == WaitOutcome::Kind::interrupted) look_for_sleeper(t);
    return waited;
  }
  constexpr unsigned kBlindLooks = 2;
  if (looks_ == 0) looking_since_ = Clock::now();
  const char state = looks_ < kBlindLooks ? 'R' : state_of(t);
  t.sleeps_deeply = state == 'D' && Clock::now() - looking_since_ > kDeepSleep;
  if (state == 'S' || t.sleeps_deeply) {
    t.socket.reset();  // it has begun with the other timeout
    pass_turn(t);
    return WaitOutcome::Kind::status;
  }
  pause(looks_);
  constexpr unsigned kLooksOfARound = 1024;
  return ++looks_ % kLooksOfARound != 0 ? WaitOutcome::Kind::status
                                        : WaitOutcome::Kind::interrupted;
}

// The holder runs, as far as is known.
void Engine::look_for_sleeper(GuestThread& t) {
  const char state = state_of(t);
  looks_asleep_ = state == 'S' || state == 'D' ? looks_asleep_ + 1 : 0;
  if (looks_asleep_ < (state == 'S' ? kUnexpectedSleep : kUninterruptibleSleep)) return;
  if (!t.tracee.interrupt_if_alive()) return;
  t.sleeps_deeply = state == 'D';
  pass_turn(t);
  may_have_woken_ = true;
}

std::optional<uint64_t> Engine::first_deadline() const {
  std::optional<uint64_t> first = timers_.first_ns();
  for (const Tid tid : turns_.waiting()) {
    const auto it = threads_.find(tid);
    if (it == threads_.end() || !it->second->wait || !it->second->wait->is_endless()) continue;
    const uint64_t until_ns = it->second->wait->until_ns();
    first = std::min(first.value_or(until_ns), until_ns);
  }
  return first;
}

void Engine::end_waits_until(uint64_t now_ns) {
  for (auto deadline = first_deadline(); deadline && *deadline <= now_ns;) {
    bool ended = false;
    for (const Tid tid : std::deque(turns_.waiting())) {
      const auto it = threads_.find(tid);
      if (it == threads_.end() || !it->second->wait || stops_.has_fetched(tid)) continue;
      GuestThread& t = *it->second;
      if (t.parked || !t.wait->is_endless() || t.wait->until_ns() > now_ns) continue;
      t.expires = true;
      if (t.tracee.interrupt_if_alive()) look_until(t, [](char) { return false; });
      ended = true;
    }
    if (!ended) return;
    deadline = first_deadline();
  }
}

// Nobody can go on: until somebody outside does something, or the first wait is over, which takes
// the time that it takes.
WaitOutcome Engine::await_others() {
  constexpr long kLook_ns = 1'000'000;
  const auto deadline = first_deadline();
  const bool was_idle = idle_since_.has_value();
  if (!was_idle) idle_since_ = Clock::now();
  may_have_woken_ = true;
  WaitOutcome::Kind waited = WaitOutcome::Kind::interrupted;
  if (!deadline) {
    waited = stops_.await_any();
  } else {
    const auto left =
        std::chrono::nanoseconds(*deadline > clock_->now_ns() ? *deadline - clock_->now_ns() : 0);
    const auto still_left = left - (Clock::now() - *idle_since_);
    if (still_left.count() <= 0) {
      clock_->sleep_until(*deadline);
      idle_since_.reset();
    } else {
      const timespec look{0, std::min<long>(kLook_ns, still_left.count())};
      ::nanosleep(&look, nullptr);
    }
    stops_.fetch();
  }
  if (waited == WaitOutcome::Kind::status) waited = WaitOutcome::Kind::interrupted;
  return {.kind = waited, .tid = {}, .status = {}};
}

// Nobody could go on until now: whoever has something to report has had it from outside.
void Engine::note_waits_for_others() {
  for (const auto& [tid, t] : threads_)
    if (stops_.has_fetched(tid)) note_wait_for_others(*t);
}

void Engine::note_wait_for_others(const GuestThread& t) {
  constexpr size_t kMost = 16;
  if (!t.in_call || t.in_vfork || t.expires || waits_for_others_.size() == kMost) return;
  // The child that it waited for is followed, too: what that waited for is named, if anything.
  if (options_.follow && (t.call == SYS_wait4 || t.call == SYS_waitid)) return;
  waits_for_others_.insert({t.process->pid.value, t.call});
}

std::vector<std::string> Engine::waits_for_others() const {
  std::vector<std::string> calls;
  for (const auto& [pid, number] : waits_for_others_) {
    const kernel::SyscallRow* row = kernel::find_syscall(static_cast<long>(number));
    std::string name = row ? std::string(row->name) : fmt::format("call {}", number);
    if (std::ranges::count(calls, name) == 0) calls.push_back(std::move(name));
  }
  return calls;
}

void Engine::on_turn_over(GuestThread& t) {
  counts_.turns++;
  if (may_have_woken_) settle();
  catch_up(t);
  fire_timers();
  if (may_have_woken_) settle();
  end_waits_until(clock_->now_ns());
  const auto& waiting = turns_.waiting();
  if (std::ranges::any_of(waiting, [&](Tid tid) { return can_go_on(tid); })) {
    pass_turn(t);
  } else {
    t.slot->state().turn_left = turn_length();
  }
  go_on(t);
}

// Its own interrupt's stop, in a call that is to say that its time is over.
void Engine::on_wait_over(GuestThread& t) {
  Registers regs;
  if (!t.tracee.get_registers_if_alive(regs)) return;
  const auto result = static_cast<int64_t>(regs.rax);
  const bool is_cut = regs.in_syscall() && (result == -EINTR || regs.restart_pending());
  const emu::CachePosition at = t.process->space->cache().locate(regs.rip);
  if (!t.wait || !is_cut || at.kind != emu::CachePosition::Kind::after_syscall) return resume(t);
  regs.rax = static_cast<uint64_t>(t.wait->result_when_over());
  regs.orig_rax = machine::kNoSyscall;
  take_guest_state(t, regs, at);
  enter(t, regs);
}

// The gateway makes it when the thread goes on.
void Engine::note_call(GuestThread& t, const Registers& regs) {
  if (!turns_.is_active() || t.holding) return;
  may_have_woken_ = true;
  uint64_t& left = t.slot->state().turn_left;
  left = left > kBranchesOfACall ? left - kBranchesOfACall : 1;
  t.call = static_cast<unsigned>(regs.rax);
  switch (t.call) {
    case SYS_execve:
    case SYS_execveat:
    case SYS_exit:
    case SYS_exit_group:
      return;
    case SYS_sched_yield:
      if (is_contended()) pass_turn(t);
      return;
    default:
      break;
  }
  if (may_wait(regs, t.tracee.tid()) || !t.process->space->translator().counts_turns())
    stop_behind_call(t);
}

}  // namespace shadowprof::inject
