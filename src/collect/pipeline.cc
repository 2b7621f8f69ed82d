// SPDX-License-Identifier: MIT
#include "collect/pipeline.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <new>

#include "base/check.h"
#include "base/processor_time.h"
#include "base/start_thread.h"

namespace shadowprof::collect {
namespace {

// Signals are the tracer's business. A new thread inherits the mask of the one that makes it.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Pipeline::Pipeline(std::vector<std::unique_ptr<Collector>> collectors, size_t max_queued)
    : collectors_(std::move(collectors)), max_queued_(max_queued) {
  SP_CHECK(max_queued_ > 0);
  if (collectors_.empty()) return;
  const AllSignalsBlocked blocked;
  (void)start_thread(worker_, [this] { work(); });  // without: see submit()
}

Pipeline::~Pipeline() {
  stop();
}

void Pipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  submitted_.notify_one();
  if (worker_.joinable()) worker_.join();
}

Ticket Pipeline::submit(const trace::Chunk& chunk) {
  if (collectors_.empty()) return {};
  std::unique_lock lock(mutex_);
  SP_CHECK(!closing_, "a chunk after the end of the trace");
  if (!worker_.joinable()) {
    const double before = processor_seconds_of_this_thread();
    consume(chunk);
    cpu_seconds_ += processor_seconds_of_this_thread() - before;
    last_completed_++;
    return {++last_submitted_};
  }
  completed_.wait(lock, [this] { return queue_.size() < max_queued_; });
  queue_.push_back(chunk);
  const Ticket ticket{++last_submitted_};
  lock.unlock();
  submitted_.notify_one();
  return ticket;
}

bool Pipeline::done(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return last_completed_ >= ticket.number;
}

void Pipeline::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  completed_.wait(lock, [&] { return last_completed_ >= ticket.number; });
}

void Pipeline::consume(const trace::Chunk& chunk) {
  if (got_no_memory_) return;
  try {
    for (const auto& collector : collectors_) collector->consume(chunk);
  } catch (const std::bad_alloc&) {
    got_no_memory_ = true;
  }
}

void Pipeline::work() {
  ::pthread_setname_np(::pthread_self(), "collector");
  std::unique_lock lock(mutex_);
  for (;;) {
    submitted_.wait(lock, [this] { return !queue_.empty() || closing_; });
    if (queue_.empty()) return;
    const trace::Chunk chunk = queue_.front();
    lock.unlock();
    consume(chunk);
    const double cpu = processor_seconds_of_this_thread();
    lock.lock();
    queue_.pop_front();
    last_completed_++;
    cpu_seconds_ = cpu;
    completed_.notify_all();
  }
}

void Pipeline::finish(profile::Profile& into) {
  SP_CHECK(!finished_, "a pipeline is finished once");
  finished_ = true;
  stop();
  if (got_no_memory_) throw std::bad_alloc();
  const double before = processor_seconds_of_this_thread();
  for (auto& collector : collectors_) {
    collector->finish(into);
    collector.reset();  // before the next one makes its tables
  }
  const std::lock_guard lock(mutex_);
  cpu_seconds_ += processor_seconds_of_this_thread() - before;
}

pid_t Pipeline::fork_when_idle() {
  std::unique_lock lock(mutex_);
  completed_.wait(lock, [this] { return queue_.empty(); });
  const pid_t copy = ::fork();
  if (copy == 0 && worker_.joinable()) worker_.detach();
  return copy;
}

double Pipeline::cpu_seconds() const {
  const std::lock_guard lock(mutex_);
  return cpu_seconds_;
}

}  // namespace shadowprof::collect
