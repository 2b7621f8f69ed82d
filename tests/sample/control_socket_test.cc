// SPDX-License-Identifier: MIT
#include "sample/control_socket.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../temporary_folder.h"
#include "sample/control_place.h"

namespace shadowprof {
namespace {

using sample::ControlledRun;
using sample::ControlSocket;
namespace fs = std::filesystem;

// A runtime folder of the test's own; SIGIO is for whoever serves.
class Runtime {
 public:
  Runtime() {
    ::signal(SIGIO, SIG_IGN);
    ::setenv("XDG_RUNTIME_DIR", above_.path().c_str(), 1);
  }
  ~Runtime() { ::unsetenv("XDG_RUNTIME_DIR"); }
  std::string socket(int front, int worker) const {
    return folder() + "/" + sample::socket_name(front, worker);
  }
  std::string folder() const { return above_ / "shadowprof"; }

 private:
  test::TemporaryFolder above_;
};

struct Heard {
  int stops = 0;
  int dumps = 0;
  double share = 0;
  std::vector<std::string> set;
  ControlledRun run() {
    return {.who = [] { return std::string("12 13"); },
            .status = [] { return std::string("samples: 7\n"); },
            .dump = [this]() -> Result<uint64_t> { return static_cast<uint64_t>(++dumps); },
            .dumped = [](uint64_t number) -> Result<bool> {
              if (number == 7) return fail("the disk is full");
              return number < 7;
            },
            .stop = [this] { stops++; },
            .set_max_overhead = [this](double s) { share = s; },
            .set = [this](const sample::RunSetting& setting) -> Result<std::string> {
              if (setting.name == "latency") return fail("this run collects no latencies");
              set.push_back(setting.name + "=" + setting.value);
              return setting.name + ": " + setting.value + "\n";
            }};
  }
};

// A run with a socket, in a runtime folder of its own. `heard` is what it was told by it.
class Served {
 public:
  Served() { REQUIRE(server_); }
  UniqueFd connect() const {
    auto client = sample::connect_to(runtime_.socket(1, 2));
    REQUIRE(client);
    return std::move(*client);
  }
  void serve(double now) { server_->serve(now, heard.run()); }
  Heard heard;

 private:
  Runtime runtime_;
  Result<ControlSocket> server_ = ControlSocket::open(1, 2);
};

void say(const UniqueFd& client, std::string_view text) {
  REQUIRE(::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
}

// What has come by now; "closed" at the end without anything.
std::string heard_by(const UniqueFd& client) {
  char text[4096];
  const ssize_t n = ::recv(client.get(), text, sizeof text, MSG_DONTWAIT);
  if (n < 0) return "nothing";
  return n == 0 ? "closed" : std::string(text, static_cast<size_t>(n));
}

TEST_CASE("each request has its answer, and what is none is refused") {
  Heard heard;
  const ControlledRun run = heard.run();
  CHECK(sample::answer_to("who", run) == "ok\n12 13\n");
  CHECK(sample::answer_to("status", run) == "ok\nsamples: 7\n");
  CHECK(sample::answer_to("dump", run) == "ok\n1\n");
  CHECK(sample::answer_to("dumped 6", run) == "ok\nyes\n");
  CHECK(sample::answer_to("dumped 7", run) == "error\nthe disk is full\n");
  CHECK(sample::answer_to("dumped 8", run) == "ok\nno\n");
  CHECK(sample::answer_to("set max-overhead=0.02", run) == "ok\n");
  CHECK(heard.share == 0.02);
  for (const char* wrong :
       {"", "stop ", "status\r", "set", "set max-overhead=", "set max-overhead=0",
        "set max-overhead=nan", "set max-overhead=inf", "set max-overhead=-1", "dumped", "dumped ",
        "dumped -1", "dumped 1x", "set max-overhead=1.5", "set max-overhead=0.5x",
        "set max-overhead=1e-400", "set x=1"})
    CHECK(sample::answer_to(wrong, run).starts_with("error\n"));
  CHECK(heard.share == 0.02);
  CHECK(heard.stops == 0);
  CHECK(sample::answer_to("stop", run) == "ok\n");
  CHECK(heard.stops == 1);
}

TEST_CASE("what is set is answered with what holds, and what is refused changes nothing") {
  Heard heard;
  const ControlledRun run = heard.run();
  CHECK(sample::answer_to("set values=1/16", run) == "ok\nvalues: 1/16\n");
  CHECK(sample::answer_to("set freq=10", run) == "ok\nfreq: 10\n");
  CHECK(sample::answer_to("set latency=all", run) == "error\nthis run collects no latencies\n");
  for (const char* wrong : {"set values=1/0", "set values=some", "set values", "set freq=0",
                            "set sample-size=1", "set  values=all", "set calls=1/100"}) {
    const std::string answer = sample::answer_to(wrong, run);
    CHECK(answer.starts_with("error\n"));
    CHECK(std::count(answer.begin(), answer.end(), '\n') == 2);
  }
  CHECK(heard.set == std::vector<std::string>{"values=1/16", "freq=10"});
}

TEST_CASE("a request that comes in parts is answered when it is whole") {
  Served run;
  const UniqueFd client = run.connect();
  say(client, "du");
  run.serve(0);
  CHECK(heard_by(client) == "nothing");
  say(client, "mp\n");
  run.serve(0.5);
  CHECK(heard_by(client) == "ok\n1\n");
  CHECK(heard_by(client) == "closed");
  CHECK(run.heard.dumps == 1);
}

TEST_CASE("who says nothing, or too much, is given up, and the next one is served") {
  Served run;
  const UniqueFd silent = run.connect();
  const UniqueFd loud = run.connect();
  const UniqueFd gone = run.connect();
  const UniqueFd last = run.connect();
  say(loud, std::string(10 * ControlSocket::kLongestRequest_bytes, 'x'));
  ::shutdown(gone.get(), SHUT_RDWR);
  say(last, "stop\n");
  run.serve(0);
  CHECK(heard_by(silent) == "nothing");
  run.serve(0.9);
  CHECK(heard_by(silent) == "nothing");
  for (int i = 0; i < 8; i++) run.serve(1.1);
  CHECK(heard_by(silent) == "closed");
  CHECK(heard_by(loud) != "ok\n");
  CHECK(heard_by(last) == "ok\n");
  CHECK(run.heard.stops == 1);
}

TEST_CASE("a line that never ends is no request") {
  Served run;
  const UniqueFd client = run.connect();
  for (double now = 0; now < 2; now += 0.1) {
    (void)::send(client.get(), "x", 1, MSG_NOSIGNAL);
    run.serve(now);
  }
  CHECK(heard_by(client) == "closed");
}

TEST_CASE("the folder is the user's alone, and the socket goes with its run") {
  const Runtime runtime;
  {
    auto server = ControlSocket::open(1, 2);
    REQUIRE(server);
    struct stat info {};
    REQUIRE(::stat(runtime.folder().c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0700);
    CHECK(fs::exists(runtime.socket(1, 2)));
    CHECK(sample::control_places().size() >= 1);
  }
  CHECK(fs::is_empty(runtime.folder()));
}

TEST_CASE("what a killed run has left is removed, and what a living one has is not") {
  const Runtime runtime;
  auto living = ControlSocket::open(1, 2);
  REQUIRE(living);
  {
    for (int number : {3, 5}) {
      const UniqueFd other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const auto address = sample::socket_address(runtime.socket(number, 4));
      REQUIRE(::bind(other.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) ==
              0);
    }
  }
  auto next = ControlSocket::open(5, 4);
  REQUIRE(next);
  CHECK_FALSE(fs::exists(runtime.socket(3, 4)));
  CHECK(fs::exists(runtime.socket(1, 2)));
  CHECK(sample::connect_to(runtime.socket(5, 4)));
}

TEST_CASE("a folder that others may enter is not used") {
  const Runtime runtime;
  fs::create_directory(runtime.folder());
  fs::permissions(runtime.folder(), fs::perms::all);
  const auto folder = sample::own_control_folder();
  if (folder) CHECK(*folder != runtime.folder());
}

}  // namespace
}  // namespace shadowprof
