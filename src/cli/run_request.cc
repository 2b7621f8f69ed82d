// SPDX-License-Identifier: MIT
#include "cli/run_request.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "cli/exit_codes.h"
#include "kernel/elf_kind.h"
#include "machine/cpu_model.h"

namespace shadowprof::cli {

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

Result<std::string> find_and_inspect(const std::string& name) {
  SP_ASSIGN(std::string path, kernel::find_program(name));
  SP_TRY(kernel::inspect_program(path));
  return path;
}

int refuse_program(const Error& e) {
  error("{}", e.message);
  const int status = exit_status_for(e);
  return status == kExitOwnFailure ? kExitNotExecutable : status;
}

std::vector<std::string> environment_for(const RunOptions& options) {
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
  request.signals = ptrace::InheritedSignals::capture().take_timers();
  request.path = std::move(path);
  request.argv = options.command;
  request.environment = environment_for(options);
  request.follow = options.follow;
  request.follow_exec = !options.no_exec;
  request.deterministic = options.deterministic;
  request.real_clock = options.clock == "real";
  request.schedule_seed = options.schedule_seed;
  request.processor = machine::CpuModel::find(options.cpu_features);
  request.collection = options.collection();
  if (options.has_region())
    request.within = sample::RegionRequest{options.within, options.from, options.to};
  request.seed = options.sampling.seed("full");
  request.top = options.top;
  request.options = options.recorded();
  request.options["user"] = std::to_string(::geteuid());
  return request;
}

}  // namespace shadowprof::cli
