// SPDX-License-Identifier: MIT
//
// `shadowprof attach`: profiles a process that runs already, and leaves it as it was.
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "cli/collection_options.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/debuginfod_option.h"
#include "cli/exit_codes.h"
#include "cli/front.h"
#include "cli/report_outcome.h"
#include "cli/sampling_options.h"
#include "kernel/proc.h"
#include "probe/host_prices.h"
#include "profile/file/json_file.h"

namespace shadowprof::cli {
namespace {

struct AttachOptions {
  OutcomeOptions outcome{.output = "shadowprof.json", .verbose = false};
  CollectionOptions wanted;
  SamplingOptions sampling;
  std::string mode = "shadow";
  std::vector<std::string> words;  // PID or PID,PID
  std::vector<int> pids;
  bool follow = false;
  bool no_exec = false;
  size_t top = 20;
  bool quiet = false;
};

std::optional<int> parse(int argc, char** argv, AttachOptions& options) {
  CLI::App app{"Samples a running process until it ends, the time is up, or ctrl-C.",
               "shadowprof attach"};
  app.add_option("PID,-p,--pid", options.words, "process to profile, or several: PID,PID")
      ->type_name("PID");
  app.add_option("-o,--output", options.outcome.output,
                 "profile to write; - is standard output; .gz and .zst compress")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_flag("-f,--follow", options.follow, "processes that it starts, too");
  app.add_flag("--no-exec", options.no_exec,
               "if the process executes another program, leave that unprofiled");
  app.add_option("--mode", options.mode,
                 "shadow: replicas of the process run under the translator; burst: it does itself, "
                 "for milliseconds")
      ->type_name("MODE")
      ->capture_default_str()
      ->check(CLI::IsMember({"shadow", "burst"}));
  options.wanted.add_to(app);
  options.sampling.add_to(app);
  app.add_option("--top", options.top, "rows of each hotlist")
      ->type_name("N")
      ->capture_default_str();
  add_debuginfod_option(app);
  app.add_flag("-q,--quiet", options.quiet,
               "say nothing but errors, and what is not in the profile");
  app.add_flag("-v,--verbose", options.outcome.verbose, "say more: each sample, the hottest rows");
  app.footer("Example:\n  shadowprof attach -d 10 -o app.json 1234\n  shadowprof report app.json");
  return parse_command_line(app, "PID", argc, argv);
}

// PID_MAX_LIMIT of the kernel on 64-bit machines.
constexpr int kMostPid = 1 << 22;

Result<std::vector<int>> parse_pids(const std::vector<std::string>& words) {
  std::vector<int> pids;
  for (const std::string& word : words) {
    std::string_view rest = word;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      int pid = 0;
      const auto [end, problem] = std::from_chars(rest.data(), rest.data() + comma, pid);
      const bool last_is_empty = comma + 1 == rest.size();
      if (problem != std::errc() || end != rest.data() + comma || pid < 1 || pid > kMostPid ||
          last_is_empty)
        return fail("'{}' is not a process id, nor a list of them such as 812,813", word);
      if (std::find(pids.begin(), pids.end(), pid) != pids.end())
        return fail("process {} is given twice", pid);
      pids.push_back(pid);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  if (pids.empty()) return fail("no process given (see shadowprof attach --help)");
  return pids;
}

// What would otherwise be an obscure refusal of the kernel's.
Status look_at(Tid process) {
  if (process.value == 1)
    return fail("cannot attach to process 1: everything else ends with it, so it is left alone");
  if (process.value == ::getpid()) return fail("cannot attach to {}: that is us", process.value);
  const auto status = kernel::read_status(process);
  if (!status) return fail("there is no process {}", process.value);
  if (status->tgid != process) {
    return fail("{} is a thread of process {}: attach to that", process.value, status->tgid.value);
  }
  if (status->state == 'Z') return fail("process {} has ended already", process.value);
  if (status->tracer.value != 0) {
    return fail("cannot attach to {}: it is being traced by process {}", process.value,
                status->tracer.value);
  }
  return {};
}

template <typename Request>
[[noreturn]] void sample_as(const AttachOptions& options,
                            Result<sample::RunResult> (*run)(const Request&)) {
  Request request;
  for (int pid : options.pids) request.attach_to.emplace_back(pid);
  request.command = kernel::read_command(request.attach_to.front());
  if constexpr (requires { request.follow; }) request.follow = options.follow;
  request.follow_exec = !options.no_exec;
  if (options.no_exec) request.options["no_exec"] = "true";
  request.top = options.top;
  request.collection = options.wanted.collection(options.mode, options.sampling.seed(options.mode));
  options.wanted.record_in(request.options);
  if (const auto status = kernel::read_status(request.attach_to.front()))
    request.options["user"] = std::to_string(status->uids[3]);
  options.sampling.apply_to(request);
  options.sampling.record_in(options.mode, request.options);
  std::optional<probe::HostPrices> prices;
  if constexpr (requires { request.prices; }) request.prices = &prices.emplace();
  const auto meanwhile = [&](const std::function<bool()>& is_over) {
    if (prices) prices->measure_faults(is_over);
  };
  const auto work = [&] {
    auto result = run(request);
    Status done;
    if (result) {
      done = report_outcome(result->profile, result->warnings, result->internal_error,
                            options.outcome);
    } else {
      done = tl::unexpected(result.error());
    }
    if (done) return kExitOk;
    error("{}", done.error().message);
    return kExitOwnFailure;
  };
  run_behind_front(work, meanwhile);
}

}  // namespace

int attach_main(int argc, char** argv) {
  AttachOptions options;
  if (const auto status = parse(argc, argv, options)) return *status;
  if (options.quiet) set_verbosity(Verbosity::quiet);
  if (options.outcome.verbose) set_verbosity(Verbosity::verbose);
  Status ready;
  if (auto pids = parse_pids(options.words))
    options.pids = std::move(*pids);
  else
    ready = tl::unexpected(pids.error());
  options.wanted.choose_profiles(options.mode, options.sampling.chosen_engine(options.mode),
                                 options.sampling.captures_in_part(options.mode) &&
                                     !options.follow && options.pids.size() == 1);
  if (ready) ready = options.sampling.check(options.mode);
  if (ready) ready = options.wanted.accepted_by(options.sampling.chosen_engine(options.mode));
  const bool one_only = options.mode == "burst";
  if (ready && one_only && (options.follow || options.pids.size() > 1)) {
    ready = fail("burst mode profiles one process, and does not follow children (-f)");
  }
  for (int pid : options.pids) {
    if (ready) ready = look_at(Tid(pid));
  }
  if (ready) ready = profile::check_output(options.outcome.output);
  if (!ready) {
    error("{}", ready.error().message);
    return kExitOwnFailure;
  }
  if (options.mode == "burst") {
    sample_as<sample::BurstModeRequest>(options, sample::run_burst_mode);
  }
  sample_as<sample::ShadowModeRequest>(options, sample::run_shadow_mode);
}

}  // namespace shadowprof::cli
