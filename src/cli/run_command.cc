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
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/front.h"
#include "cli/report_outcome.h"
#include "cli/run_options.h"
#include "kernel/elf_kind.h"
#include "machine/cpu_model.h"
#include "probe/host_prices.h"
#include "profile/file/json_file.h"
#include "sample/burst_mode.h"
#include "sample/full_mode.h"
#include "sample/host.h"
#include "sample/shadow_mode.h"

namespace shadowprof::cli {
namespace {

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

// As the program finds it: ours, or none but what every program expects; and what was given.
std::vector<std::string> environment(const RunOptions& options) {
  std::vector<std::string> all;
  if (options.clean_environment) {
    all = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C"};
  } else {
    for (char** e = environ; *e; e++) all.emplace_back(*e);
  }
  for (const std::string& given : options.variables) {
    const std::string name = given.substr(0, given.find('=') + 1);
    const auto same = std::ranges::find_if(all, [&](const auto& v) { return v.starts_with(name); });
    if (same == all.end()) {
      all.push_back(given);
    } else {
      *same = given;
    }
  }
  return all;
}

sample::FullModeRequest full_request(const RunOptions& options, std::string path) {
  sample::FullModeRequest request;
  request.signals = ptrace::InheritedSignals::capture();
  request.path = std::move(path);
  request.argv = options.command;
  request.environment = environment(options);
  request.follow = options.follow;
  request.follow_exec = !options.no_exec;
  request.deterministic = options.deterministic;
  request.processor = machine::CpuModel::find(options.cpu_features);
  request.collection = options.collection();
  request.seed = options.sampling.seed("full");
  request.top = options.top;
  request.options = options.recorded();
  request.options["user"] = std::to_string(::geteuid());
  return request;
}

// For shadow or burst mode.
template <typename Request>
Request sampling_request(const RunOptions& options, std::string path) {
  Request request;
  ptrace::LaunchRequest& launch = request.launch.emplace();
  launch.path = std::move(path);
  launch.argv = options.command;
  launch.environment = environment(options);
  launch.signals = ptrace::InheritedSignals::capture();
  launch.fixed_addresses = launch.fixed_start = options.deterministic;
  request.command = options.command;
  if constexpr (requires { request.follow; }) request.follow = options.follow;
  request.follow_exec = !options.no_exec;
  request.collection = options.collection();
  request.top = options.top;
  request.options = options.recorded();
  request.options["user"] = std::to_string(::geteuid());
  options.sampling.apply_to(request);
  return request;
}

// The profile as far as there is one is written; what is returned is the program's end, or why it
// cannot be told. Who does not get a profile of a program that was successful is told by our own
// failure; one that failed comes first.
Result<profile::Exit> conclude(Result<sample::RunResult> result, const RunOptions& options) {
  if (!result) return tl::unexpected(result.error());
  profile::Profile& profile = result->profile;
  const Status written = report_outcome(profile, result->warnings, result->internal_error,
                                        {options.output, options.verbose});
  const profile::Exit end = profile.run.exit.value_or(profile::Exit{});
  const bool has_failed = end.signalled || end.value != 0;
  // Why it was not written says nothing about the program, so its errno is left out.
  if (!written && !has_failed) return fail("{}", written.error().message);
  if (!written) error("{}", written.error().message);
  return end;
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
  const auto finish = [](const Result<profile::Exit>& end) -> int {
    if (end) end_like(*end);
    error("{}", end.error().message);
    return exit_status_for(end.error());
  };
  if (options.mode == "full") {
    const auto request = full_request(options, std::move(*path));
    sample::prepare_signals();
    return finish(conclude(sample::run_full_mode(request), options));
  }
  if (options.mode == "burst") {
    const auto request = sampling_request<sample::BurstModeRequest>(options, std::move(*path));
    run_behind_front([&] {
      sample::prepare_signals();
      return finish(conclude(sample::run_burst_mode(request), options));
    });
  }
  auto request = sampling_request<sample::ShadowModeRequest>(options, std::move(*path));
  probe::HostPrices prices;
  request.prices = &prices;
  run_behind_front(
      [&] {
        sample::prepare_signals();
        return finish(conclude(sample::run_shadow_mode(request), options));
      },
      [&](const auto& is_over) { prices.measure_faults(is_over); });
}

}  // namespace shadowprof::cli
