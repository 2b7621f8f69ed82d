// SPDX-License-Identifier: MIT
//
// `shadowprof run`: starts a program and profiles it.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/run_options.h"
#include "cli/version.h"
#include "kernel/elf_kind.h"
#include "profile/json_file.h"
#include "report/text_report.h"
#include "sample/full_mode.h"
#include "sample/host.h"

namespace shadowprof::cli {
namespace {

constexpr size_t kSummaryRows = 5;

// What execve(2) says about a program that it will not execute. Everything else that fails before
// the program runs is our own failure.
int exit_status_for(const Error& e) {
  switch (e.errno_value) {
    case ENOENT:
    case ENOTDIR:
      return kExitNotFound;
    case EACCES:
    case EINVAL:
    case EISDIR:
    case ELIBBAD:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOEXEC:
    case ETXTBSY:
      return kExitNotExecutable;
    default:
      return kExitOwnFailure;
  }
}

// Looked at before anything is started: the kernel would only say that it cannot.
Result<std::string> find_and_inspect(const std::string& name) {
  SP_ASSIGN(std::string path, kernel::find_program(name));
  SP_TRY(kernel::inspect_program(path));
  return path;
}

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** e = environ; *e; e++) all.emplace_back(*e);
  return all;
}

// As the program ended: with its status, or by the same signal (without a second core file).
[[noreturn]] void end_like(const profile::Exit& end) {
  if (end.signalled) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(end.value, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, end.value);
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    ::raise(end.value);
    ::_exit(128 + end.value);
  }
  ::_exit(end.value);
}

// With -v the hottest rows follow the one line that we always say.
void say_result(const RunOptions& options, const profile::Profile& profile) {
  const profile::Overhead& cost = profile.overhead;
  const std::string where = options.output == "-" ? "standard output" : options.output;
  info("{} instructions in {} functions profiled, {:.2f} s of program, {:.2f} s of our own: {}",
       profile.coverage.instructions_profiled, profile.functions.size(), cost.program_cpu_s,
       cost.engine_cpu_s + cost.collector_cpu_s, where);
  if (!options.verbose) return;
  report::TextOptions text;
  text.columns = report::terminal_columns(STDERR_FILENO);
  text.limit = kSummaryRows;
  text.color = report::use_color("auto", STDERR_FILENO);
  const std::string summary = report::render_text(profile, text);
  // Standard error may be closed or full; that is no reason to fail.
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, summary.data(), summary.size());
}

sample::FullModeRequest request_for(const RunOptions& options, std::string path) {
  sample::FullModeRequest request;
  request.signals = ptrace::InheritedSignals::capture();
  request.path = std::move(path);
  request.argv = options.command;
  request.environment = environment();
  request.follow = options.follow;
  request.deterministic = options.deterministic;
  request.exact_inclusive = options.exact_inclusive;
  request.edges = options.wants("edge");
  request.calls = options.wants("call") || options.wants("method");
  request.paths = options.wants("path");
  if (options.path_scope == "intra") request.path_scope = collect::PathScope::intra;
  request.latencies = options.wants("latency");
  request.values = options.wants("value");
  if (options.hotlist == "tnv") {
    request.value_options.hotlist = profile::HotlistKind::tnv;
    request.value_options.capacity = profile::ValueHotlist::kTnvCapacity;
  }
  request.value_options.by_call_site = options.value_context == "call";
  request.value_options.condition = *parse_condition(options.value_condition);
  request.seed = request.value_options.seed = options.seed;
  request.top = options.top;
  request.options = options.recorded();
  return request;
}

}  // namespace

int run_main(int argc, char** argv) {
  RunOptions options;
  if (const auto status = parse_run_options(argc, argv, options)) return *status;
  if (options.quiet) set_verbosity(Verbosity::quiet);
  if (options.verbose) set_verbosity(Verbosity::verbose);

  auto path = find_and_inspect(options.command[0]);
  if (!path) {
    error("{}", path.error().message);
    const int status = exit_status_for(path.error());
    return status == kExitOwnFailure ? kExitNotExecutable : status;
  }
  if (const Status output = profile::check_output(options.output); !output) {
    error("{}", output.error().message);
    return kExitOwnFailure;
  }
  const sample::FullModeRequest request = request_for(options, std::move(*path));
  sample::prepare_signals();
  auto result = sample::run_full_mode(request);
  if (!result) {
    error("{}", result.error().message);
    return exit_status_for(result.error());
  }
  for (const std::string& warning : result->warnings) info("{}", warning);
  if (!result->internal_error.empty())
    error("internal error, the profile is not right: {}", result->internal_error);
  profile::Profile& profile = result->profile;
  profile.tool_version = version();
  if (const Status written = profile::write_profile(profile, options.output); !written) {
    error("{}", written.error().message);
    return kExitOwnFailure;
  }
  say_result(options, profile);
  end_like(*profile.run.exit);
}

}  // namespace shadowprof::cli
