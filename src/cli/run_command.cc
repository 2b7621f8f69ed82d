// SPDX-License-Identifier: MIT
//
// `shadowprof run`: starts a program and profiles it.
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/front.h"
#include "cli/report_outcome.h"
#include "cli/run_options.h"
#include "cli/run_request.h"
#include "probe/host_prices.h"
#include "profile/file/json_file.h"
#include "sample/burst_mode.h"
#include "sample/full_mode.h"
#include "sample/host.h"
#include "sample/shadow_mode.h"

namespace shadowprof::cli {
namespace {

// For shadow or burst mode.
template <typename Request>
Request sampling_request(const RunOptions& options, std::string path) {
  Request request;
  ptrace::LaunchRequest& launch = request.launch.emplace();
  launch.path = std::move(path);
  launch.argv = options.command;
  launch.environment = environment_for(options);
  launch.signals = ptrace::InheritedSignals::capture().take_timers();
  launch.fixed_addresses = launch.fixed_start = options.deterministic;
  request.command = options.command;
  if constexpr (requires { request.follow; }) request.follow = options.follow;
  request.follow_exec = !options.no_exec;
  request.collection = options.collection();
  request.top = options.top;
  request.options = options.recorded();
  request.options["user"] = std::to_string(::geteuid());
  options.sampling.apply_to(request);
  if (options.output != "-") request.snapshots.dump_file = options.output;
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

  // The program's own lines come first.
  set_progress(::isatty(STDOUT_FILENO) != 1);

  auto path = find_and_inspect(options.command[0]);
  if (!path) return refuse_program(path.error());
  if (const Status output = profile::check_output(options.output); !output) {
    error("{}", output.error().message);
    return kExitOwnFailure;
  }
  const auto engine = options.sampling.chosen_engine(options.mode);
  if (const Status ready = options.wanted.open_plugins(engine); !ready) {
    error("{}", ready.error().message);
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
  const bool has_bursts = options.mode == "burst";
  if (has_bursts && !options.follow) {
    const auto request = sampling_request<sample::BurstModeRequest>(options, std::move(*path));
    run_behind_front([&] {
      sample::prepare_signals();
      return finish(conclude(sample::run_burst_mode(request), options));
    });
  }
  auto request = sampling_request<sample::ShadowModeRequest>(options, std::move(*path));
  std::optional<probe::HostPrices> prices;
  if (has_bursts)
    options.sampling.make_bursts_of(request);
  else
    request.prices = &prices.emplace();
  run_behind_front(
      [&] {
        sample::prepare_signals();
        return finish(conclude(sample::run_shadow_mode(request), options));
      },
      [&](const auto& is_over) {
        if (prices) prices->measure_faults(is_over);
      },
      [&] {
        if (prices) prices->measure_cache_neighbour();
      });
}

}  // namespace shadowprof::cli
