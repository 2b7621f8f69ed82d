// SPDX-License-Identifier: MIT
//
// From a command line to a program that can be started: its file, its environment, the request.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/run_options.h"
#include "sample/full_mode.h"

namespace shadowprof::cli {

// Our exit status where the program could not be started.
int exit_status_for(const Error& e);
// Looked at before anything is started: the kernel would only say that it cannot.
Result<std::string> find_and_inspect(const std::string& name);
// The exit status where that failed, which was said.
int refuse_program(const Error& e);
// As the program finds it: ours, or none but what every program expects; and what was given.
std::vector<std::string> environment_for(const RunOptions& options);
sample::FullModeRequest full_request(const RunOptions& options, std::string path);

}  // namespace shadowprof::cli
