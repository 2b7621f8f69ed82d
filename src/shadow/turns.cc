// SPDX-License-Identifier: MIT
#include "shadow/turns.h"

#include <algorithm>
#include <cerrno>

namespace shadowprof::shadow {

GuestThreads make_threads(Replica& replica) {
  GuestThreads threads;
  for (GuestContext& context : replica.threads) {
    auto thread = std::make_unique<GuestThread>();
    thread->tid = context.tid;
    thread->registers = context.registers;
    thread->extended = std::move(context.extended);
    threads.push_back(std::move(thread));
  }
  return threads;
}

std::optional<size_t> next_to_run(GuestThreads& threads, size_t current) {
  for (size_t i = 1; i <= threads.size(); i++) {
    const size_t next = (current + i) % threads.size();
    if (threads[next]->state == GuestThread::State::runnable) return next;
  }
  const auto sleeper = std::find_if(threads.begin(), threads.end(), [](const auto& t) {
    return t->state == GuestThread::State::waiting && t->has_timeout;
  });
  if (sleeper == threads.end()) return std::nullopt;
  (*sleeper)->state = GuestThread::State::runnable;
  (*sleeper)->registers.rax = static_cast<uint64_t>(-ETIMEDOUT);
  return static_cast<size_t>(sleeper - threads.begin());
}

}  // namespace shadowprof::shadow
