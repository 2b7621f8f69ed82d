// SPDX-License-Identifier: MIT
//
// The requests themselves. glibc's ptrace() is variadic and turns PEEK results around; the requests
// used here are those where it is a plain system call.
#include "ptrace/tracee.h"

#include <elf.h>
#include <linux/filter.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/thread_timer.h"
#include "kernel/features.h"

namespace shadowprof::ptrace {
namespace {

// The size of the kernel's signal set, which PTRACE_GETSIGMASK wants as its address argument.
constexpr uint64_t kKernelSigsetBytes = 8;
// Not in the headers of glibc 2.36 (include/uapi/linux/ptrace.h).
constexpr uint64_t kSuspendSeccomp = uint64_t{1} << 21;
constexpr uint32_t kAuditArchX8664 = 0xC000003E;  // EM_X86_64 | 64-bit | little endian
// A first guess for XSAVE state: AMX tiles included it is 11 KiB today.
constexpr size_t kExtendedStateGuess = 16384;

// PTRACE_{SET,GET}_SYSCALL_USER_DISPATCH_CONFIG, which Debian's headers do not have.
constexpr int kSetUserDispatch = 0x4210;
constexpr int kGetUserDispatch = 0x4211;
constexpr int kGetFilter = PTRACE_SECCOMP_GET_FILTER;

long raw_ptrace(int request, Tid tid, uint64_t address, void* data) {
  return ::syscall(SYS_ptrace, static_cast<long>(request), static_cast<long>(tid.value), address,
                   data);
}

uint64_t kernel_options(TraceOptions options) {
  static constexpr struct {
    TraceOptions ours;
    uint64_t kernel;
  } kMap[] = {
      {TraceOptions::mark_syscall_stops, PTRACE_O_TRACESYSGOOD},
      {TraceOptions::follow_fork, PTRACE_O_TRACEFORK},
      {TraceOptions::follow_vfork, PTRACE_O_TRACEVFORK},
      {TraceOptions::follow_clone, PTRACE_O_TRACECLONE},
      {TraceOptions::report_exec, PTRACE_O_TRACEEXEC},
      {TraceOptions::report_vfork_done, PTRACE_O_TRACEVFORKDONE},
      {TraceOptions::report_exit, PTRACE_O_TRACEEXIT},
      {TraceOptions::report_seccomp, PTRACE_O_TRACESECCOMP},
      {TraceOptions::exit_kill, PTRACE_O_EXITKILL},
      {TraceOptions::suspend_seccomp, kSuspendSeccomp},
  };
  uint64_t out = 0;
  for (const auto& row : kMap) {
    if (has(options, row.ours)) out |= row.kernel;
  }
  return out;
}

uint64_t offset_of_debug_register(unsigned index) {
  return offsetof(struct user, u_debugreg) + index * sizeof(uint64_t);
}

void* as_data(uint64_t value) {
  return reinterpret_cast<void*>(value);
}

// The value of a line "Name:\tvalue" of /proc/TID/status; empty if there is none.
std::string status_field(Tid tid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(tid.value) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size() + 1, name + ":") != 0) continue;
    const size_t start = line.find_first_not_of(" \t", name.size() + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

std::string command_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

tl::unexpected<Error> cannot_seize(Tid tid, int error) {
  if (error == ESRCH) return fail_errno(error, "cannot trace {}", tid.value);
  const std::string tracer = status_field(tid, "TracerPid");
  if (!tracer.empty() && tracer != "0") {
    Error e{fmt::format("cannot trace {}: it is being traced by pid {} ({})", tid.value, tracer,
                        command_of(tracer)),
            error};
    return tl::unexpected(std::move(e));
  }
  if (status_field(tid, "State").starts_with("Z")) {
    return tl::unexpected(Error{fmt::format("cannot trace {}: it has exited", tid.value), ESRCH});
  }
  if (error == EPERM) {
    static const kernel::Feature ours = kernel::probe_ptrace();  // the same for all
    if (!ours.works) return tl::unexpected(Error{ours.problem, error});
    return fail_errno(
        error,
        "cannot trace {}: it is another user's, has privileges that we have not, or is outside of "
        "our sandbox (root with CAP_SYS_PTRACE may; see also /proc/sys/kernel/yama/ptrace_scope)",
        tid.value);
  }
  return fail_errno(error, "cannot trace {}", tid.value);
}

}  // namespace

tl::unexpected<Error> thread_is_gone(Tid tid) {
  return tl::unexpected(Error{fmt::format("thread {} is dying or gone", tid.value), ESRCH});
}

bool Tracee::request_if_alive(int request, uint64_t address, void* data, const char* name) const {
  if (raw_ptrace(request, tid_, address, data) >= 0) return true;
  SP_CHECK(errno == ESRCH, "ptrace {} of thread {}: {}", name, tid_.value, std::strerror(errno));
  return false;
}

bool Tracee::get_registers_if_alive(Registers& out) const {
  return request_if_alive(PTRACE_GETREGS, 0, static_cast<user_regs_struct*>(&out), "GETREGS");
}

Result<Registers> Tracee::try_get_registers() const {
  Registers out{};
  if (!get_registers_if_alive(out)) return thread_is_gone(tid_);
  return out;
}

Registers Tracee::must_get_registers() const {
  Registers out{};
  SP_CHECK(get_registers_if_alive(out), "thread {} is gone", tid_.value);
  return out;
}

// SETREGS writes one register after the other, in the order of the structure, and stops at the
// first that it refuses (arch/x86/kernel/ptrace.c genregs_set). Programs can have two kinds of
// those: FS and GS bases above the program's half (wrfsbase takes any canonical address), and
// selectors behind them that are not of user mode (a null selector with any privilege level). What
// is refused has been read from this thread, so it is there still, and the bases that are not
// refused are written one by one.
bool Tracee::set_registers_if_alive(const Registers& registers) const {
  auto* data = static_cast<user_regs_struct*>(const_cast<Registers*>(&registers));
  if (raw_ptrace(PTRACE_SETREGS, tid_, 0, data) >= 0) return true;
  SP_CHECK(errno == ESRCH || errno == EIO, "ptrace SETREGS of thread {}: {}", tid_.value,
           std::strerror(errno));
  if (errno == ESRCH) return false;
  (void)raw_ptrace(PTRACE_POKEUSER, tid_, offsetof(user_regs_struct, fs_base),
                   as_data(registers.fs_base));
  (void)raw_ptrace(PTRACE_POKEUSER, tid_, offsetof(user_regs_struct, gs_base),
                   as_data(registers.gs_base));
  Registers now{};
  if (!get_registers_if_alive(now)) return false;
  SP_CHECK(now.rip == registers.rip && now.rsp == registers.rsp &&
               now.fs_base == registers.fs_base && now.gs_base == registers.gs_base,
           "ptrace SETREGS of thread {} refuses what is not in it", tid_.value);
  return true;
}

Status Tracee::try_set_registers(const Registers& registers) const {
  auto* data = static_cast<user_regs_struct*>(const_cast<Registers*>(&registers));
  if (raw_ptrace(PTRACE_SETREGS, tid_, 0, data) >= 0) return {};
  if (errno == ESRCH) return thread_is_gone(tid_);
  return fail_errno(errno, "cannot set the registers of thread {}", tid_.value);
}

Status Tracee::try_set_debug_register(unsigned index, uint64_t value) const {
  if (raw_ptrace(PTRACE_POKEUSER, tid_, offset_of_debug_register(index), as_data(value)) >= 0)
    return {};
  if (errno == ESRCH) return thread_is_gone(tid_);
  return fail_errno(errno, "cannot set debug register {} of thread {}", index, tid_.value);
}

// The system call stores the word, where glibc's function returns it.
Result<uint64_t> Tracee::try_get_debug_register(unsigned index) const {
  uint64_t value = 0;
  if (raw_ptrace(PTRACE_PEEKUSER, tid_, offset_of_debug_register(index), &value) >= 0)
    return value;
  if (errno == ESRCH) return thread_is_gone(tid_);
  return fail_errno(errno, "cannot read debug register {} of thread {}", index, tid_.value);
}

void Tracee::must_set_registers(const Registers& registers) const {
  SP_CHECK(set_registers_if_alive(registers), "thread {} is gone", tid_.value);
}

bool Tracee::get_extended_state_if_alive(ExtendedState& out) const {
  out.resize(std::max(out.capacity(), kExtendedStateGuess));
  for (;;) {
    iovec vector{out.data(), out.size()};
    if (!request_if_alive(PTRACE_GETREGSET, NT_X86_XSTATE, &vector, "GETREGSET")) return false;
    // The kernel cuts off without a word; only a result shorter than the room is complete.
    if (vector.iov_len < out.size()) {
      out.resize(vector.iov_len);
      return true;
    }
    out.resize(out.size() * 2);
  }
}

bool Tracee::set_extended_state_if_alive(const ExtendedState& state) const {
  iovec vector{const_cast<uint8_t*>(state.data()), state.size()};
  return request_if_alive(PTRACE_SETREGSET, NT_X86_XSTATE, &vector, "SETREGSET");
}

bool Tracee::get_siginfo_if_alive(siginfo_t& out) const {
  return request_if_alive(PTRACE_GETSIGINFO, 0, &out, "GETSIGINFO");
}

bool Tracee::set_siginfo_if_alive(const siginfo_t& info) const {
  return request_if_alive(PTRACE_SETSIGINFO, 0, const_cast<siginfo_t*>(&info), "SETSIGINFO");
}

bool Tracee::get_pending_signals_if_alive(SignalMask& out, SignalQueue which) const {
  out = 0;
  std::array<siginfo_t, 16> some;
  for (uint64_t first = 0;;) {
    const uint32_t flags = which == SignalQueue::process ? PTRACE_PEEKSIGINFO_SHARED : 0;
    __ptrace_peeksiginfo_args range{first, flags, static_cast<int32_t>(some.size())};
    const long got = raw_ptrace(PTRACE_PEEKSIGINFO, tid_, reinterpret_cast<uint64_t>(&range),
                                some.data());
    SP_CHECK(got >= 0 || errno == ESRCH, "ptrace PEEKSIGINFO of thread {}: {}", tid_.value,
             std::strerror(errno));
    if (got < 0) return false;
    for (long i = 0; i < got; i++) out |= mask_of(some[static_cast<size_t>(i)].si_signo);
    if (static_cast<size_t>(got) < some.size()) return true;
    first += static_cast<uint64_t>(got);
  }
}

bool Tracee::get_signal_mask_if_alive(SignalMask& out) const {
  static_assert(sizeof out == kKernelSigsetBytes);
  return request_if_alive(PTRACE_GETSIGMASK, kKernelSigsetBytes, &out, "GETSIGMASK");
}

bool Tracee::set_signal_mask_if_alive(SignalMask mask) const {
  return request_if_alive(PTRACE_SETSIGMASK, kKernelSigsetBytes, &mask, "SETSIGMASK");
}

bool Tracee::get_event_message_if_alive(uint64_t& out) const {
  unsigned long message = 0;
  if (!request_if_alive(PTRACE_GETEVENTMSG, 0, &message, "GETEVENTMSG")) return false;
  out = message;
  return true;
}

bool Tracee::current_stop_if_alive(WaitStatus& out) const {
  siginfo_t info{};
  if (!get_siginfo_if_alive(info)) return false;
  out = WaitStatus::from_stop_siginfo(info);
  return true;
}

bool Tracee::get_syscall_stop_if_alive(SyscallStopInfo& out) const {
  __ptrace_syscall_info info{};
  const long got = raw_ptrace(PTRACE_GET_SYSCALL_INFO, tid_, sizeof info, &info);
  if (got < 0 && errno == ESRCH) return false;
  if (got >= 0) {
    out.which = info.op == PTRACE_SYSCALL_INFO_ENTRY  ? SyscallStop::entry
                : info.op == PTRACE_SYSCALL_INFO_EXIT ? SyscallStop::exit
                                                      : SyscallStop::neither;
    out.is_x86_64 = info.arch == kAuditArchX8664;
    if (out.which == SyscallStop::entry) {
      out.nr = static_cast<long>(info.entry.nr);
      std::copy(std::begin(info.entry.args), std::end(info.entry.args), out.args.begin());
    }
    if (out.which == SyscallStop::exit) out.result = info.exit.rval;
    return true;
  }
  // Before Linux 5.3: at an entry stop rax is always -ENOSYS, at an exit stop nearly never.
  WaitStatus stop;
  Registers registers{};
  if (!current_stop_if_alive(stop) || !get_registers_if_alive(registers)) return false;
  out.is_x86_64 = registers.is_64_bit();
  out.which = stop.kind() != WaitStatus::Kind::syscall_stop             ? SyscallStop::neither
              : static_cast<int64_t>(registers.rax) == -int64_t{ENOSYS} ? SyscallStop::entry
                                                                        : SyscallStop::exit;
  out.nr = static_cast<long>(registers.orig_rax);
  for (size_t i = 0; i < out.args.size(); i++) out.args[i] = registers.syscall_argument(i);
  out.result = static_cast<int64_t>(registers.rax);
  return true;
}

bool Tracee::get_rseq_if_alive(GuestAddr& out) const {
  __ptrace_rseq_configuration configuration{};
  out = GuestAddr();
  const long got =
      raw_ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid_, sizeof configuration, &configuration);
  if (got < 0) return errno != ESRCH;
  out = GuestAddr(configuration.rseq_abi_pointer);
  return true;
}

bool Tracee::get_user_dispatch_if_alive(UserDispatch& out) const {
  out = {};
  if (raw_ptrace(kGetUserDispatch, tid_, sizeof out, &out) == 0) return true;
  out = {};
  return errno != ESRCH;
}

bool Tracee::set_user_dispatch_if_alive(const UserDispatch& dispatch) const {
  UserDispatch wanted = dispatch;
  return request_if_alive(kSetUserDispatch, sizeof wanted, &wanted,
                          "SET_SYSCALL_USER_DISPATCH_CONFIG");
}

Result<bool> Tracee::read_filter(size_t index, std::vector<sock_filter>& out) const {
  out.clear();
  const long length = raw_ptrace(kGetFilter, tid_, index, nullptr);
  if (length < 0 && errno == ENOENT) return false;
  if (length >= 0) {
    out.resize(static_cast<size_t>(length));
    if (raw_ptrace(kGetFilter, tid_, index, out.data()) == length) return true;
  }
  if (errno == ESRCH) return thread_is_gone(tid_);
  return fail_errno(errno, "cannot read the seccomp filters of thread {}", tid_.value);
}

bool Tracee::cont_if_alive(int signal) const {
  return request_if_alive(PTRACE_CONT, 0, as_data(static_cast<uint64_t>(signal)), "CONT");
}

bool Tracee::syscall_if_alive(int signal) const {
  return request_if_alive(PTRACE_SYSCALL, 0, as_data(static_cast<uint64_t>(signal)), "SYSCALL");
}

bool Tracee::step_if_alive(int signal) const {
  return request_if_alive(PTRACE_SINGLESTEP, 0, as_data(static_cast<uint64_t>(signal)),
                          "SINGLESTEP");
}

bool Tracee::listen_if_alive() const {
  return request_if_alive(PTRACE_LISTEN, 0, nullptr, "LISTEN");
}

bool Tracee::interrupt_if_alive() const {
  if (raw_ptrace(PTRACE_INTERRUPT, tid_, 0, nullptr) >= 0) return true;
  // EIO: the thread has already released its signal state, it is a zombie.
  SP_CHECK(errno == ESRCH || errno == EIO, "ptrace INTERRUPT of thread {}: {}", tid_.value,
           std::strerror(errno));
  return false;
}

bool Tracee::detach_if_alive(int signal) const {
  return request_if_alive(PTRACE_DETACH, 0, as_data(static_cast<uint64_t>(signal)), "DETACH");
}

bool Tracee::set_options_if_alive(TraceOptions options) const {
  return request_if_alive(PTRACE_SETOPTIONS, 0, as_data(kernel_options(options)), "SETOPTIONS");
}

Status Tracee::try_set_options(TraceOptions options) const {
  if (raw_ptrace(PTRACE_SETOPTIONS, tid_, 0, as_data(kernel_options(options))) >= 0) return {};
  if (errno == ESRCH) return thread_is_gone(tid_);
  return fail_errno(errno, "cannot set the tracing options of thread {}", tid_.value);
}

namespace {

sigjmp_buf gives_up_here;

void give_up(int) {
  siglongjmp(gives_up_here, 1);
}

// In which it has had no processor for as long as it may wait.
constexpr int kMostTries = 100;

// Sends this thread SIGALRM, once, unless it ends before. Armed only where give_up() has somewhere
// to go to.
class Deadline {
 public:
  explicit Deadline(ThreadTimer timer) : timer_(std::move(timer)) {
    struct sigaction action {};
    action.sa_handler = give_up;
    ::sigaction(SIGALRM, &action, &action_before_);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    ::pthread_sigmask(SIG_UNBLOCK, &alarm, &mask_before_);
  }
  void arm() {
    constexpr long kPatience_ns = 20'000'000;
    timer_->once_in(kPatience_ns);
  }
  ~Deadline() {
    timer_.reset();
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    ::sigaction(SIGALRM, &action_before_, nullptr);
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::optional<ThreadTimer> timer_;
  struct sigaction action_before_ {};
  sigset_t mask_before_{};
};

// The alarm may come when the seize has just succeeded.
bool is_traced_by_us(Tid tid) {
  return status_field(tid, "TracerPid") == std::to_string(::syscall(SYS_gettid));
}

uint64_t times_slept() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_nvcsw);
}

// While a process executes another program nobody can begin to trace its threads, and it waits for
// those that are traced already to be seen dead, which is for us to do: so whoever waits in the
// seize waits for ever (kernel/ptrace.c ptrace_attach, fs/exec.c de_thread; cred_guard_mutex). It
// restarts after any signal; only a handler that does not return ends it.
// Where it has not slept at all it did not wait for that, but for a processor.
int try_to_seize(Tid tid, TraceOptions options, ThreadTimer timer) {
  Deadline deadline(std::move(timer));
  const volatile uint64_t slept_before = times_slept();
  if (sigsetjmp(gives_up_here, 1) != 0) {
    if (is_traced_by_us(tid)) return 0;
    return times_slept() == slept_before ? EINTR : EAGAIN;
  }
  deadline.arm();
  return raw_ptrace(PTRACE_SEIZE, tid, 0, as_data(kernel_options(options))) < 0 ? errno : 0;
}

}  // namespace

Result<Tracee> seize(Tid tid, TraceOptions options) {
  int error = EINTR;
  for (int i = 0; i < kMostTries && error == EINTR; i++) {
    Result<ThreadTimer> timer = ThreadTimer::create(SIGALRM);
    if (!timer) return fail("cannot trace {}: {}", tid.value, timer.error().message);
    error = try_to_seize(tid, options, std::move(*timer));
  }
  if (error == EAGAIN) {
    return fail_errno(error, "cannot trace {} while its process executes another program",
                      tid.value);
  }
  if (error != 0) return cannot_seize(tid, error);
  return Tracee(tid);
}

}  // namespace shadowprof::ptrace
