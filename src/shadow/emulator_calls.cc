// SPDX-License-Identifier: MIT
//
// The tracer's half: system calls of interpreted threads.
#include <linux/futex.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <utility>

#include "base/log.h"
#include "kernel/table.h"
#include "shadow/emulator_executor.h"
#include "shadow/thread_request.h"

namespace shadowprof::shadow {
namespace {

// Neither the guest's memory nor its mappings matter: the call does not touch them, or is not made.
bool is_about_registers(const kernel::SyscallRow* row, bool has_own_files) {
  using enum kernel::SyscallHandler;
  if (!row) return false;
  const bool writes = row->handler == write || row->handler == write_at;
  return row->has(kernel::SyscallFlag::in_registers) || row->handler == assume_success ||
         (writes && !has_own_files);
}

}  // namespace

// False: the program has not come to this call yet.
bool EmulatorExecutor::serve_system_call() {
  if (dead_) {
    worker_ending_ = Ending{Outcome::died, {}, -1};
    return true;
  }
  if (!awaited_.waits()) {
    count_system_call();
    return answer_system_call();
  }
  if (stop_wanted_) {
    const std::scoped_lock lock(mutex_);
    worker_ending_ = Ending{wanted_end_.value_or(Outcome::stopped), {}, -1};
    return true;
  }
  switch (awaited_.next(*replica_.log)) {
    case AwaitedCall::Next::wait:
      return false;
    case AwaitedCall::Next::ask:
      return answer_system_call();
    case AwaitedCall::Next::give_up:
      worker_ending_ = Ending{Outcome::input, "the program waits, too",
                              static_cast<long>(current().registers.rax)};
      return true;
  }
  return true;
}

// Once, however often it is asked.
void EmulatorExecutor::count_system_call() {
  const auto nr = static_cast<int>(current().registers.rax);
  counts_.system_calls++;
  if (nr >= 0) counts_.by_number[static_cast<unsigned>(nr)]++;
}

bool EmulatorExecutor::answer_system_call() {
  const machine::Registers& guest = current().registers;
  const auto nr = static_cast<int>(guest.rax);
  const kernel::SyscallRow* row = kernel::find_syscall(nr);
  SyscallArguments arguments;
  for (size_t i = 0; i < 6; i++) arguments[i] = guest.syscall_argument(i);
  const bool about_registers = is_about_registers(row, calls_.has_own_files());
  SyscallAnswer answer;
  Status prepared;
  {
    ptrace::RemoteSyscalls remote(replica_.tracee, space_.code().syscall_insn(), kReplica);
    if (!about_registers) prepared = put_memory(remote);
    if (prepared) answer = calls_.answer(current(), guest, remote);
    if (!remote.finish()) prepared = ptrace::thread_is_gone(tid());
  }
  if (!prepared) {
    worker_ending_ = Ending{Outcome::died, prepared.error().message, -1};
    return true;
  }
  if (answer.kind == SyscallAnswer::Kind::not_yet) {
    awaited_.no_answer(*replica_.log);
    return false;
  }
  awaited_.over();
  if (!about_registers) take_memory(row, arguments, answer.value);
  carry_out(std::move(answer));
  return true;
}

void EmulatorExecutor::carry_out(SyscallAnswer answer) {
  using Kind = SyscallAnswer::Kind;
  machine::Registers& guest = current().registers;
  if (answer.kind == Kind::ends) {
    worker_ending_ = std::move(answer.ending);
    return;
  }
  if (answer.kind == Kind::returns) {
    worker_ending_ = Ending{Outcome::system_call, {}, SYS_rt_sigreturn};
    return;
  }
  if (answer.kind == Kind::finished) {
    leaves_ = true;
    return finish_thread();
  }
  if (answer.kind == Kind::new_thread) {
    auto thread = make_thread(current(), calls_.memory(), threads_.size());
    if (!thread) {
      worker_ending_ =
          Ending{Outcome::system_call, "starts a process", static_cast<long>(guest.rax)};
      return;
    }
    answer.value = (*thread)->tid.value;
    threads_.push_back(std::move(*thread));
    view_.forget_all();
    space_.emulator().memory_changed();
  }
  guest.rax = static_cast<uint64_t>(answer.value);
  if (answer.fs_base) guest.fs_base = *answer.fs_base;
  guest.rip += machine::kSyscallInsnBytes;
  guest.rcx = guest.rip;
  guest.r11 = guest.eflags;
  leaves_ = answer.kind == Kind::waits || (answer.kind == Kind::yields && threads_.size() > 1);
}

// What the guest has written, to where its system call looks for it.
Status EmulatorExecutor::put_memory(ptrace::RemoteSyscalls& remote) {
  Status done;
  view_.take_written([&](GuestAddr page, std::span<const uint8_t> bytes) {
    if (!done) return;
    const GuestRange range{page, page + bytes.size()};
    if (shared_.overlaps(range)) done = shared_.make_private(remote, calls_.memory(), range);
    if (done && !calls_.memory().write(page, bytes)) {
      // A stack has grown, which it has not done in the replica.
      constexpr int kHow = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
      const auto grown = remote.mmap(page, bytes.size(), PROT_READ | PROT_WRITE, kHow);
      if (!grown) {
        done = tl::unexpected(grown.error());
        return;
      }
      done = calls_.memory().write(page, bytes);
    }
  });
  return done;
}

// What the call may have changed will be fetched again.
void EmulatorExecutor::take_memory(const kernel::SyscallRow* row, const SyscallArguments& arguments,
                                   int64_t answer) {
  using enum kernel::SyscallHandler;
  if (row && (row->handler == read || row->handler == read_at)) {
    if (answer > 0) {
      const GuestAddr start(arguments[1]);
      view_.forget({start, start + static_cast<uint64_t>(answer)});
    }
  } else {
    view_.forget_all();
  }
  if (row && row->has(kernel::SyscallFlag::memory_map)) refresh_areas();
  space_.emulator().memory_changed();
}

void EmulatorExecutor::refresh_areas() {
  auto mappings = kernel::read_maps(tid());
  if (!mappings) return;
  // As they are in the program: a store goes to our copy, and later to the replica's.
  for (kernel::Mapping& m : *mappings) m.writable |= shared_.contains(m.range.start);
  view_.set_areas(memory_areas(tid(), *mappings));
}

void EmulatorExecutor::finish_thread() {
  GuestThread& thread = current();
  if (thread.clear_child_tid.value == 0) return;
  const int32_t nobody = 0;
  (void)view_.write(thread.clear_child_tid,
                    {reinterpret_cast<const uint8_t*>(&nobody), sizeof nobody});
  space_.emulator().memory_changed();
  (void)calls_.futexes().wake(thread.clear_child_tid, 1, FUTEX_BITSET_MATCH_ANY);
}

}  // namespace shadowprof::shadow
