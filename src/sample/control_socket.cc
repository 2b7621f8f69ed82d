// SPDX-License-Identifier: MIT
#include "sample/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "sample/control_place.h"

namespace shadowprof::sample {
namespace {

constexpr int kQueued = 4;
constexpr std::string_view kSet = "set ";
constexpr std::string_view kDumped = "dumped ";
constexpr std::string_view kMaxOverheadIs = "max-overhead=";

// Whenever something comes, SIGIO is sent to this thread, which awaits it (host.h).
bool tell_us(int fd) {
  const f_owner_ex us{F_OWNER_TID, ::gettid()};
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETOWN_EX, &us) == 0 &&
         ::fcntl(fd, F_SETFL, flags | O_ASYNC | O_NONBLOCK) == 0;
}

bool is_of_our_user(int client) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::geteuid();
}

// Left by runs that were killed.
void remove_stale() {
  for (const ControlPlace& place : control_places()) {
    const auto client = connect_to(place.path);
    if (!client && client.error().errno_value == ECONNREFUSED) ::unlink(place.path.c_str());
  }
}

std::string refusal(std::string_view why) {
  return "error\n" + std::string(why) + "\n";
}

std::string has_dumped(std::string_view text, const ControlledRun& run) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || at != end) return refusal("dumps have numbers");
  const auto done = run.dumped(number);
  if (!done) return refusal(done.error().message);
  return *done ? "ok\nyes\n" : "ok\nno\n";
}

std::string set_max_overhead(std::string_view text, const ControlledRun& run) {
  double share = 0;
  const char* end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, share);
  if (problem != std::errc() || at != end || !std::isfinite(share) || share <= 0 || share > 1)
    return refusal("max-overhead is above 0% and at most 100%");
  run.set_max_overhead(share);
  return "ok\n";
}

std::string set(std::string_view text, const ControlledRun& run) {
  if (text.starts_with(kMaxOverheadIs))
    return set_max_overhead(text.substr(kMaxOverheadIs.size()), run);
  const auto setting = parse_setting(text);
  if (!setting) return refusal(setting.error().message);
  const auto holds = run.set(*setting);
  return holds ? "ok\n" + *holds : refusal(holds.error().message);
}

}  // namespace

std::string words_of(const std::vector<Tid>& pids) {
  std::string words;
  for (Tid pid : pids) words += (words.empty() ? "" : " ") + std::to_string(pid.value);
  return words;
}

std::string status_text(const RunStatus& status) {
  return fmt::format(
      "processes: {}\nmode: {}\nseconds: {:.2f}\nsamples: {}\ninstructions: {}\n"
      "overhead: {:.2f} %\nmax-overhead: {:.2f} %\nfile: {}\n",
      words_of(status.pids), status.mode, status.sampled_s, status.samples, status.instructions,
      100 * status.overhead_share, 100 * status.max_overhead_share,
      status.file.empty() ? "standard output" : printable(status.file));
}

std::string answer_to(std::string_view request, const ControlledRun& run) {
  if (request == "who") return "ok\n" + run.who() + "\n";
  if (request == "status") return "ok\n" + run.status();
  if (request == "stop") {
    run.stop();
    return "ok\n";
  }
  if (request == "dump") {
    const auto wanted = run.dump();
    return wanted ? fmt::format("ok\n{}\n", *wanted) : refusal(wanted.error().message);
  }
  if (request.starts_with(kDumped)) return has_dumped(request.substr(kDumped.size()), run);
  if (request.starts_with(kSet)) return set(request.substr(kSet.size()), run);
  return refusal("there is no such request");
}

// Bound under another name: who finds a socket by its name finds somebody who listens.
Result<ControlSocket> ControlSocket::open(int front, int worker) {
  SP_ASSIGN(const std::string folder, own_control_folder());
  remove_stale();
  std::string path = folder + "/" + socket_name(front, worker);
  const std::string unready = path + ".new";
  const auto address = socket_address(unready);
  if (!address) return fail("the path of a socket, {}, is too long", unready);
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ::unlink(unready.c_str());
  if (!listener.valid() ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return fail_errno(errno, "cannot make the socket {}", path);
  if (::listen(listener.get(), kQueued) != 0 || !tell_us(listener.get()) ||
      ::rename(unready.c_str(), path.c_str()) != 0) {
    const int why = errno;
    ::unlink(unready.c_str());
    return fail_errno(why, "cannot make the socket {}", path);
  }
  return ControlSocket(std::move(path), std::move(listener));
}

ControlSocket::ControlSocket(ControlSocket&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      listener_(std::move(other.listener_)),
      client_(std::move(other.client_)),
      request_(std::move(other.request_)),
      given_up_s_(other.given_up_s_) {}

ControlSocket::~ControlSocket() {
  close();
}

void ControlSocket::close() {
  if (client_.valid()) give_up();
  listener_ = UniqueFd();
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

void ControlSocket::serve(double now, const ControlledRun& run) {
  if (!listener_.valid()) return;
  if (!client_.valid()) accept(now);
  if (client_.valid()) take(now, run);
}

void ControlSocket::accept(double now) {
  client_ = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client_.valid()) return;
  request_.clear();
  given_up_s_ = now + kPatience_s;
  if (!is_of_our_user(client_.get()) || !tell_us(client_.get())) give_up();
}

void ControlSocket::take(double now, const ControlledRun& run) {
  std::array<char, kLongestRequest_bytes> text;
  const ssize_t n = ::recv(client_.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR) && now < given_up_s_) return;
  if (n <= 0) return give_up();
  request_.append(text.data(), static_cast<size_t>(n));
  const size_t line = request_.find('\n');
  if (line == std::string::npos) {
    if (request_.size() > kLongestRequest_bytes || now >= given_up_s_) give_up();
    return;
  }
  const std::string answer = answer_to(std::string_view(request_).substr(0, line), run);
  (void)::send(client_.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  give_up();
}

// Copies of this process have the client, too, so closing it would not end it.
void ControlSocket::give_up() {
  ::shutdown(client_.get(), SHUT_RDWR);
  client_ = UniqueFd();
}

}  // namespace shadowprof::sample
