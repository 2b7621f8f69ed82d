// SPDX-License-Identifier: MIT
//
// A run that samples does what its user says meanwhile (shadowprof ctl):
//
//   client                          run
//     connect ─────────────────────▶ SIGIO; accept; the client's user is ours?
//     "status\n" ──────────────────▶ SIGIO; one line of kLongestRequest_bytes at most
//     ◀──────────────── "ok\n" TEXT, or "error\n" and one sentence; end
//
//   who      process ids of the programs
//   status   what was sampled by now, one fact a line
//   dump     the profile so far is written soon; the answer is the number of that
//   dumped N is it written? "yes" or "no"
//   stop     sampling is over, as after --duration
//   set max-overhead=SHARE    from now on, SHARE above 0 and at most 1
//   set NAME=VALUE            as run_settings.h has it; the answer is what holds from now on
//
// serve() never waits. Who has connected is served alone, and is given up after kPatience_s, after
// a line that is too long, or with its first answer; others wait in the kernel's queue, which is
// short. So a client that says nothing, or rubbish, costs the run a few system calls and the
// program nothing.
//
// The socket is in a folder of the user's own (control_place.h), and goes with this object. Sockets
// of runs that were killed are removed by the next run of the same user.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/unique_fd.h"
#include "sample/run_settings.h"

namespace shadowprof::sample {

// What a run is asked, and does.
struct ControlledRun {
  std::function<std::string()> who;     // one line
  std::function<std::string()> status;  // lines
  std::function<Result<uint64_t>()> dump;        // its number
  std::function<Result<bool>(uint64_t)> dumped;  // that one is written
  std::function<void()> stop;
  std::function<void(double)> set_max_overhead;  // a share, above 0 and at most 1
  // Lines that say what holds from now on. An Error: nothing has changed.
  std::function<Result<std::string>(const RunSetting&)> set;
};

// What a run says of itself.
struct RunStatus {
  std::vector<Tid> pids;
  const char* mode = "";
  double sampled_s = 0;
  uint64_t samples = 0;
  uint64_t instructions = 0;
  double overhead_share = 0;
  double max_overhead_share = 0;
  std::string file;  // "": standard output
};
std::string status_text(const RunStatus& status);
std::string words_of(const std::vector<Tid>& pids);

// What a client that has sent this line gets.
std::string answer_to(std::string_view request, const ControlledRun& run);

class ControlSocket {
 public:
  static constexpr size_t kLongestRequest_bytes = 128;
  static constexpr double kPatience_s = 1;

  // For a worker and its front. An Error: there is no socket.
  static Result<ControlSocket> open(int front, int worker);
  ControlSocket(ControlSocket&& other) noexcept;
  ControlSocket& operator=(ControlSocket&&) = delete;
  ~ControlSocket();

  // Nobody finds it any more.
  void close();
  // Until it is closed. `now`: seconds by any clock that goes on.
  void serve(double now, const ControlledRun& run);

 private:
  ControlSocket(std::string path, UniqueFd listener)
      : path_(std::move(path)), listener_(std::move(listener)) {}
  void accept(double now);
  void take(double now, const ControlledRun& run);
  void give_up();

  std::string path_;  // "": another one has it
  UniqueFd listener_;
  UniqueFd client_;
  std::string request_;
  double given_up_s_ = 0;
};

}  // namespace shadowprof::sample
