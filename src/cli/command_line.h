// SPDX-License-Identifier: MIT
//
// What all subcommands do alike: options in, text out.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "profile/profile.h"

namespace shadowprof::cli {

// That a user may ask a list for.
inline constexpr size_t kMostRows = 1'000'000;
// That each list has otherwise.
inline constexpr size_t kTextRows = 20;
inline constexpr size_t kPageRows = 300;

// What --help begins with, besides what the command is for.
struct Usage {
  std::string operands;               // behind the options
  std::vector<std::string> examples;  // two or more; whole command lines, without indentation
};

// Parses into the variables bound to `app`, which is named "shadowprof COMMAND". Nothing: go on. A
// number: exit with it (help was asked for and printed, or usage was wrong, which was said in one
// line).
std::optional<int> parse_command_line(CLI::App& app, Usage usage, int argc, char** argv);

// The lines that a help begins with: `line` is "shadowprof COMMAND OPERANDS".
std::string usage_lines(const std::string& line, const std::vector<std::string>& examples);

// The name that somebody who typed `word` most likely meant: at most `most` slips away. "": none.
std::string nearest(std::string_view word, const std::vector<std::string>& names, size_t most);
// "did you mean NAME?", or which names there are, if it is like none of them.
std::string instead_of(std::string_view word, const std::vector<std::string>& names);
// That a command has no such option, and what may be meant: one that it has, or commands that have
// it.
std::string no_such_option(const CLI::App& app, std::string_view word);

// Accepts these words; what it says otherwise lists them.
CLI::Validator one_of(std::string what, std::vector<std::string> names);

// --color of the commands that print for people. `when` has the default.
void add_color_option(CLI::App& app, std::string& when);

// What run and attach write, and report and annotate read, unless another name is given.
inline constexpr const char* kDefaultProfile = "shadowprof.json";

// The profile of that name; where it is the default and not there, the error says what to do.
Result<profile::Profile> read_given_profile(const std::string& file);

// To standard output. A reader that went away (report | head) is not an error.
Status print(std::string_view text);
// To a file, which is compressed if its name says so, or as print() where that is "-".
Status write_text(const std::string& text, const std::string& output);

}  // namespace shadowprof::cli
