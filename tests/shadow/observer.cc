// SPDX-License-Identifier: MIT
//
// A program that watches itself for traces of a profiler, while it does everything that a replica
// could disturb: pipes, files with shared offsets, shared memory, locks, timers, signals, children.
//
//   observer SECONDS [burst]
//
// 0 seconds: until its standard input ends. In burst mode the engine's own mappings are allowed to
// come. Prints one line for each thing that is not as it should be, and "clean" if there is none.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>

namespace {

std::atomic<bool> stop{false};
std::atomic<int> child_signals{0};
std::atomic<int> other_signals{0};
std::atomic<int> alarms{0};
std::map<std::string, int> complaints;

void complain(const std::string& what) {
  complaints[what]++;
}

void on_signal(int signal) {
  if (signal == SIGCHLD)
    child_signals++;
  else if (signal == SIGALRM)
    alarms++;
  else
    other_signals++;
}

std::set<std::string> names_in(const char* directory) {
  std::set<std::string> names;
  DIR* d = ::opendir(directory);
  while (const dirent* e = ::readdir(d)) names.insert(e->d_name);
  ::closedir(d);
  return names;
}

bool burst_mode = false;

// Addresses of everything mapped, but for what grows by itself.
std::set<std::string> mappings() {
  std::set<std::string> lines;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (burst_mode && line.find("/memfd:shadowprof-") != line.npos) continue;
    if (line.find("[heap]") == line.npos && line.find("[stack]") == line.npos) {
      lines.insert(line.substr(0, line.find(' ')) + line.substr(line.find(' '), 5));
    }
  }
  return lines;
}

std::string status_line(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key, 0) == 0) return line;
  }
  return {};
}

// A thread that has ended counts until its tracer has heard of it, which takes time on a busy host.
std::string running_threads() {
  constexpr const char* kAll = "Threads:\t5";
  for (int i = 0; i < 1000 && status_line("Threads") != kAll; i++) ::usleep(1000);
  return status_line("Threads");
}

// Always runs, so that there is always something to sample.
uint64_t compute() {
  uint64_t x = 1;
  while (!stop) {
    for (int i = 0; i < 100000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
  }
  return x;
}

// Numbers go through a pipe in their order, each once.
// Signals that the program does not care for end no sleep. (So seldom, because a tracer cannot keep
// that promise when they come thickly: ptrace/interruption.h.)
void send_ignored_signals(pid_t to) {
  for (int i = 0; !stop; i++) {
    ::syscall(SYS_tgkill, ::getpid(), to, i % 2 == 0 ? SIGWINCH : SIGURG);
    ::usleep(150000);
  }
}

void write_numbers(int to) {
  for (uint64_t n = 0; !stop; n++) {
    if (::write(to, &n, sizeof n) != sizeof n) complain("a write to a pipe failed");
    if (n % 64 == 0) ::usleep(200);
  }
  ::close(to);
}

void read_numbers(int from) {
  uint64_t expected = 0;
  for (uint64_t n; ::read(from, &n, sizeof n) == sizeof n; expected++) {
    if (n != expected) complain("a pipe lost or repeated data");
  }
}

// Whoever looks at our descriptors in /proc holds a file for some microseconds
// (docs/shadow-mode.md): what is not so at once must be so soon, long before a replica would have
// let go.
template <typename Condition>
bool soon(Condition is_so) {
  if (is_so()) return true;
  ::usleep(300);
  return is_so();
}

// The end of the stream must come when the writer closes, and a closed socket must leave an epoll
// set at once.
void check_closing() {
  int ends[2];
  if (::pipe(ends) != 0) return;
  ::close(ends[1]);
  pollfd p{ends[0], POLLIN, 0};
  if (!soon([&] { return ::poll(&p, 1, 0) == 1 && (p.revents & POLLHUP); })) {
    complain("a closed pipe is still open");
  }
  ::close(ends[0]);
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return;
  const int set = ::epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  ::epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event);
  if (::write(pair[1], "x", 1) != 1) complain("a write to a socket failed");
  ::close(pair[0]);
  if (!soon([&] { return ::epoll_wait(set, &event, 1, 0) == 0; })) {
    complain("a closed socket is still in its epoll set");
  }
  ::close(pair[1]);
  ::close(set);
}

void check_locks(const char* path) {
  const int first = ::open(path, O_RDWR | O_CLOEXEC);
  ::flock(first, LOCK_EX);
  ::close(first);
  const int second = ::open(path, O_RDWR | O_CLOEXEC);
  if (!soon([&] { return ::flock(second, LOCK_EX | LOCK_NB) == 0; })) {
    complain("a lock outlived its file");
  }
  ::close(second);
}

void check_waits(int readable) {
  timespec pause{0, 200000};
  if (::nanosleep(&pause, nullptr) != 0)
    complain("nanosleep: " + std::string(std::strerror(errno)));
  pollfd p{readable, POLLIN, 0};
  if (::poll(&p, 1, 1) < 0) complain("poll: " + std::string(std::strerror(errno)));
  const int set = ::epoll_create1(0);
  epoll_event event{};
  if (::epoll_wait(set, &event, 1, 1) < 0)
    complain("epoll_wait: " + std::string(std::strerror(errno)));
  ::close(set);
  siginfo_t info;
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  if (::sigtimedwait(&usr2, &info, &pause) >= 0 || errno != EAGAIN) complain("sigtimedwait");
}

void check_children() {
  int status = 0;
  if (::waitpid(-1, &status, WNOHANG) != -1 || errno != ECHILD) complain("it has a child");
  if (child_signals != 0) complain("SIGCHLD");
  if (other_signals != 0) complain("a signal");
}

bool input_has_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) == 1 && (input.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  burst_mode = argc > 2 && std::strcmp(argv[2], "burst") == 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGCHLD, SIGUSR1, SIGTRAP, SIGSEGV}) ::sigaction(signal, &action, nullptr);
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &usr2, nullptr);

  int numbers[2], quiet[2];
  if (::pipe(numbers) != 0 || ::pipe(quiet) != 0) return 2;
  char path[] = "observer.XXXXXX";
  const int log = ::mkstemp(path);
  auto* shared = static_cast<std::atomic<uint64_t>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));

  std::thread worker([] { compute(); });
  std::thread writer([&] { write_numbers(numbers[1]); });
  std::thread reader([&] { read_numbers(numbers[0]); });
  std::thread signaller([to = ::gettid()] { send_ignored_signals(to); });
  ::usleep(20000);
  {
    std::thread(std::thread([] {})).join();  // stacks that the library keeps
    ::usleep(20000);
  }
  (void)mappings();
  const auto fds_before = names_in("/proc/self/fd");
  const auto maps_before = mappings();
  const std::string caught = status_line("SigCgt"), blocked = status_line("SigBlk");
  const std::string threads = running_threads();

  uint64_t rounds = 0;
  const auto deadline = ::time(nullptr) + static_cast<time_t>(seconds + 1);
  const auto goes_on = [&] {
    return seconds > 0 ? ::time(nullptr) < deadline : !input_has_ended();
  };
  for (; goes_on(); rounds++) {
    shared->store(shared->load() + 1);  // not atomic together: a second writer would be seen
    if (::write(log, "0123456789abcde\n", 16) != 16) complain("a write to a file failed");
    check_closing();
    check_locks(path);
    check_waits(quiet[0]);
    check_children();
    if (names_in("/proc/self/fd").size() != fds_before.size()) complain("descriptors");
    if (rounds % 16 == 0 && mappings() != maps_before) complain("mappings");
  }
  struct stat status;
  ::fstat(log, &status);
  if (static_cast<uint64_t>(status.st_size) != 16 * rounds) complain("a file was written twice");
  if (static_cast<uint64_t>(::lseek(log, 0, SEEK_CUR)) != 16 * rounds)
    complain("a file's offset moved");
  if (shared->load() != rounds) complain("shared memory was written twice");
  if (status_line("SigCgt") != caught || status_line("SigBlk") != blocked) complain("signal state");
  if (status_line("Threads") != threads) complain("threads");
  stop = true;
  worker.join();
  writer.join();
  reader.join();
  signaller.join();
  ::unlink(path);
  for (const auto& [what, times] : complaints) std::printf("%s: %d times\n", what.c_str(), times);
  if (complaints.empty()) std::printf("clean\n");
  std::fprintf(stderr, "%llu rounds\n", static_cast<unsigned long long>(rounds));
  return complaints.empty() ? 0 : 1;
}
