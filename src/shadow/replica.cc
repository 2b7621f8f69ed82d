// SPDX-License-Identifier: MIT
#include "shadow/replica.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "kernel/direct_reads.h"
#include "kernel/namespaces.h"
#include "ptrace/remote_syscall.h"
#include "shadow/file_mappings.h"

namespace shadowprof::shadow {

using ptrace::TraceOptions;

namespace {

constexpr const char* kOtherNamespaces =
    "no replica is made of a program whose children are born into other namespaces";
constexpr const char* kReadsDirectly =
    "no replica is made of a program that has a file open for direct reads (O_DIRECT): before "
    "Linux 6.5 it could lose what it reads";
constexpr const char* kForkIsTold =
    "the program is told of its forks (userfaultfd with UFFD_FEATURE_EVENT_FORK): a fork waits for "
    "it";

// What the kernel, or the C library, has given the thread for a stack. Nothing where it may be
// something else: what lies below a coroutine's stack may be anybody's. A thread of the C library
// has its control block, which fs points to, at the upper end of its stack, and no access below it.
GuestRange stack_of(const ptrace::Registers& registers,
                    const std::vector<kernel::Mapping>& mappings) {
  constexpr uint64_t kControlBlock = 2 * limits::kPageBytes;
  for (size_t i = 0; i < mappings.size(); i++) {
    const kernel::Mapping& m = mappings[i];
    if (!m.range.contains(registers.sp())) continue;
    if (m.path == "[stack]") return m.range;
    const GuestAddr block(registers.fs_base);
    const bool is_thread = m.inode == 0 && m.path.empty() && m.range.contains(block) &&
                           registers.sp() < block &&
                           m.range.end.value - block.value < kControlBlock;
    const bool is_guarded = i > 0 && mappings[i - 1].range.end == m.range.start &&
                            !mappings[i - 1].readable && !mappings[i - 1].writable;
    return is_thread && is_guarded ? m.range : GuestRange{};
  }
  return {};
}

// One that would find its way back, if we died. What it would take below its stack pointer; nothing
// if none ever would. EAGAIN: one would, but not from where it is stopped.
Result<GuestRange> put_first(std::vector<PausedThread>& threads,
                             const std::vector<kernel::Mapping>& mappings) {
  bool another_time = false;
  for (PausedThread& thread : threads) {
    const GuestRange stack = stack_of(thread.registers, mappings);
    if (stack.size() == 0) continue;
    if (!thread.stop.is_event(ptrace::StopEvent::stop)) {
      another_time = true;
      continue;
    }
    std::swap(threads.front(), thread);
    return stack;
  }
  if (another_time) return fail_errno(EAGAIN, "a thread is at a signal or a system call");
  return GuestRange{};
}

// As the thread will go on: a system call that the kernel would restart is at its instruction
// again.
ptrace::Registers as_guest(ptrace::Registers registers) {
  if (registers.restart_pending()) {
    registers.rip -= machine::kSyscallInsnBytes;
    registers.rax = registers.orig_rax;
  }
  registers.orig_rax = machine::kNoSyscall;
  return registers;
}

Status read_contexts(const std::vector<PausedThread>& paused, std::vector<GuestContext>& contexts) {
  for (const PausedThread& thread : paused) {
    GuestContext context{thread.tracee.tid(), as_guest(thread.registers), {}};
    if (!contexts.empty() && !thread.tracee.get_extended_state_if_alive(context.extended)) {
      return ptrace::thread_is_gone(thread.tracee.tid());
    }
    contexts.push_back(std::move(context));
  }
  return {};
}

void advise(ptrace::RemoteSyscalls& remote, const std::vector<GuestRange>& ranges, int advice) {
  for (const GuestRange& range : ranges) (void)remote.madvise(range.start, range.size(), advice);
}

// The kernel traces the child for us from its birth.
Status clone_into(ptrace::RemoteSyscalls& remote, Replica& replica) {
  const int flags = CLONE_FILES | (replica.is_our_child ? CLONE_PARENT : 0);
  SP_TRY(remote.prepare());
  const Result<int64_t> answer = remote.call(SYS_clone, flags, remote.stack_of_child(), 0, 0, 0);
  // There is one, too, if the program has died behind the clone event.
  replica.tracee = ptrace::Tracee(remote.child_of_last_call());
  if (!answer) return tl::unexpected(answer.error());
  if (*answer < 0) return fail_errno(static_cast<int>(-*answer), "cannot fork the program (clone)");
  if (replica.tracee.tid().value == 0) return fail("the replica was not seen");
  return {};
}

// The number by which the program knows a dead child; 0 if it has waited for that already.
Tid own_number_of_zombie(Tid program, Tid zombie) {
  const auto status = kernel::read_status(zombie);
  if (!status || status->parent != program) return Tid();
  const bool is_told = status->innermost_pid.value != 0;  // since Linux 4.1
  return is_told ? status->innermost_pid : zombie;
}

// A replica that is not to be, if nobody says that it is ready: whatever ends the making of it.
class Unfinished {
 public:
  Unfinished(const Replica& replica, std::vector<Tid>& zombies)
      : replica_(replica), zombies_(zombies) {
    zombies_.reserve(zombies_.size() + 1);
  }
  ~Unfinished() {
    const Tid tid = replica_.tracee.tid();
    if (is_ready_ || tid.value == 0) return;
    kill_replica(tid);
    if (!replica_.is_our_child) zombies_.push_back(tid);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  void is_ready() { is_ready_ = true; }

 private:
  const Replica& replica_;
  std::vector<Tid>& zombies_;
  bool is_ready_ = false;
};

// From its first stop on. The program's thread has its own registers again, but does not run yet.
Status isolate(const Replica& replica, GuestAddr syscall_insn) {
  SP_TRY(ptrace::wait_for_stop(replica.tracee.tid()));
  (void)replica.tracee.set_options_if_alive(kReplica.options);
  ptrace::RemoteSyscalls remote(replica.tracee, syscall_insn, kReplica.options);
  SP_TRY(Descriptors::leave_table(remote));
  SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  return {};
}

// In the program's group kill(2) would find a replica where nobody of the program is left. Where
// that cannot be had it stays in the program's.
void leave_group(const Replica& replica, GuestAddr syscall_insn) {
  const pid_t pid = replica.tracee.tid().value;
  if (replica.is_our_child && ::setpgid(pid, pid) == 0) return;
  ptrace::RemoteSyscalls remote(replica.tracee, syscall_insn, kReplica);
  (void)remote.call(SYS_setpgid, 0, 0);
  (void)remote.finish();
}

// It may wait for its turn for long, and is not to be in the program's way meanwhile.
void let_files_go(Replica& replica, GuestAddr syscall_insn) {
  const auto mappings = kernel::read_maps(replica.tracee.tid());
  if (!mappings) return;
  // Calls of ours write to the stack, which is not to be the program's.
  const GuestAddr stack(replica.threads.front().registers.sp());
  for (const kernel::Mapping& m : *mappings)
    if (m.shared && m.range.contains(stack)) return;
  ptrace::RemoteSyscalls remote(replica.tracee, syscall_insn, kReplica);
  replica.mapped_anew = map_files_anew(remote, *mappings, replica.descriptors);
  (void)remote.finish();
}

}  // namespace

Result<GuestAddr> find_calls(Tid process, ForkOptions& options, GuestAddr known) {
  ptrace::RemoteMemory memory(process);
  const std::vector<GuestRange> executable = kernel::executable_ranges(options.mappings);
  const bool same =
      ptrace::is_syscall_instruction(known, executable, memory) &&
      (!options.escape || ptrace::is_escape_route(*options.escape, executable, memory));
  if (same) return known;
  options.escape = ptrace::find_escape_route(executable, memory);
  return ptrace::find_syscall_instruction(executable, memory);
}

Result<Replica> fork_replica(Program& program, Pause& pause, GuestAddr syscall_insn,
                             ForkOptions& options, std::vector<Tid>& zombies) {
  Descriptors descriptors = Descriptors::of(program.pid());
  if (descriptors.reads_directly() && kernel::forks_lose_direct_reads())
    return tl::unexpected(Error{kReadsDirectly, EBUSY});
  kernel::UserFaults faults = descriptors.user_faults();
  const kernel::UserFaults others = kernel::user_faults_of_other_tables(program.pid());
  faults.any |= others.any;
  faults.of_forks |= others.of_forks;
  if (faults.of_forks) return tl::unexpected(Error{kForkIsTold, EBUSY});
  GuestRange stack;
  if (options.escape && !faults.any) {
    SP_ASSIGN(stack, put_first(pause.threads(), options.mappings));
  }
  std::vector<GuestRange> dont_fork;
  if (options.all_memory) {
    SP_ASSIGN(dont_fork, kernel::read_dont_fork(program.pid()));
    options.all_memory = !dont_fork.empty();
  }
  const ptrace::Tracee parent = pause.threads().front().tracee;
  if (kernel::has_namespaces_for_children(program.pid(), parent.tid()))
    return tl::unexpected(Error{kOtherNamespaces, EBUSY});
  Replica replica{
      ptrace::Tracee(Tid()), {}, parent.tid(), std::move(descriptors), program.is_ours()};
  const auto status = kernel::read_status(parent.tid());
  if (status) replica.parent_pid = status->parent.value;
  (void)::clock_gettime(CLOCK_REALTIME_COARSE, &replica.forked_at);
  replica.at_idle_priority = options.at_idle_priority;
  SP_TRY(read_contexts(pause.threads(), replica.threads));
  SP_TRY(pause.is_usable());
  const TraceOptions cloning = program.options() | TraceOptions::follow_clone;
  if (!parent.set_options_if_alive(cloning)) {
    return ptrace::thread_is_gone(parent.tid());
  }
  Unfinished unfinished(replica, zombies);
  Status made;
  bool has_waited = false;
  {
    ptrace::RemoteSyscalls remote(parent, syscall_insn, cloning);
    remote.keep_signals_in(pause.threads().front().deferred);
    if (stack.size() != 0) remote.escape_by(*options.escape, stack);
    if (pause.threads().size() > 1) {
      remote.when_it_waits([&] {
        has_waited = true;
        pause.let_others_go();
      });
    }
    advise(remote, dont_fork, MADV_DOFORK);
    made = clone_into(remote, replica);
    advise(remote, dont_fork, MADV_DONTFORK);
    const auto put_back = remote.finish();
    if (made && !put_back) made = tl::unexpected(put_back.error());
    if (made && has_waited) made = tl::unexpected(Error{kForkIsTold, EBUSY});
  }
  if (made) made = isolate(replica, syscall_insn);
  (void)parent.set_options_if_alive(program.options());
  if (!made) return tl::unexpected(made.error());
  unfinished.is_ready();
  return replica;
}

void make_humble(Replica& replica, GuestAddr syscall_insn,
                 const std::vector<kernel::Mapping>& mappings) {
  leave_group(replica, syscall_insn);
  if (has_shared_files(mappings)) let_files_go(replica, syscall_insn);
  std::ofstream(fmt::format("/proc/{}/oom_score_adj", replica.tracee.tid().value)) << "1000\n";
  (void)replica.tracee.set_signal_mask_if_alive(ptrace::hold_signals(0));
}

void kill_replica(Tid tid) {
  ::kill(tid.value, SIGKILL);
  for (;;) {
    const ptrace::WaitOutcome outcome = ptrace::wait_for(tid);
    if (outcome.kind == ptrace::WaitOutcome::Kind::no_children) return;
    if (outcome.has_status() && outcome.status.is_dead()) return;
  }
}

Status reap(const Program& program, Pause& pause, GuestAddr syscall_insn,
            const ForkOptions& options, std::vector<Tid>& zombies, WayBack way_back) {
  if (zombies.empty() || pause.threads().empty()) return {};
  GuestRange stack;
  if (options.escape) {
    const auto found = put_first(pause.threads(), options.mappings);
    if (!found && way_back == WayBack::needed) return tl::unexpected(found.error());
    stack = found.value_or(GuestRange{});
  }
  PausedThread& parent = pause.threads().front();
  ptrace::RemoteSyscalls remote(parent.tracee, syscall_insn, program.options());
  remote.keep_signals_in(parent.deferred);
  if (stack.size() != 0) remote.escape_by(*options.escape, stack);
  for (Tid zombie : zombies) {
    const Tid own = own_number_of_zombie(program.pid(), zombie);
    if (own.value == 0) continue;
    SP_ASSIGN([[maybe_unused]] const int64_t answer,
              remote.call(SYS_wait4, own.value, 0, __WALL | WNOHANG, 0));
  }
  zombies.clear();
  SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  return {};
}

}  // namespace shadowprof::shadow
