// SPDX-License-Identifier: MIT
//
// usage: run_emulated [-v] [--lazy] [--values] [--addresses] PROGRAM [ARG...]
//
// Runs a whole single-threaded program in the interpreter: the oracle is the program's own output.
// The real process executes nothing but what the interpreter cannot: system calls, 32-bit code and
// instructions that fault, by single steps, with the registers and the memory that the interpreter
// has come to. So signals, handlers and sigreturn are the kernel's. Threads and children run
// natively.
//
// Exits as the program does. -v says how many instructions were interpreted, and what ended each
// stretch. Flags are kept after every instruction; with --lazy only where they are read, as in
// sampled runs: then the context of a signal may show others.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "cache/guest_code.h"
#include "emu/interpret/emulator.h"
#include "kernel/elf_kind.h"
#include "kernel/proc.h"
#include "ptrace/launch.h"
#include "ptrace/wait.h"
#include "shadow/emulator_space.h"

namespace shadowprof {
namespace {

using ptrace::Tracee;
using ptrace::WaitStatus;

class ProcessMemory : public machine::MemorySource {
 public:
  explicit ProcessMemory(ptrace::RemoteMemory& memory) : memory_(memory) {}
  size_t read_some(GuestAddr from, std::span<uint8_t> out) override {
    return memory_.read_some(from, out);
  }

 private:
  ptrace::RemoteMemory& memory_;
};

class Run {
 public:
  Run(Tracee tracee, bool exact_flags, emu::CapturePlan plan)
      : tracee_(tracee),
        plan_(plan),
        memory_(tracee.tid()),
        source_(memory_),
        view_(source_),
        code_(tracee.tid(), table_),
        emulator_(table_, code_, {exact_flags}),
        buffer_(size_t{1} << 18) {
    code_.distrust_generated_code();
  }

  int go();
  uint64_t instructions() const { return instructions_; }
  double seconds() const { return seconds_; }
  const std::map<std::string, uint64_t>& stops() const { return stops_; }

 private:
  void take_mappings();
  void interpret();
  std::optional<int> step();
  void put_memory();

  Tracee tracee_;
  emu::CapturePlan plan_;
  ptrace::RemoteMemory memory_;
  ProcessMemory source_;
  machine::MemoryView view_;
  trace::BlockTable table_;
  cache::GuestCode code_;
  emu::Emulator emulator_;
  std::vector<trace::Word> buffer_;

  uint64_t instructions_ = 0;
  double seconds_ = 0;
  std::map<std::string, uint64_t> stops_;
  long last_call_ = -1;
  int pending_signal_ = 0;
};

void Run::take_mappings() {
  const auto maps = kernel::read_maps(tracee_.tid());
  if (!maps) return;
  view_.set_areas(shadow::memory_areas(tracee_.tid(), *maps));
  code_.mappings_changed({GuestAddr(0), GuestAddr(UINT64_MAX)});
}

void Run::interpret() {
  ptrace::Registers registers;
  ptrace::ExtendedState extended;
  last_call_ = -1;
  if (!tracee_.get_registers_if_alive(registers)) return;
  if (!registers.is_64_bit()) return;
  if (!tracee_.get_extended_state_if_alive(extended)) return;
  emulator_.load(registers, extended);
  emu::Stopped stopped;
  const auto start = std::chrono::steady_clock::now();
  do {
    stopped = emulator_.run(buffer_, UINT64_MAX);
    instructions_ += stopped.instructions;
  } while (stopped.reason == emu::StopReason::buffer_full);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  switch (stopped.reason) {
    case emu::StopReason::system_call:
      stops_["system call"]++;
      break;
    case emu::StopReason::fault:
      stops_["fault"]++;
      break;
    case emu::StopReason::no_code:
      stops_["no code"]++;
      break;
    case emu::StopReason::unsupported:
      stops_[stopped.detail]++;
      break;
    case emu::StopReason::long_string:
      stops_["long string"]++;
      break;
    default:
      stops_["?"]++;
      break;
  }
  emulator_.store(registers, extended);
  last_call_ =
      stopped.reason == emu::StopReason::system_call ? static_cast<long>(registers.rax) : -1;
  registers.orig_rax = machine::kNoSyscall;
  put_memory();
  (void)tracee_.set_registers_if_alive(registers);
  (void)tracee_.set_extended_state_if_alive(extended);
}

void Run::put_memory() {
  view_.take_written([&](GuestAddr page, std::span<const uint8_t> bytes) {
    const Status written = memory_.write(page, bytes);
    if (!written) std::fprintf(stderr, "run_emulated: %s\n", written.error().message.c_str());
  });
}

// One instruction or system call natively; a signal is delivered. A number: how it has ended.
std::optional<int> Run::step() {
  for (;;) {
    // If it is dying, its report follows.
    (void)tracee_.step_if_alive(std::exchange(pending_signal_, 0));
    const ptrace::WaitOutcome outcome = ptrace::wait_for(tracee_.tid());
    if (!outcome.has_status()) return 125;
    const WaitStatus& status = outcome.status;
    if (status.kind() == WaitStatus::Kind::exited) return status.exit_code();
    if (status.kind() == WaitStatus::Kind::killed) return 128 + status.signal();
    if (status.kind() == WaitStatus::Kind::event) continue;
    if (status.kind() == WaitStatus::Kind::signal_stop) {
      siginfo_t info{};
      (void)tracee_.get_siginfo_if_alive(info);
      const bool stepped = status.signal() == SIGTRAP && info.si_code > 0;
      if (stepped) break;
      // Its handler's first instruction is where the step that delivers it ends.
      pending_signal_ = status.signal();
      continue;
    }
    break;
  }
  view_.forget_all();
  take_mappings();
  switch (last_call_) {
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_mremap:
    case SYS_madvise:
      emulator_.invalidate({GuestAddr(0), GuestAddr(UINT64_MAX)});
      break;
    default:
      break;
  }
  emulator_.begin(view_, plan_);
  return std::nullopt;
}

int Run::go() {
  // The exec is not over: its end would overwrite registers.
  take_mappings();
  emulator_.begin(view_, plan_);
  for (;;) {
    if (const auto end = step()) return *end;
    interpret();
  }
}

}  // namespace
}  // namespace shadowprof

int main(int argc, char** argv) {
  using namespace shadowprof;
  bool verbose = false, exact = true;
  emu::CapturePlan plan;
  int first = 1;
  for (; first < argc && argv[first][0] == '-'; first++) {
    if (std::string(argv[first]) == "-v") verbose = true;
    if (std::string(argv[first]) == "--lazy") exact = false;
    if (std::string(argv[first]) == "--values") plan.values = true;
    if (std::string(argv[first]) == "--addresses") plan.addresses = true;
  }
  if (first >= argc) {
    std::fputs("usage: run_emulated [-v] [--lazy] [--values] [--addresses] PROGRAM [ARG...]\n",
               stderr);
    return 125;
  }
  ptrace::LaunchRequest request;
  const auto path = kernel::find_program(argv[first]);
  if (!path) {
    std::fprintf(stderr, "run_emulated: %s\n", path.error().message.c_str());
    return 127;
  }
  request.path = *path;
  request.argv.assign(argv + first, argv + argc);
  for (char** e = environ; *e; e++) request.environment.emplace_back(*e);
  request.signals = ptrace::InheritedSignals::capture();
  request.options = ptrace::TraceOptions::exit_kill | ptrace::TraceOptions::mark_syscall_stops;
  request.fixed_addresses = true;
  const auto tracee = ptrace::launch(request);
  if (!tracee) {
    std::fprintf(stderr, "run_emulated: %s\n", tracee.error().message.c_str());
    return 126;
  }
  Run run(*tracee, exact, plan);
  const int status = run.go();
  if (verbose) {
    std::fprintf(stderr, "run_emulated: %llu instructions, %.1f million a second\n",
                 static_cast<unsigned long long>(run.instructions()),
                 1e-6 * static_cast<double>(run.instructions()) / run.seconds());
    for (const auto& [why, count] : run.stops())
      std::fprintf(stderr, "  %s: %llu\n", why.c_str(), static_cast<unsigned long long>(count));
  }
  return status;
}
