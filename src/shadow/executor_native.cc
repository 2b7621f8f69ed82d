// SPDX-License-Identifier: MIT
//
// Between two samples of one replica.
//
//   recorded -> leaving    the sample is over, and there may be another: the replica is stopped
//   leaving -> idle        at the first place where the guest's registers are all its own: single
//                          steps get it there, through inserted code and the rest of a fragment;
//                          where that is too far, as in a long string instruction, the sample goes
//                          on a while
//   idle -> native         when it is told so (proceed()); or into a rest, and then idle again
//   native -> recorded     when it has executed for long enough, wherever it is
//   native -> idle         when somebody asks for that
#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/check.h"
#include "shadow/executor.h"
#include "shadow/low_priority.h"

namespace shadowprof::shadow {

using emu::CachePosition;
using ptrace::WaitStatus;

namespace {

// A fragment has fewer instructions than that, with what was inserted; `rep` ones step once for
// each of their iterations.
constexpr unsigned kMostSteps = 2000;
constexpr double kLeaveAgain_s = 0.001;  // seconds
// SIGSYS's si_code SYS_USER_DISPATCH (asm-generic/siginfo.h), which glibc does not define.
constexpr int kUserDispatch = 2;
// Shorter stretches are mostly what comes of stops.
constexpr double kLeastPaced_s = 0.0003;
// At first the replica is slow: its last sample has taken caches and predictors. So passes are
// counted in the second half of a stretch; where that is long, beside that, in the part that is the
// second half of a usual one.
constexpr double kWarmUpShare = 0.5;
constexpr double kUsual_s = 0.003;
constexpr double kLeastCounted_s = 0.0001;
// How long a pass takes is assumed.
constexpr double kMostCountingShare = 0.25;
constexpr const char* kCodeIsGone = "code that was executed natively is gone";

}  // namespace

// Every system call outside the cache raises SIGSYS from now on. An Error: this kernel cannot.
Status Executor::permit_native(ptrace::RemoteSyscalls& remote) const {
  const emu::CodeCache& cache = space_.cache();
  SP_ASSIGN(const int64_t done, remote.call(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH,
                                            PR_SYS_DISPATCH_ON, cache.base(), cache.size(), 0));
  if (done < 0) return fail_errno(static_cast<int>(-done), "syscall user dispatch");
  return {};
}

// The sample is over. False: and so is the replica.
bool Executor::leave() {
  if (!may_go_native_) return false;
  sample_seconds_ = guest_time();
  phase_ = Phase::leaving;
  steps_ = 0;
  // Else it stops by itself, or has: on_idle() goes on from there.
  if (!blocked_on_buffer_ && !awaited_.waits()) (void)replica_.tracee.interrupt_if_alive();
  return true;
}

// `regs` are the engine's, which stops where its guest is at `pc`.
Executor::Registers Executor::guest_at(Registers regs, GuestAddr pc) const {
  regs.rip = pc.value;
  regs.r15 = slot_->state().guest_r15;
  regs.gs_base = 0;
  regs.orig_rax = machine::kNoSyscall;
  return regs;
}

void Executor::step_out(const Registers& regs) {
  cursor_ = regs.r15;
  if (wanted_end_) return end(*wanted_end_);
  const CachePosition at = space_.cache().locate(regs.rip);
  const bool begins = at.kind == CachePosition::Kind::point && at.point.insn == 0 &&
                      at.point.recovery == emu::kAllInPlace;
  if (begins) return go_native(guest_at(regs, space_.cache().fragment(at.fragment).start));
  if (++steps_ > kMostSteps) {
    phase_ = Phase::recorded;
    deadline_.start(kLeaveAgain_s);
  }
  resume();
}

void Executor::go_native(Registers guest) {
  if (phase_ == Phase::leaving) {
    judge_stretch();
    counts_.recorded_s += clock_.since_start();
    finish_trace(cursor_, end_for_now());
    const double clock_s = program_time(sample_seconds_);
    guest_seconds_ += clock_s;
    if (!goes_on_with_sample(clock_s)) {
      counts_.samples++;
      space_.pace().end(paced_);
      return stop_between(guest);
    }
  }
  // The collectors have read the last sample, as a rule.
  if (native_is_over_ && tickets_done()) return begin_next_sample(guest);
  guest.orig_rax = machine::kNoSyscall;
  if (replica_.tracee.set_registers_if_alive(guest)) resume();
}

// A piece of the sample is over. False: and so is the sample.
bool Executor::goes_on_with_sample(double clock_s) {
  const uint64_t before = std::exchange(instructions_before_, counts_.instructions);
  const auto fresh = static_cast<double>(counts_.instructions - before);
  pieces_.add({fresh, speed_before_}, clock_s, space_.piece_units());
  if (pieces_.are_enough()) return false;
  next_ = {.seconds = pieces_.rest_s(), .number = budget_.sample_number};
  phase_ = Phase::native;
  native_is_over_ = true;
  clock_.start(EngineClock::Of::native, tid(), budget_.price, work());
  deadline_.start(kPollForCollectors_s);
  return true;
}

void Executor::stop_between(const Registers& guest) {
  phase_ = Phase::idle;
  native_is_over_ = is_cut_short_ = false;
  stopped_ = guest;
}

void Executor::proceed(const NextSample& next) {
  SP_CHECK(is_idle(), "a replica is told what follows before it is idle");
  next_ = next;
  if (next_.rest_s > 0) {
    phase_ = Phase::resting;
    placement_.rest();
    return deadline_.start(next_.rest_s);
  }
  if (!count_branches(next_.native_s)) return end(Outcome::fault, kCodeIsGone);
  phase_ = Phase::native;
  speed_before_ = 0;
  pieces_.begins(next_.seconds);
  calls_.goes_on();
  clock_.start(EngineClock::Of::native, tid(), budget_.price, work());
  choose_looks();
  deadline_.start(looks_at_s_.empty() ? next_.native_s : looks_at_s_.front());
  current().registers = stopped_;
  current().in_engine = false;
  (void)run_other_thread();  // this one can go on, if no other can
}

// How fast the program is natively is worth the few stops that this takes. False: the replica is
// over.
bool Executor::count_branches(double native_s) {
  const auto& places = space_.pace().places();
  if (native_s < kLeastPaced_s || cannot_count_) return true;
  if (!branches_.has_room_for(places)) {
    const Urgent urgent(tid(), replica_.at_idle_priority);
    const auto mappings = kernel::read_maps(tid());
    ptrace::RemoteSyscalls remote(replica_.tracee, call_site(), kReplica, ptrace::StopSignal::drop);
    cannot_count_ = !mappings || !branches_.make_room(remote, *mappings, places);
    if (!remote.finish()) return false;
  }
  return cannot_count_ || branches_.attach(places);
}

void Executor::choose_looks() {
  looks_.clear();
  looks_at_s_.clear();
  if (!branches_.is_attached()) return;
  if (next_.warms_up) looks_at_s_ = {kWarmUpShare * kUsual_s, kUsual_s};
  looks_at_s_.push_back(kWarmUpShare * next_.native_s);
}

// Where passes cannot be read the stretch is not looked at.
void Executor::take_look() {
  auto passes = branches_.passes();
  if (passes)
    looks_.push_back({std::move(*passes), guest_time()});
  else
    looks_at_s_.clear();
}

std::optional<PacedTime> Executor::speed_between(const Passes& from, const Passes& to) const {
  const double native_s = to.native_s - from.native_s;
  if (native_s < kLeastCounted_s) return std::nullopt;
  std::vector<uint64_t> passes = to.of_each;
  uint64_t all = 0;
  for (size_t k = 0; k < passes.size(); k++) all += passes[k] -= from.of_each[k];
  const auto instructions = space_.pace().instructions(passes);
  if (!instructions) return std::nullopt;
  const double counting_s = NativePace::kPass_s * static_cast<double>(all);
  if (counting_s > kMostCountingShare * native_s) return std::nullopt;
  return PacedTime{*instructions, EngineClock::without(native_s, counting_s)};
}

// The native stretch is over. False: and so is the replica.
bool Executor::take_passes(double native_s) {
  const auto looks = std::exchange(looks_, {});
  const bool were_all = looks.size() == std::exchange(looks_at_s_, {}).size();
  if (!branches_.is_attached()) return true;
  auto passes = branches_.passes();
  if (!passes || !branches_.detach()) return false;
  if (looks.empty() || !were_all) return true;
  const Passes end{std::move(*passes), native_s};
  const bool is_long = looks.size() > 1;
  const auto usual = speed_between(looks.front(), is_long ? looks[1] : end);
  if (usual) paced_stretch_ = {*usual, is_long ? speed_between(looks.back(), end) : std::nullopt};
  return true;
}

// The pace check behind the stretch is over.
void Executor::judge_stretch() {
  const auto stretch = std::exchange(paced_stretch_, std::nullopt);
  const emu::StatePage& state = slot_->state();
  if (!stretch || state.pace_to == 0) return;
  const auto ticks = static_cast<uint32_t>(state.pace_to - state.pace_from);
  if (!space_.pace().checks().was_undisturbed(ticks)) return;
  speed_before_ = stretch->usual.speed();
  counts_.paced_s += stretch->usual.seconds;
  counts_.paced_instructions += stretch->usual.instructions;
  if (stretch->warm) counts_.warm_gain.add(stretch->usual.speed(), stretch->warm->speed());
}

void Executor::look_at_rest() {
  if (wanted_end_) return end(*wanted_end_);
  if (phase_ == Phase::resting && deadline_.is_due()) phase_ = Phase::idle;
}

void Executor::look_at_native_clock() {
  while (looks_.size() < looks_at_s_.size()) {
    if (!has_run_for(looks_at_s_[looks_.size()])) return;
    take_look();
  }
  if (!has_run_for(next_.native_s)) return;
  native_is_over_ = true;
  (void)replica_.tracee.interrupt_if_alive();
  deadline_.start(kPollForProgram_s);
}

void Executor::become_idle() {
  if (!is_native() || wanted_end_ || awaited_.waits()) return;
  is_cut_short_ = true;
  (void)replica_.tracee.interrupt_if_alive();
}

void Executor::on_native_stop(const WaitStatus& status, Registers& regs) {
  if (wanted_end_) return end(*wanted_end_);
  if (status.kind() != WaitStatus::Kind::signal_stop) {
    if (has_raised_signal()) return resume();
    if (!branches_.outside(regs)) return end(Outcome::fault, kCodeIsGone);
    if (is_cut_short_) {
      const double native_s = guest_time();
      counts_.native_s += native_s;
      if (!take_passes(native_s)) return end(Outcome::fault, kCodeIsGone);
      return stop_between(regs);
    }
    return native_is_over_ ? go_native(regs) : resume();
  }
  siginfo_t info{};
  if (!replica_.tracee.get_siginfo_if_alive(info)) return;
  if (info.si_code <= 0) return resume();  // somebody has sent it
  if (info.si_signo == SIGSYS && info.si_code == kUserDispatch) {
    if (info.si_arch != AUDIT_ARCH_X86_64) {
      return end(Outcome::unsupported, "a 32-bit system call");
    }
    counts_.system_calls++;
    regs.rip -= machine::kSyscallInsnBytes;
    regs.rax = static_cast<uint64_t>(info.si_syscall);
    regs.orig_rax = machine::kNoSyscall;
    return answer_call(regs);
  }
  if (!branches_.outside(regs)) return end(Outcome::fault, kCodeIsGone);
  on_fault(regs, info);
}

void Executor::begin_next_sample(const Registers& guest) {
  const double native_s = guest_time();
  counts_.native_s += native_s;
  if (!take_passes(native_s)) return end(Outcome::fault, kCodeIsGone);
  buffer_ = (buffer_ + 1) % emu::kBufferCount;
  choose_start();
  phase_ = Phase::recorded;
  space_.turn_windows(sink_);
  slot_->state().pace_to = 0;
  budget_.seconds = next_.seconds;
  budget_.sample_number = next_.number;
  clock_.start(EngineClock::Of::recorded, tid(), budget_.price, work());
  deadline_.start(budget_.seconds);
  enter(guest);
}

}  // namespace shadowprof::shadow
