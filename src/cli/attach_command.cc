// SPDX-License-Identifier: MIT
//
// `shadowprof attach`: profiles a process that runs already, and leaves it as it was.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "base/log.h"
#include "cli/collection_options.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/debuginfod_option.h"
#include "cli/exit_codes.h"
#include "cli/front.h"
#include "cli/process_names.h"
#include "cli/quantity.h"
#include "cli/report_outcome.h"
#include "cli/sampling_options.h"
#include "kernel/proc.h"
#include "probe/host_prices.h"
#include "profile/file/json_file.h"
#include "sample/host.h"
#include "sample/profile_series.h"

namespace shadowprof::cli {
namespace {

struct AttachOptions {
  OutcomeOptions outcome{.output = "shadowprof.json", .verbose = false};
  CollectionOptions wanted;
  SamplingOptions sampling;
  std::string mode = "shadow";
  std::vector<std::string> words;  // PID or PID,PID or NAME
  std::vector<int> pids;
  bool follow = false;
  bool no_exec = false;
  double every = 0;  // seconds; 0: not given
  std::optional<size_t> keep;
  size_t top = 20;
  bool quiet = false;
};

constexpr double kShortestEvery_s = 1;
constexpr double kLongestEvery_s = 10'000 * 3600.0;
constexpr size_t kMostKept = 1'000'000;

std::optional<int> parse(int argc, char** argv, AttachOptions& options) {
  CLI::App app{"Samples a running process until it ends, the time is up, or ctrl-C.",
               "shadowprof attach"};
  app.add_option("PID,-p,--pid", options.words, "process to profile, its name, or several: PID,PID")
      ->type_name("PID");
  app.add_option("-o,--output", options.outcome.output,
                 "profile to write; - is standard output; .gz and .zst compress")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_flag("-f,--follow", options.follow, "processes that it starts, too");
  app.add_flag("--no-exec", options.no_exec,
               "if the process executes another program, leave that unprofiled");
  app.add_option("--mode", options.mode,
                 "shadow: sample replicas; burst: the process itself, which stands still")
      ->type_name("MODE")
      ->capture_default_str()
      ->check(CLI::IsMember({"shadow", "burst"}));
  options.wanted.add_to(app);
  options.sampling.add_to(app);
  app.add_option_function<std::string>(
         "--every",
         [&options](const std::string& text) {
           const auto time = parse_time(text);
           if (!time) throw CLI::ValidationError(time.error().message);
           options.every = *time;
           if (*time < kShortestEvery_s || *time > kLongestEvery_s)
             throw CLI::ValidationError("--every is a time from 1s to 10000h");
         },
         "a profile of each T; with --keep only the last N")
      ->type_name("T --keep N");
  app.add_option("--keep", options.keep)
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, kMostKept))
      ->group("");
  app.add_option("--top", options.top, "rows of a hotlist (20); seed of random moments")
      ->type_name("N --seed N");
  add_debuginfod_option(app);
  app.add_flag("-q,--quiet", options.quiet,
               "say nothing but errors, and what is not in the profile");
  app.add_flag("-v,--verbose", options.outcome.verbose, "say more: each sample, the hottest rows");
  const Usage usage = {"PID | NAME",
                       {"shadowprof attach nginx", "shadowprof attach -d 10 -o app.json 1234"}};
  return parse_command_line(app, usage, argc, argv);
}

// PID_MAX_LIMIT of the kernel on 64-bit machines.
constexpr int kMostPid = 1 << 22;

Result<std::vector<int>> parse_pids(const std::vector<std::string>& words) {
  std::vector<int> pids;
  for (const std::string& word : words) {
    if (is_process_name(word)) {
      SP_ASSIGN(const int pid, process_called(word));
      pids.push_back(pid);
      continue;
    }
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

sample::ProfileSeries series_of(const AttachOptions& options) {
  return {options.outcome.output, options.keep.value_or(0)};
}

// What would otherwise be an obscure refusal of the kernel's.
Status look_at(Tid process) {
  if (process.value == 1)
    return fail("cannot attach to process 1: everything else ends with it, so it is left alone");
  if (process.value == ::getpid()) return fail("cannot attach to {}: that is us", process.value);
  SP_TRY(sample::check_proc());
  const auto status = kernel::read_status(process);
  if (!status && (::kill(process.value, 0) == 0 || errno == EPERM))
    return fail("process {} is hidden from us: /proc is mounted with hidepid", process.value);
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

Status check_intervals(const AttachOptions& options) {
  if (options.keep && options.every == 0) return fail("option --keep is for --every");
  if (options.every == 0) return {};
  if (options.mode != "shadow") return fail("option --every is for --mode shadow");
  if (options.outcome.output == "-")
    return fail("option --every needs a file (-o): each interval has one of its own");
  if (options.sampling.until_error > 0)
    return fail("options --every and --until-error exclude each other");
  return profile::check_output(series_of(options).file_for(sample::utc_now()));
}

void ask_for_intervals(const AttachOptions& options, sample::ShadowModeRequest& request) {
  if (options.every == 0) return;
  request.intervals = {options.outcome.output, options.every, options.keep.value_or(0)};
  request.options["every"] = fmt::format("{}", options.every);
  if (options.keep) request.options["keep"] = fmt::format("{}", *options.keep);
}

// The last interval's, if there are any.
Status write_outcome(sample::RunResult& result, const AttachOptions& options) {
  OutcomeOptions outcome = options.outcome;
  const sample::ProfileSeries series = series_of(options);
  if (options.every > 0) outcome.output = series.file_for(result.profile.run.started);
  SP_TRY(report_outcome(result.profile, result.warnings, result.internal_error, outcome));
  if (options.every > 0) series.remove_old();
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
  if (options.outcome.output != "-") request.snapshots.dump_file = options.outcome.output;
  options.sampling.record_in(options.mode, request.options);
  if constexpr (requires { request.intervals; }) ask_for_intervals(options, request);
  std::optional<probe::HostPrices> prices;
  if constexpr (requires { request.prices; }) {
    if (options.mode == "burst")
      options.sampling.make_bursts_of(request);
    else
      request.prices = &prices.emplace();
  }
  const auto meanwhile = [&](const std::function<bool()>& is_over) {
    if (prices) prices->measure_faults(is_over);
  };
  const auto work = [&] {
    auto result = run(request);
    Status done;
    if (result) {
      done = write_outcome(*result, options);
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
  const bool one_process = !options.follow && options.pids.size() == 1;
  const bool in_part = options.sampling.captures_in_part(options.mode);
  options.wanted.choose_profiles(options.mode, options.sampling.chosen_engine(options.mode),
                                 {.values = in_part && one_process, .latencies = in_part});
  if (ready) ready = options.sampling.check(options.mode, one_process);
  if (ready) ready = options.wanted.accepted_by(options.sampling.chosen_engine(options.mode));
  if (ready)
    ready = options.wanted.check_conditions(options.mode,
                                            options.sampling.times_in_bouts(options.mode));
  for (int pid : options.pids) {
    if (ready) ready = look_at(Tid(pid));
  }
  if (ready) ready = profile::check_output(options.outcome.output);
  if (ready) ready = check_intervals(options);
  if (ready) ready = options.wanted.open_plugins(options.sampling.chosen_engine(options.mode));
  if (!ready) {
    error("{}", ready.error().message);
    return kExitOwnFailure;
  }
  if (options.mode == "burst" && one_process) {
    sample_as<sample::BurstModeRequest>(options, sample::run_burst_mode);
  }
  sample_as<sample::ShadowModeRequest>(options, sample::run_shadow_mode);
}

}  // namespace shadowprof::cli
