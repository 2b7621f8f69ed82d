// SPDX-License-Identifier: MIT
//
// The program's threads go on without us.
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "shadow/program.h"
#include "shadow/thread_looks.h"

namespace shadowprof::shadow {
namespace {

// With threads that wait uninterruptibly when we leave.
constexpr std::chrono::milliseconds kMostPatience{300};

// An interrupt would cut its call short, and nobody could go on with it.
bool sleeps_between_bytes(Tid process, Tid thread) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/syscall", process.value, thread.value));
  uint64_t number = 0, arguments[4];
  if (!(file >> number)) return false;
  for (uint64_t& argument : arguments) file >> std::hex >> argument;
  return file && ptrace::CutCall::may_sleep_between_bytes(number, arguments[3]);
}

// What take() has failed with: else the thread stops later.
bool is_gone(const Error& error) {
  return error.errno_value == ESRCH;
}

}  // namespace

void Program::detach() {
  // All of them first: each must get a processor before it stops.
  std::set<Tid> asleep, ending;
  for (const auto& [tid, thread] : threads_) {
    if (sleeps_between_bytes(pid_, tid) && !thread.cut.is_active())
      asleep.insert(tid);
    else if (!interrupt(tid))
      ending.insert(tid);  // or nobody traces it any more
  }
  for (Tid tid : ending) threads_.erase(tid);
  const auto begun = std::chrono::steady_clock::now();
  while (threads_.size() > asleep.size() &&
         std::chrono::steady_clock::now() - begun < kMostPatience) {
    for (Tid tid : threads()) {
      if (!asleep.contains(tid) && try_detach(tid, ending)) threads_.erase(tid);
    }
    // One that executes a program waits until the ends of all others were taken.
    for (Tid tid : ending) {
      const ptrace::WaitOutcome outcome = ptrace::wait_for(tid, ptrace::WaitMode::poll);
      if (!outcome.has_status()) continue;
      if (outcome.status.is_dead())
        on_stop(tid, outcome.status);
      else
        (void)ptrace::Tracee(tid).detach_if_alive();
    }
    if (threads_.size() > asleep.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<Tid> in_calls;
  for (const auto& [tid, thread] : threads_) {
    if (thread.cut.is_active()) in_calls.push_back(tid);
  }
  for (Tid tid : in_calls) leave_cut_call(tid);
}

Program::CutCallEnd Program::wait_for_cut_call(Tid tid) {
  const ptrace::Moment give_up_at = std::chrono::steady_clock::now() + kSoon;
  for (;;) {
    const auto taken = take(tid, give_up_at);
    if (!taken) return is_gone(taken.error()) ? CutCallEnd::never : CutCallEnd::later;
    const bool over = taken->is_of_call() && !has_cut_call(tid) && interrupt(tid);
    resume_from(ptrace::Tracee(tid), taken->stop);
    if (over) return CutCallEnd::soon;
    if (!taken->is_of_call()) return CutCallEnd::later;
  }
}

// It waits for long, and is told what it has moved by now: better than only the last part of it,
// when it has no tracer any more.
void Program::leave_cut_call(Tid tid) {
  const ptrace::Tracee thread(tid);
  ptrace::CutCall& cut = threads_[tid].cut;
  for (;;) {
    if (!interrupt(tid)) return;
    auto taken = take(tid);
    if (!taken) return;
    // A call that begins with an interrupt moves what it can at once.
    if (cut.is_inside() && thread.syscall_if_alive()) continue;
    if (cut.is_active()) cut.finish(taken->registers);
    (void)thread.set_registers_if_alive(taken->registers);
    (void)thread.detach_if_alive(taken->signal());
    threads_.erase(tid);
    return;
  }
}

// False: it waits uninterruptibly, or goes on with a call that an interrupt has cut.
bool Program::try_detach(Tid tid, std::set<Tid>& ending) {
  const ptrace::Tracee thread(tid);
  const auto ends = [&] {
    ending.insert(tid);
    return true;
  };
  if (has_cut_call(tid)) {
    const CutCallEnd end = wait_for_cut_call(tid);
    if (end != CutCallEnd::soon) return end == CutCallEnd::never && ends();
  }
  // A stop has taken the interrupt's place where a signal has ended such a call.
  if (!threads_[tid].interrupted && !interrupt(tid)) return ends();
  // One that waits for a processor is taken later: others have stopped meanwhile.
  const ptrace::Moment give_up_at = std::chrono::steady_clock::now() + kSoon;
  auto taken = take(tid, give_up_at);
  // Into a system call, or out of it: the stop for the interrupt comes behind that.
  while (taken && taken->is_of_call()) {
    (void)thread.cont_if_alive();
    taken = take(tid, give_up_at);
  }
  if (!taken) return is_gone(taken.error()) && ends();
  if (has_cut_call(tid)) {
    resume_from(thread, taken->stop);
    return false;
  }
  (void)thread.detach_if_alive(taken->signal());
  return true;
}

}  // namespace shadowprof::shadow
