// SPDX-License-Identifier: MIT
#include "cli/top_sampler.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/die_with_parent.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "sample/snapshots.h"

namespace shadowprof::cli {
namespace {

constexpr const char* kRowsOfLists = "1000";

// Standard input and, where they would be the view's terminal, output.
void redirect(const std::string& messages) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  if (::isatty(STDOUT_FILENO) == 1) ::dup2(nothing, STDOUT_FILENO);
  const int log = ::open(messages.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ::dup2(log >= 0 ? log : nothing, STDERR_FILENO);
}

int sample_for_view(const TopRequest& request, const std::string& folder) {
  redirect(folder + "/messages");
  set_progress(false);
  sample::Snapshots::ask_for(folder + "/snapshot.json", request.interval_s);
  const bool attaches = request.program.empty();
  std::vector<std::string> words = {
      attaches ? "attach" : "run", "--top", kRowsOfLists, "-o",
      request.output.empty() ? folder + "/last.json" : request.output};
  if (request.output.empty()) words.emplace_back("-q");  // or it would say where the profile is
  if (attaches) {
    words.push_back(request.pid);
  } else {
    words.emplace_back("--");
    words.insert(words.end(), request.program.begin(), request.program.end());
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int argc = static_cast<int>(words.size());
  return attaches ? attach_main(argc, argv.data()) : run_main(argc, argv.data());
}

}  // namespace

Result<TopSampler> TopSampler::start(const TopRequest& request) {
  const char* where = std::getenv("TMPDIR");
  std::string folder =
      std::string(where != nullptr && *where != '\0' ? where : "/tmp") + "/shadowprof-top-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return fail_errno(errno, "cannot make {}", folder);
  const pid_t view = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) return fail_errno(errno, "cannot start a process");
  if (process == 0) {
    if (!die_with_parent(view, SIGTERM)) ::_exit(0);
    ::setpgid(0, 0);
    ::_exit(sample_for_view(request, folder));
  }
  return TopSampler(folder, process, request.program.empty() ? SIGINT : SIGTERM);
}

TopSampler::TopSampler(TopSampler&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      process_(std::exchange(other.process_, -1)),
      signal_(other.signal_),
      status_(other.status_) {}

TopSampler::~TopSampler() {
  if (folder_.empty()) return;
  stop();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

bool TopSampler::is_over() {
  int raw = 0;
  if (!status_ && ::waitpid(process_, &raw, WNOHANG) == process_)
    status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  return status_.has_value();
}

void TopSampler::stop() {
  if (is_over()) return;
  ::kill(process_, signal_);
  int raw = 0;
  while (::waitpid(process_, &raw, 0) < 0 && errno == EINTR) {
  }
  status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

std::string TopSampler::messages() const {
  std::ifstream file(folder_ + "/messages");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace shadowprof::cli
