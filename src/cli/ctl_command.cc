// SPDX-License-Identifier: MIT
//
// `shadowprof ctl`: what a run that samples is told meanwhile, over its socket
// (sample/control_socket.h).
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <sstream>
#include <thread>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/printable.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/quantity.h"
#include "sample/control_place.h"
#include "sample/run_settings.h"

namespace shadowprof::cli {
namespace {

constexpr double kControlPatience_s = 5;
constexpr double kDumpPatience_s = 120;
constexpr double kPause_s = 0.05;  // before another try
constexpr size_t kLongestAnswer_bytes = size_t{1} << 16;
constexpr std::string_view kMaxOverhead = "max-overhead=";

struct CtlOptions {
  std::string pid;
  std::vector<std::string> words;
};

constexpr std::string_view kSampleSize = "sample-size=";

constexpr const char* kSettings =
    "what can be set is max-overhead=PCT, freq=HZ, sample-size=N, values=CONDITION and "
    "latency=CONDITION";

bool is_setting(std::string_view text) {
  for (const std::string_view name : {"freq=", "sample-size=", "values=", "latency="})
    if (text.starts_with(name)) return true;
  return false;
}

// Numbers as people type them are spelled out.
Result<std::string> setting_request(std::string text) {
  if (!is_setting(text)) return fail("'{}' is no setting: {}", printable(text), kSettings);
  if (text.starts_with(kSampleSize) && text != "sample-size=auto") {
    SP_ASSIGN(const uint64_t size, parse_count(text.substr(kSampleSize.size())));
    text = fmt::format("{}{}", kSampleSize, size);
  }
  SP_TRY(sample::parse_setting(text));
  return "set " + text;
}

// The line that is sent.
Result<std::string> request_of(const std::vector<std::string>& words) {
  if (words.empty()) return fail("no request given: status, dump, stop or set");
  const std::string& what = words[0];
  const bool sets = what == "set";
  if (!sets && what != "status" && what != "dump" && what != "stop")
    return fail("there is no request '{}': there are status, dump, stop, set", printable(what));
  if (words.size() > (sets ? 2u : 1u))
    return fail("'{}' is one word too many", printable(words.back()));
  if (!sets) return what;
  if (words.size() < 2) return fail("{}", kSettings);
  if (!words[1].starts_with(kMaxOverhead)) return setting_request(words[1]);
  SP_ASSIGN(const double share, parse_percent(words[1].substr(kMaxOverhead.size())));
  if (share <= 0 || share > 1) return fail("max-overhead is above 0% and at most 100%");
  return fmt::format("set max-overhead={}", share);
}

// All that comes until the other side ends.
Result<std::string> read_answer(int fd) {
  const auto begun = std::chrono::steady_clock::now();
  std::string text;
  std::array<char, 4096> part;
  while (text.size() < kLongestAnswer_bytes) {
    const double left_s = kControlPatience_s - seconds_since(begun);
    pollfd wanted{fd, POLLIN, 0};
    if (left_s <= 0 || ::poll(&wanted, 1, static_cast<int>(1e3 * left_s) + 1) == 0)
      return fail("the run does not answer");
    const ssize_t n = ::recv(fd, part.data(), part.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) break;
    text.append(part.data(), static_cast<size_t>(n));
  }
  return text;
}

// Waits its turn where others are being served.
Result<UniqueFd> connect_in_turn(const std::string& path) {
  const auto begun = std::chrono::steady_clock::now();
  for (;;) {
    auto fd = sample::connect_to(path);
    if (fd || fd.error().errno_value != EAGAIN) return fd;
    if (seconds_since(begun) > kControlPatience_s) return fail("the run does not answer");
    std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s));
  }
}

// Without the line that says that it is one.
Result<std::string> ask(const std::string& path, const std::string& request) {
  SP_ASSIGN(const UniqueFd fd, connect_in_turn(path));
  const std::string line = request + "\n";
  if (::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    return fail_errno(errno, "cannot write to {}", path);
  SP_ASSIGN(const std::string answer, read_answer(fd.get()));
  const size_t end = std::min(answer.find('\n'), answer.size());
  const std::string rest = answer.substr(std::min(end + 1, answer.size()));
  if (answer.substr(0, end) == "ok") return rest;
  if (answer.substr(0, end) != "error") return fail("the run has ended, or gave no answer");
  return fail("{}", printable(rest.substr(0, rest.find('\n'))));
}

// Until the file is there that a run was asked for, which has answered with its number.
Status await_dump(const std::string& path, const std::string& answer) {
  const std::string request = "dumped " + answer.substr(0, answer.find('\n'));
  const auto begun = std::chrono::steady_clock::now();
  while (seconds_since(begun) < kDumpPatience_s) {
    const auto done = ask(path, request);
    if (!done && !sample::connect_to(path)) {
      return fail("sampling has ended before the file was written: the run writes it at its end");
    }
    SP_TRY(done);
    if (*done == "yes\n") return {};
    std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s));
  }
  return fail("the file was not written within {:.0f} s", kDumpPatience_s);
}

bool profiles(const sample::ControlPlace& place, int pid) {
  const auto who = ask(place.path, "who");
  std::istringstream words(who.value_or(""));
  for (int profiled = 0; words >> profiled;)
    if (profiled == pid) return true;
  return false;
}

// The run of that process, or that is that process.
Result<std::string> socket_of(int pid) {
  const std::vector<sample::ControlPlace> places = sample::control_places();
  for (const sample::ControlPlace& place : places)
    if (place.front == pid || place.worker == pid) return place.path;
  for (const sample::ControlPlace& place : places)
    if (profiles(place, pid)) return place.path;
  return fail(
      "no run of yours that samples is process {}, or profiles it (run and attach, but for --mode "
      "full)",
      pid);
}

Status control(const CtlOptions& options) {
  int pid = 0;
  const char* end = options.pid.data() + options.pid.size();
  const auto [at, problem] = std::from_chars(options.pid.data(), end, pid);
  if (problem != std::errc() || at != end || pid < 1)
    return fail("'{}' is not a process id", printable(options.pid));
  SP_ASSIGN(const std::string request, request_of(options.words));
  SP_ASSIGN(const std::string path, socket_of(pid));
  SP_ASSIGN(const std::string answer, ask(path, request));
  return request == "dump" ? await_dump(path, answer) : print(answer);
}

}  // namespace

int ctl_main(int argc, char** argv) {
  CLI::App app("Asks or tells a run that samples, without stopping it.", "shadowprof ctl");
  CtlOptions options;
  app.add_option("PID", options.pid, "of the profiled program, or of shadowprof")->required();
  app.add_option("REQUEST", options.words,
                 "status: what it has by now; dump: write the profile so far; stop: end sampling; "
                 "set NAME=VALUE: max-overhead=PCT, freq=HZ, sample-size=N, values=1/N, "
                 "latency=1/N")
      ->required()
      ->expected(1, 2);
  const Usage usage = {"PID REQUEST",
                       {"shadowprof ctl 1234 status", "shadowprof ctl 1234 set max-overhead=2%"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (const Status done = control(options); !done) {
    error("{}", done.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
