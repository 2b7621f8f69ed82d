// SPDX-License-Identifier: MIT
//
// All processes here but the first make async-signal-safe calls only (launch.cc).
#include "ptrace/id_space.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <new>
#include <string>
#include <utility>

#include "base/pipe.h"
#include "ptrace/trial_child.h"

namespace shadowprof::ptrace {
namespace {

// A child of our parent's, who is told of its end as of that of any other child. The kernel writes
// its number to `number` before it runs, whatever happens to us meanwhile.
pid_t fork_sibling(pid_t& number) {
  constexpr int kFlags = CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD;
  return static_cast<pid_t>(::syscall(SYS_clone, kFlags, 0, &number, 0, 0));
}

void nap(std::chrono::nanoseconds time) {
  const timespec wanted{0, time.count()};
  ::nanosleep(&wanted, nullptr);
}

bool write_file(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_written = ::write(file, text.data(), text.size()) == std::ssize(text);
  ::close(file);
  return is_written;
}

// As each user and group is: itself.
struct OwnNumbers {
  std::string user = fmt::format("{0} {0} 1", ::geteuid());
  std::string group = fmt::format("{0} {0} 1", ::getegid());

  bool tell_kernel() const {
    (void)write_file("/proc/self/setgroups", "deny");  // Linux 3.19
    return write_file("/proc/self/uid_map", user) && write_file("/proc/self/gid_map", group);
  }
};

bool enter_namespaces(const OwnNumbers& numbers) {
  constexpr int kOwn = CLONE_NEWPID | CLONE_NEWNS;
  if (::unshare(kOwn) != 0 && (::unshare(kOwn | CLONE_NEWUSER) != 0 || !numbers.tell_kernel()))
    return false;
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0;
}

// What passes between the processes.
struct Pipes {
  Pipe life;   // ours to the keeper: nothing, until it is closed
  Pipe ready;  // the keeper's to who has made it

  bool open() { return life.open() && ready.open(); }
};

// The children of a maker. 0: there is none.
struct Made {
  pid_t keeper = 0;
  pid_t program = 0;
};

// Memory of ours and the maker's together: it may be killed at any time, and what it has made is
// our child.
class SharedMade {
 public:
  SharedMade() {
    void* got =
        ::mmap(nullptr, sizeof(Made), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (got != MAP_FAILED) made_ = new (got) Made;
  }
  ~SharedMade() {
    if (made_) ::munmap(made_, sizeof(Made));
  }
  SharedMade(const SharedMade&) = delete;
  SharedMade& operator=(const SharedMade&) = delete;
  explicit operator bool() const { return made_ != nullptr; }
  Made& operator*() const { return *made_; }
  Made* operator->() const { return made_; }

 private:
  Made* made_ = nullptr;
};

// The reader of a word that cannot be sent learns of the sender's end.
void say_ready(const UniqueFd& to) {
  while (::write(to.get(), "", 1) < 0 && errno == EINTR) {
  }
}

bool hears_ready(const UniqueFd& from) {
  char word = 0;
  ssize_t n = 0;
  do {
    n = ::read(from.get(), &word, sizeof word);
  } while (n < 0 && errno == EINTR);
  return n == sizeof word;
}

// The first process of the namespace. It sees nothing of its children's ends, and its last moment
// is when there is nobody but itself.
[[noreturn]] void keep(const Pipes& pipes) {
  constexpr std::chrono::milliseconds kPace{20};
  constexpr unsigned long kOnlyFiles = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (::mount("proc", "/proc", "proc", kOnlyFiles, nullptr) != 0) ::_exit(1);
  ::setsid();
  for (int signal = 1; signal < SIGRTMIN; signal++) ::signal(signal, SIG_IGN);
  say_ready(pipes.ready.writer);
  ::dup2(pipes.life.reader.get(), STDIN_FILENO);
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  ::closefrom(STDERR_FILENO + 1);
  char nothing = 0;
  (void)!::read(STDIN_FILENO, &nothing, sizeof nothing);
  while (::kill(-1, 0) == 0) nap(kPace);
  ::_exit(0);
}

// Returns in the program only.
void make(Pipes& pipes, const OwnNumbers& numbers, Made& made) {
  if (enter_namespaces(numbers)) {
    const pid_t keeper = fork_sibling(made.keeper);
    if (keeper == 0) keep(pipes);
    pipes.ready.writer.reset();
    if (keeper > 0 && hears_ready(pipes.ready.reader) && fork_sibling(made.program) == 0) return;
  }
  ::_exit(0);
}

}  // namespace

pid_t IdSpace::fork() {
  // A program that does not see us in /proc is sent what it needs (send_fd.h): Linux 5.6.
  const bool can_send = ::syscall(SYS_pidfd_getfd, -1, 0, 0) != 0 && errno != ENOSYS;
  Pipes pipes;
  const SharedMade made;
  if (!can_send || !made || !pipes.open()) return ::fork();
  const OwnNumbers numbers;
  const pid_t maker = ::fork();
  if (maker == 0) make(pipes, numbers, *made);
  if (maker <= 0) return maker;
  pipes.ready.writer.reset();
  until_closed_ = std::move(pipes.life.writer);
  ::waitpid(maker, nullptr, 0);
  keeper_ = made->keeper;
  if (made->program > 0) return made->program;
  end();
  return ::fork();
}

bool IdSpace::is_permitted() {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  IdSpace space;
  const TrialChild child(space.fork());
  if (child.is_it()) ::_exit(0);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return space.is_own();
}

IdSpace::~IdSpace() {
  end();
}

void IdSpace::end() {
  constexpr std::chrono::microseconds kPace{500};
  constexpr int kLooks = 200;
  until_closed_.reset();
  for (int look = 0; keeper_ > 0 && look < kLooks; look++) {
    if (::waitpid(keeper_, nullptr, WNOHANG) != 0) keeper_ = 0;
    if (keeper_ > 0) nap(kPace);
  }
  keeper_ = 0;
}

}  // namespace shadowprof::ptrace
