// SPDX-License-Identifier: MIT
#include "shadow/replica.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>

#include "ptrace/wait.h"
#include "twin.h"

#include <doctest/doctest.h>

namespace {

constexpr long kSyscall = 24;
constexpr long kGetEventMessage = 0x4201;

// Dies when it is resumed from the first event that we have asked about.
pid_t mortal = 0;
bool was_asked = false;

}  // namespace

// In place of the C library's, for all of this program. As that one does, it reads words that a
// call with fewer arguments has not put there.
extern "C" __attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
  static const auto real = reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"));
  long words[6];
  va_list arguments;
  va_start(arguments, number);
  for (long& word : words) word = va_arg(arguments, long);
  va_end(arguments);
  const bool is_of_mortal = number == SYS_ptrace && mortal != 0 && words[1] == mortal;
  if (is_of_mortal && words[0] == kSyscall && was_asked) ::kill(mortal, SIGKILL);
  const long result = real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
  if (is_of_mortal && words[0] == kGetEventMessage) was_asked = result == 0;
  return result;
}

namespace shadowprof::shadow {
namespace {

// What all that we trace reports, until it has ended.
size_t stops_until_all_have_ended() {
  size_t stops = 0;
  for (;;) {
    const ptrace::WaitOutcome outcome = ptrace::wait_any();
    if (outcome.kind == ptrace::WaitOutcome::Kind::no_children) return stops;
    if (!outcome.has_status() || outcome.status.is_dead()) continue;
    stops++;
    ::kill(outcome.tid.value, SIGKILL);
    (void)ptrace::Tracee(outcome.tid).cont_if_alive();
  }
}

}  // namespace

TEST_CASE("a replica does not outlive a program that dies as it is made") {
  Twin twin;
  Program program = Program::attach(twin.tid(), Follow::no).value();
  ForkOptions options;
  options.mappings = kernel::read_maps(twin.tid()).value();
  const GuestAddr syscall_insn = find_calls(twin.tid(), options, {}).value();
  std::vector<Tid> zombies;
  {
    Pause pause(program, Pause::Whom::one);
    REQUIRE(pause.is_usable());
    mortal = twin.tid().value;
    const auto replica = fork_replica(program, pause, syscall_insn, options, zombies);
    mortal = 0;
    CHECK(was_asked);
    CHECK(!replica);
  }
  CHECK(stops_until_all_have_ended() == 0);
}

}  // namespace shadowprof::shadow
