// SPDX-License-Identifier: MIT
//
// A replica of the test itself, to make system calls in.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "kernel/proc.h"
#include "ptrace/wait.h"
#include "shadow/replica.h"
#include "shadow/system_calls.h"
#include "twin.h"

#include <doctest/doctest.h>

namespace shadowprof::shadow {

// A stopped child with our memory and a descriptor table of its own. Dies with us.
class TestReplica {
 public:
  // The program is another process than we, and the child of `parent`.
  TestReplica(Tid program, Tid parent) : TestReplica() {
    identity_.pid = thread_ = program;
    identity_.parent_pid = parent.value;
    calls_.emplace(identity_, tid(), descriptors_, shared_, code_, threads_, nullptr);
  }
  TestReplica() {
    calls_.emplace(identity_, tid(), descriptors_, shared_, code_, threads_, nullptr);
    tracee_ = ptrace::seize(tid(), kReplica.options).value();
    REQUIRE(tracee_.interrupt_if_alive());
    REQUIRE(ptrace::wait_for_stop(tid()));
    REQUIRE(code_.find_syscall_insn(kernel::read_maps(tid()).value()));
    ptrace::RemoteSyscalls remote(tracee_, code_.syscall_insn(), kReplica);
    REQUIRE(Descriptors::leave_table(remote));
    REQUIRE(shared_.protect(remote, kernel::read_maps(tid()).value()));
    REQUIRE(remote.finish());
    threads_.push_back(std::make_unique<GuestThread>());
  }
  Tid tid() const { return twin_.tid(); }
  uint64_t fs_base = 0;  // of the thread that asks

  SyscallAnswer answer(long nr, const SyscallArguments& args) {
    *threads_.front() = GuestThread();
    threads_.front()->tid = thread_;
    ptrace::Registers registers{};
    registers.rax = static_cast<uint64_t>(nr);
    registers.fs_base = fs_base;
    registers.rdi = args[0];
    registers.rsi = args[1];
    registers.rdx = args[2];
    registers.r10 = args[3];
    registers.r8 = args[4];
    registers.r9 = args[5];
    ptrace::RemoteSyscalls remote(tracee_, code_.syscall_insn(), kReplica);
    SyscallAnswer answer = calls_->answer(*threads_.front(), registers, remote);
    CHECK(remote.finish());
    return answer;
  }

  // How often its thread has stopped running.
  uint64_t switches() const {
    std::ifstream status(fmt::format("/proc/{}/status", tid().value));
    uint64_t sum = 0;
    for (std::string word; status >> word;) {
      uint64_t count = 0;
      if (word.ends_with("ctxt_switches:") && status >> count) sum += count;
    }
    return sum;
  }

 private:
  static timespec now() {
    timespec time;
    ::clock_gettime(CLOCK_REALTIME_COARSE, &time);
    return time;
  }

  Twin program_;
  Descriptors descriptors_ = Descriptors::of(program_.tid());
  Twin twin_;
  ptrace::Tracee tracee_{Tid()};
  trace::BlockTable table_;
  cache::GuestCode code_{tid(), table_};
  SharedPages shared_;
  GuestThreads threads_;
  Identity identity_{Tid(::getpid()), ::getppid(), now()};
  Tid thread_{::gettid()};
  std::optional<SystemCalls> calls_;
};

}  // namespace shadowprof::shadow
