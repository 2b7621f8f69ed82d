// SPDX-License-Identifier: MIT
#include "sample/host.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <ctime>
#include <mutex>
#include <thread>

#include "base/start_thread.h"
#include "kernel/features.h"
#include "probe/describe_host.h"

namespace shadowprof::sample {
namespace {

std::atomic<uint64_t> noted_signals{0};
std::array<std::atomic<pid_t>, 65> senders_of_noted{};
Tid front_of_this;

struct Need {
  int resource;
  rlim_t least;
  const char* what;
};

// Our tables reserve address space by the gigabyte (base/limits.h); a process of the program costs
// us four descriptors; the code cache is a file in memory. Of processor time we take more than the
// program, which the limit is for.
constexpr Need kNeeds[] = {
    {RLIMIT_NOFILE, 32, "open files (ulimit -n)"},
    {RLIMIT_FSIZE, rlim_t{128} << 20, "bytes in a file (ulimit -f)"},
    {RLIMIT_AS, rlim_t{24} << 30, "bytes of address space (ulimit -v)"},
    {RLIMIT_SIGPENDING, 4, "pending signals, which timers are (ulimit -i)"},
    {RLIMIT_CPU, 0, "seconds of processor time (ulimit -t)"},
};

// When SIGXCPU comes: what is left is for leaving the program and writing the profile. At the hard
// limit comes SIGKILL.
rlim_t before_the_end(rlim_t seconds) {
  constexpr rlim_t kPlenty = 8;
  return std::max<rlim_t>(1, seconds - (seconds >= kPlenty ? 2 : 1));
}

// One for the program, one for the collectors, and two that come and go (probe/contention.h, the
// emulator's).
constexpr size_t kThreads = 4;

// Tried before the program is started, who would not get on without.
Status look_for_threads() {
  std::mutex gate;
  std::vector<std::thread> threads;
  Status enough;
  {
    const std::lock_guard closed(gate);
    for (std::thread thread; enough && threads.size() < kThreads;) {
      if (start_thread(thread, [&gate] { const std::lock_guard wait(gate); }))
        threads.push_back(std::move(thread));
      else
        enough = fail(
            "the limit on processes and threads (ulimit -u, or pids.max of the control group) "
            "leaves {}, but shadowprof itself needs {} more",
            threads.size(), kThreads);
    }
  }
  for (std::thread& thread : threads) thread.join();
  return enough;
}

void note_signal(int signal, siginfo_t* info, void*) {
  senders_of_noted[static_cast<size_t>(signal)] = sender_of(*info).value;
  noted_signals |= uint64_t{1} << signal;
}

}  // namespace

profile::Run begin_run(const char* mode, const std::vector<std::string>& command,
                       const std::map<std::string, std::string>& options, uint64_t seed) {
  profile::Run run;
  run.command = command;
  run.mode = mode;
  run.engine = "translator";
  run.host = probe::describe_host();
  run.options = options;
  run.seed = seed;
  run.started = utc_now();
  return run;
}

void note_image(profile::Run& run, double at_s, std::vector<std::string> command) {
  if (run.images.empty()) run.images.push_back({run.command, 0});
  if (run.images.size() < profile::kMostImages) run.images.push_back({std::move(command), at_s});
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void ignore_group_signals() {
  for (int signal :
       {SIGUSR1, SIGABRT, SIGTRAP, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT})
    ::signal(signal, SIG_IGN);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++) ::signal(signal, SIG_IGN);
}

void note_front(Tid front) {
  front_of_this = front;
}

Tid sender_of(const siginfo_t& info) {
  const bool is_passed_on = info.si_code == SI_QUEUE && info.si_pid == front_of_this.value;
  return Tid(is_passed_on ? info.si_value.sival_int : info.si_pid);
}

Status check_proc() {
  const kernel::Feature proc = kernel::probe_proc();
  if (!proc.works) return fail("{}", proc.problem);
  return {};
}

bool front_is_gone() {
  return ::getppid() != front_of_this.value;
}

void prepare_signals() {
  ignore_group_signals();
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  for (int signal : {SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ}) ::sigaction(signal, &action, nullptr);
  action.sa_sigaction = note_signal;
  action.sa_flags = SA_SIGINFO;  // without SA_RESTART: it interrupts our wait
  // A dump is for runs that sample, and the signal does no harm in others.
  for (int signal : {SIGTERM, SIGHUP, SIGXCPU, kDumpWanted}) ::sigaction(signal, &action, nullptr);
}

void forward_signals_to(Tid program) {
  for (int signal : {SIGTERM, SIGHUP}) {
    const uint64_t bit = uint64_t{1} << signal;
    if ((noted_signals & bit) != 0 && (noted_signals.fetch_and(~bit) & bit) != 0 &&
        senders_of_noted[static_cast<size_t>(signal)] != program.value)
      ::kill(program.value, signal);
  }
}

bool out_of_processor_time() {
  return (noted_signals & uint64_t{1} << SIGXCPU) != 0;
}

sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGXCPU, kDumpWanted,
                     kControlWanted, kFrontDied})
    sigaddset(&set, signal);
  return set;
}

void block_awaited_signals() {
  const sigset_t set = awaited_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<InheritedLimits> InheritedLimits::raise() {
  InheritedLimits limits;
  for (const Need& need : kNeeds) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(need.resource), &limit) != 0) continue;
    limits.limits_.push_back({need.resource, limit});
    const bool is_time = need.resource == RLIMIT_CPU && limit.rlim_max != RLIM_INFINITY;
    if (!is_time && limit.rlim_cur == limit.rlim_max && limit.rlim_cur >= need.least) continue;
    rlimit wanted{limit.rlim_max, limit.rlim_max};
    if (wanted.rlim_cur < need.least) {
      limits.give_to(Tid(::getpid()));
      return fail("the limit is {} {}, but shadowprof itself needs {}", wanted.rlim_cur, need.what,
                  need.least);
    }
    if (need.resource == RLIMIT_CPU && wanted.rlim_max != RLIM_INFINITY)
      wanted.rlim_cur = before_the_end(wanted.rlim_max);
    ::setrlimit(static_cast<__rlimit_resource>(need.resource), &wanted);
  }
  if (Status enough = look_for_threads(); !enough) {
    limits.give_to(Tid(::getpid()));
    return tl::unexpected(std::move(enough.error()));
  }
  return limits;
}

Result<InheritedLimits> prepare_to_run() {
  SP_TRY(check_proc());
  return InheritedLimits::raise();
}

void InheritedLimits::give_to(Tid program) const {
  for (const Limit& limit : limits_)
    ::prlimit(program.value, static_cast<__rlimit_resource>(limit.resource), &limit.inherited,
              nullptr);
}

}  // namespace shadowprof::sample
