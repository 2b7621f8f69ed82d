// SPDX-License-Identifier: MIT
//
// What all subcommands do alike: options in, text out.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shadowprof::cli {

// That a user may ask a list for.
inline constexpr size_t kMostRows = 1'000'000;

// Parses into the variables bound to `app`, which is named "shadowprof COMMAND". `operands` is what
// the usage line shows behind the options. Nothing: go on. A number: exit with it (help was asked
// for and printed, or usage was wrong, which was said in one line).
std::optional<int> parse_command_line(CLI::App& app, std::string operands, int argc, char** argv);

// To standard output. A reader that went away (report | head) is not an error.
Status print(std::string_view text);

}  // namespace shadowprof::cli
