// SPDX-License-Identifier: MIT
//
// --debuginfod: of all commands that ask files for names and lines.
#pragma once

#include "cli/command_line.h"
#include "symbols/debuginfod.h"

namespace shadowprof::cli {

inline void add_debuginfod_option(CLI::App& app) {
  app.add_flag_callback(
      "--debuginfod",
      [] {
        if (const Status can = symbols::use_debuginfod(); !can)
          throw CLI::ValidationError(can.error().message);
      },
      "ask the servers in DEBUGINFOD_URLS for debug files");
}

}  // namespace shadowprof::cli
