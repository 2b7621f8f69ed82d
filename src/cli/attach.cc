// SPDX-License-Identifier: MIT
//
// `shadowprof attach`: profiles a process that runs already, and leaves it as it was.
#include <fstream>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/front.h"
#include "cli/outcome.h"
#include "cli/sampling_options.h"
#include "kernel/proc.h"
#include "profile/json_file.h"

namespace shadowprof::cli {
namespace {

struct AttachOptions {
  OutcomeOptions outcome{.output = "shadowprof.json", .verbose = false};
  SamplingOptions sampling;
  int pid = 0;
  size_t top = 20;
  bool quiet = false;
};

std::optional<int> parse(int argc, char** argv, AttachOptions& options) {
  CLI::App app{"Samples a running process until it ends, the time is up, or ctrl-C.",
               "shadowprof attach"};
  app.add_option("pid,-p,--pid", options.pid, "process to profile")
      ->type_name("PID")
      ->required()
      ->check(CLI::Range(1, 1 << 22));
  app.add_option("-o,--output", options.outcome.output,
                 "profile to write; - is standard output; .gz and .zst compress")
      ->type_name("FILE")
      ->capture_default_str();
  options.sampling.add_to(app);
  app.add_option("--top", options.top, "rows of each hotlist")
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("-q,--quiet", options.quiet, "say nothing but errors");
  app.add_flag("-v,--verbose", options.outcome.verbose, "say more: each sample, the hottest rows");
  app.footer("Example:\n  shadowprof attach -d 10 -o app.json 1234\n  shadowprof report app.json");
  return parse_command_line(app, "PID", argc, argv);
}

std::vector<std::string> command_of(Tid process) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", process.value));
  std::vector<std::string> command;
  for (std::string word; std::getline(file, word, '\0');) command.push_back(word);
  return command;
}

// What would otherwise be an obscure refusal of the kernel's.
Status look_at(Tid process) {
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

}  // namespace

int attach_main(int argc, char** argv) {
  AttachOptions options;
  if (const auto status = parse(argc, argv, options)) return *status;
  if (options.quiet) set_verbosity(Verbosity::quiet);
  if (options.outcome.verbose) set_verbosity(Verbosity::verbose);
  const Tid process(options.pid);
  Status ready = look_at(process);
  if (ready) ready = profile::check_output(options.outcome.output);
  if (!ready) {
    error("{}", ready.error().message);
    return kExitOwnFailure;
  }
  sample::ShadowModeRequest request;
  request.attach_to = process;
  request.command = command_of(process);
  request.top = options.top;
  options.sampling.apply_to(request);
  options.sampling.record_in(request.options);
  run_behind_front([&] {
    auto result = sample::run_shadow_mode(request);
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
  });
}

}  // namespace shadowprof::cli
