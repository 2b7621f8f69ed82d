// SPDX-License-Identifier: MIT
#include "inject/stop_queue.h"

#include <algorithm>

#include "ptrace/tracee.h"

namespace shadowprof::inject {
namespace {

using ptrace::StopEvent;
using ptrace::WaitMode;
using ptrace::WaitOutcome;
using ptrace::WaitStatus;

// So that a program that stops all the time otherwise cannot starve one that waits for a drain.
constexpr unsigned kMaxUrgentInARow = 32;

auto find(auto& queue, Tid tid) {
  return std::ranges::find(queue, tid, &WaitOutcome::tid);
}

}  // namespace

WaitOutcome StopQueue::next(bool alone) {
  if (!alone) fetch();
  if (urgent_.empty() && faults_.empty()) {
    const WaitOutcome first = ptrace::wait_any();
    if (!first.has_status()) return first;
    add(first);
  }
  return take();
}

WaitOutcome StopQueue::poll() {
  fetch();
  return urgent_.empty() && faults_.empty() ? WaitOutcome{} : take();
}

WaitOutcome::Kind StopQueue::await_any() {
  const WaitOutcome outcome = ptrace::wait_any();
  if (outcome.has_status()) add(outcome);
  return outcome.kind;
}

std::optional<WaitOutcome> StopQueue::take_if(
    const std::function<bool(const WaitOutcome&)>& wanted) {
  for (Queue* queue : {&urgent_, &faults_}) {
    const auto it = std::ranges::find_if(*queue, wanted);
    if (it == queue->end()) continue;
    const WaitOutcome outcome = *it;
    queue->erase(it);
    return outcome;
  }
  return std::nullopt;
}

bool StopQueue::has_fetched(Tid tid) const {
  return find(urgent_, tid) != urgent_.end() || find(faults_, tid) != faults_.end();
}

WaitOutcome StopQueue::take() {
  const bool urgent = faults_.empty() || (!urgent_.empty() && urgent_in_a_row_ < kMaxUrgentInARow);
  urgent_in_a_row_ = urgent ? urgent_in_a_row_ + 1 : 0;
  Queue& queue = urgent ? urgent_ : faults_;
  const WaitOutcome out = queue.front();
  queue.pop_front();
  return out;
}

void StopQueue::fetch() {
  for (;;) {
    const WaitOutcome outcome = ptrace::wait_any(WaitMode::poll);
    if (!outcome.has_status()) return;
    add(outcome);
  }
}

// A thread that was killed in the stop that it had reported has left that stop.
void StopQueue::add(const WaitOutcome& outcome) {
  if (outcome.status.ends_the_thread()) {
    std::erase_if(urgent_, [&](const WaitOutcome& o) {
      return o.tid == outcome.tid && !o.status.ends_the_thread();
    });
    std::erase_if(faults_, [&](const WaitOutcome& o) { return o.tid == outcome.tid; });
  }
  const bool fault = outcome.status.is_signal_stop(SIGSEGV);
  (fault ? faults_ : urgent_).push_back(outcome);
}

bool StopQueue::has(Tid tid) {
  fetch();
  return has_fetched(tid);
}

Result<WaitStatus> StopQueue::wait_for_stop(Tid tid) {
  for (Queue* queue : {&urgent_, &faults_}) {
    const auto it = find(*queue, tid);
    if (it == queue->end()) continue;
    if (it->status.ends_the_thread()) return ptrace::thread_is_gone(tid);
    const WaitStatus status = it->status;
    queue->erase(it);
    return status;
  }
  const bool somebody_ends = std::ranges::any_of(
      urgent_, [](const WaitOutcome& o) { return o.status.is_event(StopEvent::exit); });
  return ptrace::wait_for_stop(
      tid, somebody_ends ? ptrace::Patience::watchful : ptrace::Patience::endless);
}

}  // namespace shadowprof::inject
