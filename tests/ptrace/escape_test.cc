// SPDX-License-Identifier: MIT
//
// A tracer that dies in the middle of a system call that a program makes for it: the program goes
// on with its registers and its signal mask, and a child that was made ends.
#include "ptrace/escape.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "../child_process.h"
#include "guest.h"
#include "kernel/proc.h"
#include "ptrace/remote_syscall.h"
#include "ptrace/wait.h"

using namespace shadowprof;
using namespace shadowprof::ptrace;
using namespace shadowprof::ptrace::test;
using shadowprof::test::exit_status_of;

namespace {

enum Death { prepared, behind_a_call, behind_a_fork, at_the_childs_stop, nowhere };

// Computes the same twice, in step, until it is told to end. Exit status 0: nothing was disturbed.
void compute_in_step(Shared& shared) {
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  shared.ready = 1;
  uint64_t a = 1, b = 1;
  double x = 1, y = 1;
  while (!shared.go) {
    a = a * 6364136223846793005u + 1;
    x = x * 1.0000001 + 1e-7;
    asm volatile("" : "+r"(a), "+x"(x));
    b = b * 6364136223846793005u + 1;
    y = y * 1.0000001 + 1e-7;
    asm volatile("" : "+r"(b), "+x"(y));
    if (a != b || x != y) ::_exit(1);
    shared.count++;
  }
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  for (int s = 1; s < 32; s++) {
    if (sigismember(&mask, s)) ::_exit(2);
  }
  // What a fork has made is a zombie that nobody was told of, with the status 0.
  int status = 0;
  while (::waitpid(-1, &status, __WALL) > 0) {
    if (status != 0) ::_exit(3);
  }
  ::_exit(errno == ECHILD ? 0 : 4);
}

std::optional<EscapeRoute> route_in(Tid process, GuestRange& stack) {
  const auto mappings = kernel::read_maps(process);
  if (!mappings) return std::nullopt;
  for (const kernel::Mapping& m : *mappings) {
    if (m.path == "[stack]") stack = m.range;
  }
  RemoteMemory memory(process);
  if (stack.size() == 0) return std::nullopt;
  return find_escape_route(kernel::executable_ranges(*mappings), memory);
}

// Its exit status says how far it came.
[[noreturn]] void trace_and_die(Tid guest, GuestAddr insn, Death death) {
  const auto tracee = seize(guest, TraceOptions::mark_syscall_stops | TraceOptions::follow_clone);
  if (!tracee || !tracee->interrupt_if_alive() || !wait_for_stop(guest)) ::_exit(10);
  GuestRange stack;
  const auto route = route_in(guest, stack);
  if (!route) ::_exit(11);
  auto* remote = new RemoteSyscalls(
      *tracee, insn, kPlain | TraceOptions::follow_clone);  // never ends in an orderly way
  remote->escape_by(*route, stack);
  if (!remote->prepare() || remote->stack_of_child() == GuestAddr()) ::_exit(12);
  if (death == prepared) ::_exit(0);
  if (const auto id = remote->call(SYS_getpid); !id || *id != guest.value) ::_exit(13);
  if (death == behind_a_call) ::_exit(0);
  if (death != nowhere) {
    const auto child = remote->call(SYS_clone, 0, remote->stack_of_child(), 0, 0, 0);
    if (!child || *child <= 0) ::_exit(14);
    if (death == at_the_childs_stop && !wait_for_stop(remote->child_of_last_call())) ::_exit(15);
    ::_exit(0);
  }
  if (!remote->finish()) ::_exit(16);
  ::_exit(0);
}

}  // namespace

TEST_CASE("a program whose tracer dies within a system call of the tracer's goes on unharmed") {
  if (!can_trace()) return;
  const Watchdog watchdog(60);
  for (const Death death : {prepared, behind_a_call, behind_a_fork, at_the_childs_stop, nowhere}) {
    CAPTURE(static_cast<int>(death));
    Guest guest(compute_in_step);
    guest.await_ready();
    const GuestAddr insn = syscall_insn();
    const int status = exit_status_of([&] { trace_and_die(guest.tid(), insn, death); });
    if (status == 11) {
      MESSAGE("skipped: this program has no `syscall; ret`, or does not run on its own stack");
      return;
    }
    CHECK(status == 0);
    const int before = guest.shared().count;
    while (guest.shared().count < before + 1000 && ::kill(guest.pid(), 0) == 0 &&
           status_field(guest.tid(), "State").front() != 'Z') {
    }
    guest.shared().go = 1;
    const WaitStatus end = guest.run_to_end();
    CHECK_MESSAGE(end.kind() == WaitStatus::Kind::exited, to_string(end));
    CHECK(end.exit_code() == 0);
  }
}
