// SPDX-License-Identifier: MIT
#include "plugin/keeper.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/die_with_parent.h"
#include "base/numbered_entries.h"
#include "plugin/messages.h"
#include "plugin/plugin_main.h"
#include "plugin/wire.h"

namespace shadowprof::plugin {
namespace {

struct Child {
  pid_t pid = 0;
  uint32_t number = 0;
  Shared* shared = nullptr;
};

void close_all_but(int kept) {
  for (const int fd : numbered_entries("/proc/self/fd").value_or(std::vector<int>{}))
    if (fd > STDERR_FILENO && fd != kept) ::close(fd);
}

void use_null(int fd, int flags) {
  const int null = ::open("/dev/null", flags | O_CLOEXEC);
  if (null >= 0 && null != fd) {
    ::dup2(null, fd);
    ::close(null);
  }
}

// As a program finds them that was just executed.
void reset_signals() {
  for (int signal = 1; signal < NSIG; signal++) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

class KeeperLoop {
 public:
  explicit KeeperLoop(int control) : control_(control) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &mask, nullptr);
    signals_ = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  [[noreturn]] void run() {
    for (;;) {
      pollfd wanted[] = {{control_, POLLIN, 0}, {signals_, POLLIN, 0}};
      if (::poll(wanted, 2, -1) < 0 && errno != EINTR) end();
      if (wanted[1].revents != 0) reap();
      if (wanted[0].revents != 0 && !serve()) end();
    }
  }

 private:
  bool serve() {
    Descriptors fds;
    const auto control = receive_message<Control>(control_, fds);
    if (!control) return false;
    if (control->kind == ControlKind::start) make(*control, fds);
    if (control->kind == ControlKind::kill)
      for (const Child& child : children_)
        if (child.number == control->number) ::kill(child.pid, SIGKILL);
    return true;
  }

  void make(const Control& control, Descriptors& fds) {
    void* const memory =
        ::mmap(nullptr, kSharedHeadBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[2].get(), 0);
    if (memory == MAP_FAILED) return;  // the end of its socket says it, too
    auto* const shared = static_cast<Shared*>(memory);
    const pid_t keeper = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (!die_with_parent(keeper)) ::_exit(0);
      ::close(control_);
      ::close(signals_);
      reset_signals();
      plugin_main(fds[0].get(), fds[1].get(), fds[2].get(), control.file);
    }
    if (pid < 0) return tell_end(shared, 0xff00);
    children_.push_back({pid, control.number, shared});
  }

  static void tell_end(Shared* shared, int status) {
    shared->end.store(kEnded | static_cast<uint32_t>(status));
    ::syscall(SYS_futex, &shared->done, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    ::munmap(shared, kSharedHeadBytes);
  }

  void reap() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) > 0) {
    }
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto child = std::ranges::find(children_, pid, &Child::pid);
      if (child == children_.end()) continue;
      tell_end(child->shared, status);
      children_.erase(child);
    }
  }

  [[noreturn]] void end() {
    for (const Child& child : children_) ::kill(child.pid, SIGKILL);
    ::_exit(0);
  }

  const int control_;
  int signals_ = -1;
  std::vector<Child> children_;
};

[[noreturn]] void keep(int control) {
  ::setsid();  // ctrl-C is for the program
  ::prctl(PR_SET_NAME, "plug-ins");
  reset_signals();
  close_all_but(control);
  use_null(STDIN_FILENO, O_RDONLY);
  // What a plug-in prints is no output of the program's.
  if (::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) use_null(STDOUT_FILENO, O_WRONLY);
  KeeperLoop(control).run();
}

}  // namespace

Result<std::shared_ptr<Keeper>> Keeper::start() {
  SP_ASSIGN(auto ends, make_sockets());
  std::fflush(nullptr);  // what is not written yet would be by each plug-in that calls exit()
  const pid_t first = ::fork();
  if (first < 0) return fail_errno(errno, "cannot make a process for plug-ins");
  if (first == 0) {
    // The second one is nobody's child that waits for it.
    if (::fork() != 0) ::_exit(0);
    ends.first.reset();
    keep(ends.second.get());
  }
  int status = 0;
  while (::waitpid(first, &status, 0) < 0 && errno == EINTR) {
  }
  return std::shared_ptr<Keeper>(new Keeper(std::move(ends.first)));
}

Result<uint32_t> Keeper::make_process(const PluginFile& file, int socket, int shared_memory) {
  Control control{ControlKind::start, ++last_number_, {}};
  file.path().copy(control.file, sizeof control.file - 1);
  if (!send_message(control_.get(), control, {file.fd(), socket, shared_memory}))
    return fail("no process can be made for plug-in {}: the one that makes them is gone",
                file.path());
  return control.number;
}

void Keeper::kill_process(uint32_t number) {
  (void)send_message(control_.get(), Control{ControlKind::kill, number, {}});
}

}  // namespace shadowprof::plugin
