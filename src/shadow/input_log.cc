// SPDX-License-Identifier: MIT
#include "shadow/input_log.h"

#include <algorithm>

#include "kernel/table.h"
#include "machine/registers.h"

namespace shadowprof::shadow {
namespace {

constexpr double kSlowRoundTrip_s = 30e-6;  // until one was measured
// For which a replica waits until the program comes to a call.
constexpr std::chrono::milliseconds kPatience{30};
constexpr size_t kMostLogBytes = 64 << 20;
// A thread of the replica's that is so many calls behind has gone another way.
constexpr size_t kMostSkipped = 1024;

// By what tells it (kernel/table.h); pointers may differ.
bool is_same_call(const LoggedCall& logged, long nr, const SyscallArguments& args) {
  if (logged.nr != nr) return false;
  const kernel::SyscallRow* row = kernel::find_syscall(nr);
  const auto same = [&](size_t i) { return logged.args[i] == args[i]; };
  switch (row ? row->kept : kernel::KeptCall::not_kept) {
    case kernel::KeptCall::path:
    case kernel::KeptCall::polled:
      return same(1);
    case kernel::KeptCall::buffer:
    case kernel::KeptCall::sender:
      return same(0) && same(2);
    case kernel::KeptCall::command:
    case kernel::KeptCall::request:
      return same(0) && same(1);
    default:
      return same(0);
  }
}

}  // namespace

InputLog::InputLog(Tid process, const std::vector<Tid>& threads, double most_seconds)
    : memory_(process), most_seconds_(most_seconds), round_trip_(kSlowRoundTrip_s) {
  for (Tid thread : threads) threads_[thread];
}

void InputLog::on_stop(ptrace::Tracee tracee, double waited) {
  const auto found = threads_.find(tracee.tid());
  if (found == threads_.end() || full_) return;
  Thread& thread = found->second;
  const Clock::time_point start = Clock::now();
  if (thread.entered && thread.resumed != Clock::time_point{}) {
    const std::chrono::duration<double> since = start - thread.resumed;
    round_trip_ = std::min(round_trip_, since.count());
  }
  ptrace::Tracee::SyscallStopInfo info;
  if (!tracee.get_syscall_stop_if_alive(info)) return;
  if (info.which == ptrace::Tracee::SyscallStop::entry && info.is_x86_64) {
    thread.entered = LoggedCall{info.nr, info.args, 0, {}};
  } else if (info.which == ptrace::Tracee::SyscallStop::exit && thread.entered) {
    on_exit(tracee.tid(), thread, info.result);
  }
  thread.resumed = Clock::now();
  const std::chrono::duration<double> handling = thread.resumed - start;
  cost_ += waited + handling.count() + round_trip_;
  stops_++;
  if (cost_ > most_seconds_ || bytes_ > kMostLogBytes) close();
}

void InputLog::on_exit(Tid tid, Thread& thread, int64_t result) {
  LoggedCall call = std::move(*thread.entered);
  thread.entered.reset();
  // Interrupted: it will be made again.
  if (result <= machine::kRestartSys && result >= machine::kRestartBlock) return;
  call.result = result;
  const auto ranges = kernel_writes(call.nr, call.args, result, memory_);
  if (!ranges) return;
  for (const GuestRange& range : *ranges) {
    std::vector<uint8_t>& bytes = call.writes.emplace_back(range.size());
    if (!bytes.empty() && !memory_.read(range.start, bytes)) return;
  }
  add(tid, std::move(call));
}

void InputLog::add(Tid thread, LoggedCall call) {
  for (const std::vector<uint8_t>& bytes : call.writes) bytes_ += bytes.size();
  threads_[thread].calls.push_back(std::move(call));
  news_++;
}

InputLog::Taken InputLog::take(Tid thread, long nr, const SyscallArguments& args, LoggedCall& out) {
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return Taken::never;
  std::deque<LoggedCall>& calls = found->second.calls;
  const auto same = std::find_if(calls.begin(), calls.end(), [&](const LoggedCall& call) {
    return is_same_call(call, nr, args);
  });
  if (same == calls.end()) {
    return full_ || calls.size() > kMostSkipped ? Taken::never : Taken::not_yet;
  }
  out = std::move(*same);
  calls.erase(calls.begin(), same + 1);
  taken_++;
  return Taken::taken;
}

void AwaitedCall::no_answer(const InputLog& log) {
  if (!waits_) since_ = std::chrono::steady_clock::now();
  waits_ = true;
  news_ = log.news();
}

AwaitedCall::Next AwaitedCall::next(const InputLog& log) const {
  if (log.news() != news_) return Next::ask;
  const bool too_long = std::chrono::steady_clock::now() - since_ > kPatience;
  return too_long ? Next::give_up : Next::wait;
}

}  // namespace shadowprof::shadow
