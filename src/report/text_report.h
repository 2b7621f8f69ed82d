// SPDX-License-Identifier: MIT
//
// Hotlists as text: fits 80 columns, uses more where there are more. Names come from the profiled
// program: control characters are shown as \xNN, so they cannot drive the reader's terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "profile/profile.h"

namespace shadowprof::report {

struct TextOptions {
  size_t columns = 80;
  size_t limit = 20;  // rows of each list
  bool color = false;
  bool summary = true;  // what was profiled, coverage, cost; before the lists
};

std::string render_text(const profile::Profile& profile, const TextOptions& options);

// For a stream: color when it is asked for ("always"), or for "auto" on a terminal without NO_COLOR
// in the environment (https://no-color.org); its width, or COLUMNS, or 80.
bool use_color(const std::string& when, int fd);
size_t terminal_columns(int fd);

// `text` with control characters, and bytes that are not UTF-8, as \xNN.
std::string printable(std::string_view text);

}  // namespace shadowprof::report
