// SPDX-License-Identifier: MIT
#include "inject/fixed/turn_keeper.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <deque>

#include "inject/call_kinds.h"
#include "inject/fixed/guest_clock.h"
#include "inject/fixed/turn_calls.h"
#include "inject/thread_state.h"
#include "kernel/table.h"

namespace shadowprof::inject {

using ptrace::WaitOutcome;

namespace {

// In looks. The first take a microsecond or so each: on another processor the thread is as fast.
// Who yields instead of sleeping comes last where others want the processor, too.
constexpr unsigned kBusy = 8;
constexpr unsigned kEager = 200;
constexpr timespec kShortPause{0, 4'000};
constexpr timespec kPause{0, 50'000};
constexpr unsigned long kTimerSlack_ns = 1'000;
// Longer than for a busy disk: for another thread.
constexpr std::chrono::seconds kDeepSleep{2};
constexpr std::chrono::milliseconds kUnexpectedSleep{50};
constexpr std::chrono::seconds kPatience{60};  // with who runs, on the busiest of machines
// What a call takes of a turn: about as much time.
constexpr uint64_t kBranchesOfACall = 200;
constexpr long kWake_ns = 10'000'000;

void pause(unsigned looks) {
  if (looks >= kBusy) ::nanosleep(looks < kEager ? &kShortPause : &kPause, nullptr);
}

}  // namespace

Status TurnKeeper::prepare() {
  take_interruptions(SIGPROF, [](int) {});
  SP_ASSIGN(ThreadTimer timer, ThreadTimer::create(SIGPROF));
  wake_timer_.emplace(std::move(timer));
  return {};
}

void TurnKeeper::begin(GuestThread& t) {
  if (turns_.is_active()) return;
  turns_.begin(t.tracee.tid());
  wake_timer_->every(kWake_ns);
  (void)::prctl(PR_SET_TIMERSLACK, kTimerSlack_ns, 0, 0, 0);
  watch_calls(t);
}

void TurnKeeper::watch_calls(GuestThread& t) const {
  for (unsigned number = 0; number < cache::kListedCalls; number++) {
    using enum emu::SyscallKind;
    const emu::SyscallKind kind = call_kind(number);
    const bool is_of_signals = kind == action || kind == mask;
    if (is_of_signals || (kind == execute && !is_quiet_call(number))) t.slot->watch(number);
  }
}

TurnKeeper::Next TurnKeeper::next() {
  const auto is_urgent = [&](const WaitOutcome& o) {
    return o.status.ends_the_thread() || !guests_.threads.contains(o.tid);
  };
  for (;; looks_++) {
    stops_.fetch();
    if (const auto urgent = stops_.take_if(is_urgent)) return {*urgent};
    if (await_endings()) continue;
    if (!turns_.holder()) {
      GuestThread* next = give();
      if (next == nullptr) return {await_others()};
      looks_ = 0;
      if (!next->parked) continue;
      looks_++;
      return {.report = {}, .goes_on = next};
    }
    const Tid tid = *turns_.holder();
    GuestThread* holder = guests_.find(tid);
    if (holder == nullptr) {
      turns_.forget(tid);
      continue;
    }
    const auto is_its = [&](const WaitOutcome& o) { return o.tid == tid; };
    if (const auto report = stops_.take_if(is_its)) {
      looks_ = 0;
      holder->sleeps_deeply = false;
      return {*report};
    }
    const WaitOutcome::Kind waited = await_holder(*holder);
    if (waited != WaitOutcome::Kind::status) return {{.kind = waited, .tid = {}, .status = {}}};
  }
}

// Somebody is about to end: until it is over nobody knows whom that wakes.
bool TurnKeeper::await_endings() {
  if (!somebody_ends_) return false;
  for (const auto& [tid, t] : guests_.threads) {
    if (!t->ending && !t->process->is_ending) continue;
    const char state = state_of(*t, guests_);
    if (has_ended(state)) continue;
    if (sleep_at_end_.lasts(*t, state, kDeepSleep)) {
      has_lost_patience_ = true;
      break;
    }
    pause(looks_);
    return true;
  }
  sleep_at_end_.forget();
  looks_ = 0;
  somebody_ends_ = false;
  return true;  // what it has reported comes first
}

GuestThread* TurnKeeper::give() {
  if (may_have_woken_) settle();
  fire_timers();
  if (may_have_woken_) settle();
  end_waits_until(clock_.now_ns());
  const auto next = turns_.give([&](Tid tid) { return can_go_on(tid); });
  if (!next) return nullptr;
  if (idle_since_) note_waits_for_others();
  idle_since_.reset();
  sleep_of_holder_.forget();
  GuestThread& t = *guests_.threads.at(*next);
  if (t.slot) t.slot->state().turn_left = length();
  return &t;
}

void TurnKeeper::pass(GuestThread& t) {
  if (!turns_.is_holder(t.tracee.tid())) return;
  catch_up(clock_, t);
  turns_.pass();
}

bool TurnKeeper::can_go_on(Tid tid) const {
  const GuestThread* t = guests_.find(tid);
  if (t == nullptr || t->ending) return false;
  return t->parked || stops_.has_fetched(tid);
}

bool TurnKeeper::parks(GuestThread& t) {
  if (t.ending) return false;
  t.parked = !turns_.is_holder(t.tracee.tid());
  if (t.parked) turns_.add(t.tracee.tid());
  return t.parked;
}

// Somebody else could run, or will be able to when time has passed.
bool TurnKeeper::is_contended() {
  if (may_have_woken_) settle();
  return std::ranges::any_of(turns_.waiting(), [&](Tid tid) { return can_go_on(tid); }) ||
         first_deadline() || timers_.any_armed();
}

bool TurnKeeper::needs_checks(GuestThread& t) {
  if (t.ending || !t.slot || !t.in_engine || t.process->space->translator().counts_turns())
    return false;
  if (t.in_call || t.in_vfork || t.executing || t.trapped || t.leaves || t.holding) return false;
  return !t.under_way && !t.cut.is_active() && is_contended();
}

// In branches. A thread that is alone is looked at again when a part of the time to the next timer
// is over: most code executes fewer instructions from one counted branch to the next.
uint64_t TurnKeeper::length() {
  constexpr uint64_t kMostOfABranch = 256;
  const uint64_t length = turns_.length();
  if (!turns_.waiting().empty()) return length;
  return std::max(length, timers_.least_left_ns().value_or(0) / kMostOfABranch);
}

void TurnKeeper::shorten(GuestThread& t, bool somebody_comes) {
  uint64_t& left = t.slot->state().turn_left;
  if (left > TurnOrder::kLongest) left = somebody_comes ? turns_.length() : length();
}

void TurnKeeper::fire_timers() {
  if (timers_.fire()) may_have_woken_ = true;
}

template <typename Wanted>
void TurnKeeper::settle_those(Wanted is_wanted) {
  for (const Tid tid : std::deque(turns_.waiting())) {
    GuestThread* t = guests_.find(tid);
    if (t == nullptr) {
      turns_.forget(tid);
    } else if (!t->parked && !t->ending && is_wanted(*t)) {
      settle(*t);
    }
  }
}

// Afterwards it is known who can go on.
void TurnKeeper::settle() {
  may_have_woken_ = false;
  settle_those([](const GuestThread&) { return true; });
}

// A futex has nothing to take.
void TurnKeeper::settle_takers() {
  if (may_have_woken_) settle_those([](const GuestThread& t) { return t.call != SYS_futex; });
}

// Until it has reported something, or has ended, or is in such a state.
template <typename InState>
void TurnKeeper::look_until(GuestThread& t, InState is_settled) {
  const Clock::time_point start = Clock::now();
  LastingSleep sleep;
  for (unsigned looks = 0; Clock::now() - start < kPatience; looks++) {
    stops_.fetch();
    if (stops_.has_fetched(t.tracee.tid())) return;
    const char state = state_of(t, guests_);
    if (has_ended(state) || is_settled(state)) return;
    if (sleep.lasts(t, state, kDeepSleep)) break;
    pause(looks);
  }
  has_lost_patience_ = true;
}

// Until it sleeps, or has reported something.
void TurnKeeper::settle(GuestThread& t) {
  look_until(t, [&](char state) {
    if (state == 't' || state == 'T') {  // it listens, or has reported
      stops_.fetch();
      return true;
    }
    return state == 'S' || (state == 'D' && (t.in_vfork || t.sleeps_deeply));
  });
}

WaitOutcome::Kind TurnKeeper::await_holder(GuestThread& t) {
  if (!t.in_call) {
    const WaitOutcome::Kind waited = stops_.await_any();
    if (waited == WaitOutcome::Kind::interrupted) look_for_sleeper(t);
    return waited;
  }
  constexpr unsigned kBlindLooks = 2;
  const char state = looks_ < kBlindLooks ? 'R' : state_of(t, guests_);
  t.sleeps_deeply = state == 'D' && sleep_of_holder_.lasts(t, state, kDeepSleep);
  has_lost_patience_ |= t.sleeps_deeply;
  if (state == 'S' || t.sleeps_deeply) {
    t.socket.reset();  // it has begun with the other timeout
    pass(t);
    return WaitOutcome::Kind::status;
  }
  pause(looks_);
  constexpr unsigned kLooksOfARound = 1024;
  return ++looks_ % kLooksOfARound != 0 ? WaitOutcome::Kind::status
                                        : WaitOutcome::Kind::interrupted;
}

// The holder runs, as far as is known.
void TurnKeeper::look_for_sleeper(GuestThread& t) {
  const char state = state_of(t, guests_);
  const Clock::duration limit = state == 'S' ? Clock::duration(kUnexpectedSleep) : kDeepSleep;
  if (!sleep_of_holder_.lasts(t, state, limit) || !t.tracee.interrupt_if_alive()) return;
  t.sleeps_deeply = state == 'D';
  has_lost_patience_ |= t.sleeps_deeply;
  pass(t);
  may_have_woken_ = true;
}

std::optional<uint64_t> TurnKeeper::first_deadline() const {
  std::optional<uint64_t> first = timers_.first_ns();
  for (const Tid tid : turns_.waiting()) {
    const GuestThread* t = guests_.find(tid);
    if (t == nullptr || !t->wait || !t->wait->is_endless()) continue;
    const uint64_t until_ns = t->wait->until_ns();
    first = std::min(first.value_or(until_ns), until_ns);
  }
  return first;
}

void TurnKeeper::end_waits_until(uint64_t now_ns) {
  for (auto deadline = first_deadline(); deadline && *deadline <= now_ns;) {
    bool ended = false;
    for (const Tid tid : std::deque(turns_.waiting())) {
      GuestThread* t = guests_.find(tid);
      if (t == nullptr || !t->wait || stops_.has_fetched(tid)) continue;
      if (t->parked || !t->wait->is_endless() || t->wait->until_ns() > now_ns) continue;
      t->expires = true;
      if (t->tracee.interrupt_if_alive()) look_until(*t, [](char) { return false; });
      ended = true;
    }
    if (!ended) return;
    deadline = first_deadline();
  }
}

// Nobody can go on: until somebody outside does something, or the first wait is over, which takes
// the time that it takes.
WaitOutcome TurnKeeper::await_others() {
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
        std::chrono::nanoseconds(*deadline > clock_.now_ns() ? *deadline - clock_.now_ns() : 0);
    const auto still_left = left - (Clock::now() - *idle_since_);
    if (still_left.count() <= 0) {
      clock_.sleep_until(*deadline);
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
void TurnKeeper::note_waits_for_others() {
  for (const auto& [tid, t] : guests_.threads)
    if (stops_.has_fetched(tid)) note_wait_for_others(*t);
}

void TurnKeeper::note_wait_for_others(const GuestThread& t) {
  constexpr size_t kMost = 16;
  if (!t.in_call || t.in_vfork || t.expires || waits_for_others_.size() == kMost) return;
  // The child that it waited for is followed, too: what that waited for is named, if anything.
  if (follows_ && (t.call == SYS_wait4 || t.call == SYS_waitid)) return;
  waits_for_others_.insert({t.process->pid.value, t.call});
}

std::vector<std::string> TurnKeeper::waits_for_others() const {
  std::vector<std::string> calls;
  for (const auto& [pid, number] : waits_for_others_) {
    const kernel::SyscallRow* row = kernel::find_syscall(static_cast<long>(number));
    std::string name = row ? std::string(row->name) : fmt::format("call {}", number);
    if (std::ranges::count(calls, name) == 0) calls.push_back(std::move(name));
  }
  return calls;
}

void TurnKeeper::turn_over(GuestThread& t) {
  if (may_have_woken_) settle();
  catch_up(clock_, t);
  fire_timers();
  if (may_have_woken_) settle();
  end_waits_until(clock_.now_ns());
  const auto& waiting = turns_.waiting();
  if (std::ranges::any_of(waiting, [&](Tid tid) { return can_go_on(tid); })) {
    pass(t);
  } else {
    t.slot->state().turn_left = length();
  }
}

void TurnKeeper::note_exit(GuestThread& t) {
  somebody_ends_ = true;
  turns_.forget(t.tracee.tid());
}

void TurnKeeper::note_death(Tid tid) {
  turns_.forget(tid);
  may_have_woken_ = true;
}

void TurnKeeper::note_execution(Tid former, Tid tid) {
  turns_.rename(former, tid);
  may_have_woken_ = true;
}

void TurnKeeper::note_call(GuestThread& t, const ptrace::Registers& regs) {
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
      if (is_contended()) pass(t);
      return;
    default:
      break;
  }
  if (may_wait(regs, t.tracee.tid()) || !t.process->space->translator().counts_turns())
    t.stop_behind_call();
}

}  // namespace shadowprof::inject
