// SPDX-License-Identifier: MIT
//
// `shadowprof top`: what is hot in a program while it runs. One process samples (top_sampler.h),
// this one shows (top_view.h).
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/process_names.h"
#include "cli/top_sampler.h"
#include "cli/top_view.h"
#include "profile/file/json_file.h"
#include "report/columns.h"

namespace shadowprof::cli {
namespace {

constexpr double kShortestInterval_s = 0.5;
constexpr double kLongestInterval_s = 60;

Status take_program(std::vector<std::string> words, TopRequest& request) {
  if (!words.empty() && words[0] == "--") {
    words.erase(words.begin());
    if (words.empty()) return fail("no program given");
    request.program = std::move(words);
    return {};
  }
  if (words.empty()) return fail("no process given");
  if (words[0].starts_with('-') && words[0].size() > 1)
    return fail("there is no option {}", report::printable(words[0]));
  if (words.size() > 1) return fail("'{}' is one word too many", report::printable(words[1]));
  request.pid = words[0];
  if (!is_process_name(words[0])) return {};
  const auto pid = process_called(words[0]);
  if (!pid) return fail("{}; a program stands behind --", pid.error().message);
  request.pid = std::to_string(*pid);
  return {};
}

// A snapshot is a new file each time.
class Newest {
 public:
  explicit Newest(std::string file) : file_(std::move(file)) {}
  bool has_changed() {
    struct stat info {};
    if (::stat(file_.c_str(), &info) != 0 || info.st_ino == inode_) return false;
    inode_ = info.st_ino;
    return true;
  }

 private:
  std::string file_;
  ino_t inode_ = 0;
};

// What has been seen so far; the sampling goes on.
void save(TopView& view, const std::string& file) {
  if (!view.profile()) return;
  Status done = profile::check_output(file);
  if (done) done = profile::write_profile(*view.profile(), file);
  view.say(done ? "what was seen so far is in " + report::printable(file) : done.error().message);
}

// Until the user leaves. A program that has ended can still be looked at, if anything was seen;
// false: nothing was.
bool watch(TopSampler& sampler, TopView& view, const std::string& output) {
  Newest snapshot(sampler.snapshot());
  bool has_profile = false;
  bool is_over = false;
  do {
    if (snapshot.has_changed()) {
      if (auto profile = profile::read_profile(sampler.snapshot())) {
        view.show(std::move(*profile));
        has_profile = true;
      }
    }
    if (!is_over && sampler.is_over()) {
      is_over = true;
      view.say("the program has ended, or is no longer sampled; this is the last that was seen");
      if (!has_profile) return false;
    }
    if (view.take_save()) save(view, output);
    view.draw();
  } while (view.serve_key());
  view.say("leaving");
  view.draw();
  return has_profile;
}

int top(const TopRequest& request) {
  std::string title = request.pid.empty() ? "" : "process " + request.pid;
  for (const std::string& word : request.program) title += (title.empty() ? "" : " ") + word;
  TopView view(report::printable(title));
  if (const Status opened = view.open(); !opened) {
    error("{}", opened.error().message);
    return kExitOwnFailure;
  }
  auto sampler = TopSampler::start(request);
  if (!sampler) {
    view.close();
    error("{}", sampler.error().message);
    return kExitOwnFailure;
  }
  const bool has_seen =
      watch(*sampler, view, request.output.empty() ? kDefaultProfile : request.output);
  sampler->stop();
  view.close();
  const std::string messages = sampler->messages();
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, messages.data(), messages.size());
  // What a program was started for is not its end; what could not be sampled, or written, is.
  if (request.program.empty() || !has_seen) return sampler->status();
  const bool is_unwritten = !request.output.empty() && sampler->status() == kExitOwnFailure;
  return is_unwritten ? kExitOwnFailure : kExitOk;
}

}  // namespace

int top_main(int argc, char** argv) {
  CLI::App app("Shows what is hot in a program while it runs.", "shadowprof top");
  TopRequest request;
  app.add_option("--interval", request.interval_s, "seconds from one picture to the next")
      ->type_name("S")
      ->check(CLI::Range(kShortestInterval_s, kLongestInterval_s))
      ->capture_default_str();
  app.add_option("-o,--output", request.output, "write the profile to FILE when top is left")
      ->type_name("FILE");
  app.footer("Keys: 1-6 Tab list, Enter a function's code, / filter, s sort, w save, q leave.");
  app.prefix_command();
  const Usage usage = {"PID | NAME | -- PROGRAM [ARG...]",
                       {"shadowprof top 1234", "shadowprof top -o app.json -- ./app input"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (const Status sound = take_program(app.remaining(), request); !sound) {
    error("{} (see shadowprof top --help)", sound.error().message);
    return kExitOwnFailure;
  }
  if (!request.output.empty()) {
    if (const Status output = profile::check_output(request.output); !output) {
      error("{}", output.error().message);
      return kExitOwnFailure;
    }
  }
  return top(request);
}

}  // namespace shadowprof::cli
