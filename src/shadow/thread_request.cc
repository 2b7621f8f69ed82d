// SPDX-License-Identifier: MIT
#include "shadow/thread_request.h"

#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>

#include "trace/record.h"

namespace shadowprof::shadow {
namespace {

constexpr size_t kMostThreads = 4096;

// What both system calls say, in one form.
struct ThreadRequest {
  uint64_t flags = 0;
  uint64_t stack_top = 0;
  uint64_t parent_tid = 0;
  uint64_t child_tid = 0;
  uint64_t tls = 0;
};

std::optional<ThreadRequest> read_request(const ptrace::Registers& guest,
                                          ptrace::RemoteMemory& memory) {
  if (guest.rax == SYS_clone) {
    return ThreadRequest{guest.rdi, guest.rsi, guest.rdx, guest.r10, guest.r8};
  }
  const auto args = memory.read_value<clone_args>(GuestAddr(guest.rdi));
  if (!args) return std::nullopt;
  return ThreadRequest{args->flags, args->stack + args->stack_size, args->parent_tid,
                       args->child_tid, args->tls};
}

}  // namespace

std::optional<std::unique_ptr<GuestThread>> make_thread(const GuestThread& parent,
                                                        ptrace::RemoteMemory& memory,
                                                        size_t count) {
  const auto request = read_request(parent.registers, memory);
  constexpr uint64_t kOfThread = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;
  if (!request || (request->flags & kOfThread) != kOfThread || (request->flags & CLONE_VFORK) ||
      count >= kMostThreads) {
    return std::nullopt;
  }
  auto thread = std::make_unique<GuestThread>();
  thread->tid = Tid(trace::Chunk::kFirstOfReplica + static_cast<int32_t>(count));
  thread->registers = parent.registers;
  thread->extended = parent.extended;
  thread->registers.rax = 0;
  thread->registers.rip += machine::kSyscallInsnBytes;
  thread->registers.rcx = thread->registers.rip;
  if (request->stack_top != 0) thread->registers.rsp = request->stack_top;
  if (request->flags & CLONE_SETTLS) thread->registers.fs_base = request->tls;
  const int32_t id = thread->tid.value;
  if (request->flags & CLONE_PARENT_SETTID)
    (void)memory.write_value(GuestAddr(request->parent_tid), id);
  if (request->flags & CLONE_CHILD_SETTID)
    (void)memory.write_value(GuestAddr(request->child_tid), id);
  if (request->flags & CLONE_CHILD_CLEARTID)
    thread->clear_child_tid = GuestAddr(request->child_tid);
  thread->signal_mask = parent.signal_mask;
  return thread;
}

}  // namespace shadowprof::shadow
