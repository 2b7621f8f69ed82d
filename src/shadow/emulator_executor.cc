// SPDX-License-Identifier: MIT
//
// The worker's half: guest threads take turns in the interpreter, their records go to the
// collectors.
#include "shadow/emulator_executor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <utility>

#include "base/start_thread.h"
#include "shadow/file_mappings.h"
#include "shadow/low_priority.h"
#include "shadow/turns.h"

namespace shadowprof::shadow {
namespace {

// How late a request to end may be, and how long a guest thread's turn is.
constexpr uint64_t kSliceInstructions = 1'000'000;

class MemoryOfView final : public machine::MemorySource {
 public:
  explicit MemoryOfView(machine::MemoryView& view) : view_(view) {}
  size_t read_some(GuestAddr from, std::span<uint8_t> out) override {
    return view_.read_some(from, out);
  }

 private:
  machine::MemoryView& view_;
};

}  // namespace

EmulatorExecutor::EmulatorExecutor(EmulatorSpace& space, trace::TraceSink& sink, Replica replica,
                                   Identity identity, Budget budget)
    : space_(space),
      sink_(sink),
      replica_(std::move(replica)),
      budget_(budget),
      calls_(identity, replica_.tracee.tid(), replica_.descriptors, shared_, space.code(), threads_,
             replica_.log.get()),
      source_(std::make_unique<ProcessMemory>(replica_.tracee.tid())),
      view_(*source_) {}

EmulatorExecutor::~EmulatorExecutor() {
  if (worker_.joinable()) {
    stop_wanted_ = true;
    {
      const std::scoped_lock lock(mutex_);
      abandoned_ = true;
    }
    turned_.notify_all();
    worker_.join();
  }
  if (!dead_) kill_replica(replica_.tracee.tid());
  for (uint64_t ticket : tickets_) sink_.wait(ticket);
}

Status EmulatorExecutor::start() {
  SP_ASSIGN(auto mappings, kernel::read_maps(tid()));
  show_as_in_program(mappings, replica_.mapped_anew);
  space_.prepare(tid(), mappings);
  SP_TRY(space_.code().find_syscall_insn(mappings));
  {
    // Calls that the replica makes must not write to the program's shared memory either.
    ptrace::RemoteSyscalls remote(replica_.tracee, space_.code().syscall_insn(), kReplica);
    SP_TRY(shared_.protect(remote, mappings));
    SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  }
  view_.set_areas(memory_areas(tid(), mappings));
  threads_ = make_threads(replica_);
  if (!replica_.tracee.get_extended_state_if_alive(threads_.front()->extended)) {
    return ptrace::thread_is_gone(tid());
  }
  at_idle_priority_ = replica_.at_idle_priority;
  if (!start_thread(worker_, [this] { work(); }))
    return fail("no thread may be made for the interpreter");
  std::unique_lock lock(mutex_);
  turned_.wait(lock, [&] { return worker_tid_.value != 0; });
  return {};
}

// The tracer's own urgency is not for it.
void EmulatorExecutor::prepare_thread() {
  (void)::setpriority(PRIO_PROCESS, 0, 0);
  if (at_idle_priority_) lower_priority(Tid(::gettid()));
  {
    const std::scoped_lock lock(mutex_);
    worker_tid_ = Tid(::gettid());
  }
  turned_.notify_all();
}

void EmulatorExecutor::leave_idle_priority() {
  raise_priority(worker_tid_);
}

void EmulatorExecutor::work() {
  prepare_thread();
  fragments_before_ = space_.emulator().fragments_made();
  space_.emulator().begin(view_, budget_.plan);
  load(current_);
  while (run_slice()) {
  }
  submit_buffer();
  end_streams();
  counts_.fragments = space_.emulator().fragments_made() - fragments_before_;
  processor_ = processor_time_of(worker_tid_);
  {
    const std::scoped_lock lock(mutex_);
    turn_ = Turn::over;
  }
  ::kill(::getpid(), SIGCHLD);
}

void EmulatorExecutor::load(size_t thread) {
  current_ = thread;
  GuestThread& next = current();
  space_.emulator().load(next.registers, next.extended);
  if (next.traced) return;
  next.traced = true;
  CallStack stack;
  if (budget_.stacks) {
    MemoryOfView memory(view_);
    stack = space_.unwinder().unwind(memory, next.registers);
  }
  next.start = start_of_trace(budget_.sample_number, budget_.stacks ? &stack : nullptr);
  tickets_[buffer_] = sink_.submit(chunk(current_, next.start));
}

void EmulatorExecutor::store() {
  space_.emulator().store(current().registers, current().extended);
}

// What the present buffer holds goes to the collectors, under the present thread's name.
void EmulatorExecutor::submit_buffer() {
  if (used_ == 0) return;
  counts_.drains++;
  const std::span<const trace::Word> words = space_.buffer(buffer_).first(used_);
  (void)trace::sum_records(space_.table(), words, counts_.shares);
  tickets_[buffer_] = sink_.submit(chunk(current_, words));
  buffer_ = (buffer_ + 1) % EmulatorSpace::kBuffers;
  used_ = 0;
  sink_.wait(tickets_[buffer_]);
}

void EmulatorExecutor::end_streams() {
  const std::span<const trace::Word> last_words = end_of_trace(worker_ending_->outcome);
  for (size_t i = 0; i < threads_.size(); i++) {
    if (!threads_[i]->traced) continue;
    tickets_[buffer_] = sink_.submit(chunk(i, last_words));
  }
}

bool EmulatorExecutor::end(Outcome outcome, std::string detail) {
  worker_ending_ = Ending{outcome, std::move(detail), -1};
  return false;
}

// False: the sample has ended.
bool EmulatorExecutor::run_slice() {
  if (stop_wanted_) {
    const std::scoped_lock lock(mutex_);
    return end(wanted_end_.value_or(Outcome::stopped));
  }
  if (space_.buffer(buffer_).size() - used_ < 4 * limits::kMaxRecordWords) submit_buffer();
  const uint64_t left = budget_.instructions - std::min(budget_.instructions, counts_.instructions);
  const std::span<trace::Word> room = space_.buffer(buffer_).subspan(used_);
  const emu::Stopped stopped = space_.emulator().run(room, std::min(left, kSliceInstructions));
  counts_.instructions += stopped.instructions;
  used_ += stopped.words;
  return deal_with(stopped);
}

bool EmulatorExecutor::deal_with(const emu::Stopped& stopped) {
  switch (stopped.reason) {
    case emu::StopReason::budget:
      if (counts_.instructions >= budget_.instructions) return end(Outcome::budget);
      if (threads_.size() == 1) return true;
      store();
      return switch_thread();
    case emu::StopReason::buffer_full:
      submit_buffer();
      return true;
    case emu::StopReason::system_call:
      return hand_over();
    case emu::StopReason::fault:
      return end(Outcome::fault, fmt::format("at {:#x}", stopped.address.value));
    case emu::StopReason::no_code:
      return end(Outcome::fault, "a jump to where no code is");
    case emu::StopReason::unsupported:
      return end(Outcome::unsupported, stopped.detail);
    case emu::StopReason::long_string:
      return end(Outcome::long_string);
  }
  return false;
}

// The tracer's thread answers the system call.
bool EmulatorExecutor::hand_over() {
  store();
  std::unique_lock lock(mutex_);
  turn_ = Turn::tracer;
  ::kill(::getpid(), SIGCHLD);
  turned_.wait(lock, [&] { return turn_ != Turn::tracer || abandoned_; });
  if (worker_ending_) return false;
  if (abandoned_) return end(Outcome::stopped);
  lock.unlock();
  if (std::exchange(leaves_, false)) return switch_thread();
  load(current_);
  return true;
}

// The present thread is in its place. The next one that can run, perhaps the same. False: there is
// none.
bool EmulatorExecutor::switch_thread() {
  submit_buffer();
  const std::optional<size_t> next = next_to_run(threads_, current_);
  if (!next) return end(Outcome::waits, "all its threads wait");
  load(*next);
  return true;
}

bool EmulatorExecutor::is_done() const {
  return ending_ && dead_ &&
         std::all_of(std::begin(tickets_), std::end(tickets_),
                     [&](uint64_t ticket) { return sink_.done(ticket); });
}

double EmulatorExecutor::next_idle() const {
  if (ending_ && dead_ && !is_done()) return kPollOfDead_s;
  return awaited_.waits() ? kPollForProgram_s : std::numeric_limits<double>::infinity();
}

void EmulatorExecutor::request_end(Outcome outcome) {
  {
    const std::scoped_lock lock(mutex_);
    if (!wanted_end_) wanted_end_ = outcome;
  }
  stop_wanted_ = true;
}

// Frozen as it is, it can only die.
void EmulatorExecutor::on_stop(const ptrace::WaitStatus& status) {
  if (!status.is_dead()) return;
  dead_ = true;
  request_end(Outcome::died);
}

void EmulatorExecutor::on_idle() {
  if (ending_) return;
  Turn turn;
  {
    const std::scoped_lock lock(mutex_);
    turn = turn_;
  }
  if (turn == Turn::worker) return;
  if (turn == Turn::tracer) {
    if (!serve_system_call()) return;
    {
      const std::scoped_lock lock(mutex_);
      turn_ = Turn::worker;
    }
    turned_.notify_all();
    return;
  }
  worker_.join();
  ending_ = worker_ending_;
  // A dead one's number may be somebody else's by now.
  if (!dead_) ::kill(tid().value, SIGKILL);
}

}  // namespace shadowprof::shadow
