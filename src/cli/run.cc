// SPDX-License-Identifier: MIT
//
// `shadowprof run`: starts a program and profiles it.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "kernel/elf_kind.h"
#include "profile/json_file.h"
#include "report/text_report.h"
#include "sample/full_mode.h"
#include "sample/host.h"

namespace shadowprof::cli {
namespace {

struct RunOptions {
  std::string output = "shadowprof.json";
  std::string mode = "full";
  std::vector<std::string> profiles = {"edge", "call", "method"};
  bool follow = false;
  bool deterministic = false;
  bool quiet = false;
  bool verbose = false;
  size_t top = 20;
  std::vector<std::string> command;
};

// A number: the exit status, there is nothing to run.
std::optional<int> parse(int argc, char** argv, RunOptions& options) {
  CLI::App app{"Runs PROGRAM and profiles it from its first instruction to its end.",
               "shadowprof run"};
  app.add_option("-o,--output", options.output, "profile to write; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--mode", options.mode, "full: the whole program runs under the translator")
      ->type_name("MODE")
      ->check(CLI::IsMember({"full"}));
  app.add_option("--profile", options.profiles, "what to collect: edge,call,method; or none")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(CLI::IsMember({"edge", "call", "method", "none"}));
  app.add_flag("-f,--follow", options.follow, "children and executed programs, too");
  app.add_flag("--deterministic", options.deterministic,
               "fixed addresses: the same counts run after run");
  app.add_option("--top", options.top, "rows of each hotlist")->type_name("N")->capture_default_str();
  app.add_flag("-q,--quiet", options.quiet, "say nothing but errors");
  app.add_flag("-v,--verbose", options.verbose, "say more");
  app.footer("Example:\n  shadowprof run -o gzip.json -- gzip -k file\n  shadowprof report gzip.json");
  app.prefix_command();
  if (const auto status = parse_command_line(app, "[--] PROGRAM [ARG...]", argc, argv)) return status;
  options.command = app.remaining();
  if (!options.command.empty() && options.command[0] == "--") {
    options.command.erase(options.command.begin());
  }
  if (options.command.empty()) {
    error("no program given (see shadowprof run --help)");
    return kExitOwnFailure;
  }
  return std::nullopt;
}

int exit_status_for(const Error& e) {
  if (e.errno_value == ENOENT || e.errno_value == ENOTDIR) return kExitNotFound;
  return kExitNotExecutable;
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

void say_result(const RunOptions& options, const profile::Profile& profile) {
  const profile::Overhead& cost = profile.overhead;
  const std::string where = options.output == "-" ? "standard output" : options.output;
  info("{} instructions in {} functions profiled, {:.2f} s of program, {:.2f} s of our own: {}",
       profile.coverage.instructions_profiled, profile.functions.size(), cost.program_cpu_s,
       cost.engine_cpu_s + cost.collector_cpu_s, where);
}

}  // namespace

int run_main(int argc, char** argv) {
  RunOptions options;
  if (const auto status = parse(argc, argv, options)) return *status;
  if (options.quiet) set_verbosity(Verbosity::quiet);
  if (options.verbose) set_verbosity(Verbosity::verbose);

  sample::FullModeRequest request;
  request.signals = ptrace::InheritedSignals::capture();
  const auto path = kernel::find_program(options.command[0]);
  if (!path) {
    error("{}", path.error().message);
    return exit_status_for(path.error());
  }
  if (const auto kind = kernel::inspect_program(*path); !kind) {
    error("{}", kind.error().message);
    return exit_status_for(kind.error());
  }
  if (const Status output = profile::check_output(options.output); !output) {
    error("{}", output.error().message);
    return kExitOwnFailure;
  }
  const auto wants = [&](const char* name) {
    return std::find(options.profiles.begin(), options.profiles.end(), name) !=
           options.profiles.end();
  };
  request.path = *path;
  request.argv = options.command;
  request.environment = environment();
  request.follow = options.follow;
  request.deterministic = options.deterministic;
  request.edges = wants("edge");
  request.calls = wants("call") || wants("method");
  request.top = options.top;
  sample::prepare_signals();
  auto result = sample::run_full_mode(request);
  if (!result) {
    error("{}", result.error().message);
    return result.error().errno_value ? exit_status_for(result.error()) : kExitOwnFailure;
  }
  for (const std::string& warning : result->warnings) info("{}", warning);
  const profile::Profile& profile = result->profile;
  if (const Status written = profile::write_profile(profile, options.output); !written) {
    error("{}", written.error().message);
    return kExitOwnFailure;
  }
  say_result(options, profile);
  end_like(*profile.run.exit);
}

}  // namespace shadowprof::cli
