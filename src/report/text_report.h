// SPDX-License-Identifier: MIT
//
// Hotlists as text: fits 80 columns, uses more where there are more. Names come from the profiled
// program: control characters are shown as \xNN, so they cannot drive the reader's terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "profile/profile.h"
#include "profile/thread_view.h"
#include "symbols/module_set.h"

namespace shadowprof::report {

struct TextOptions {
  size_t columns = 80;
  size_t limit = 20;  // rows of each list
  bool color = false;
  bool filtered = false;  // the lists are a selection: what is left out is not "more"
  std::string sort;       // of the functions, as given to select_rows()
  bool of_threads = false;  // the profile is what some threads did
  const symbols::ModuleSet* files = nullptr;  // for what findings name and no hotlist does
  bool summary = true;    // what was profiled, coverage, cost; before the lists
};

std::string render_text(const profile::Profile& profile, const TextOptions& options);

// What the profile is of; its threads, with all that is known of each; and what some of them did,
// where the profile was reduced to that.
std::string render_head(const profile::Profile& profile, const TextOptions& options);
std::string render_threads(const profile::Profile& profile, const TextOptions& options);
std::string render_part(const profile::Profile& profile, const profile::ThreadPart& part,
                        const TextOptions& options);

// One of its lists alone.
enum class TextList : uint8_t { functions, edges, paths, values, loads, threads };
std::string render_list(const profile::Profile& profile, TextList list, const TextOptions& options);
// The places of the functions in that list's rows, one for each line behind the columns' names.
std::vector<profile::Place> functions_listed(const profile::Profile& profile,
                                             const TextOptions& options);

// Whether to write colour to a stream: `when` is always, auto (a terminal) or never. A NO_COLOR
// that is set and not empty wins over all (https://no-color.org).
bool use_color(std::string_view when, int fd);
// The stream's width if it is a terminal, else COLUMNS, else 80.
size_t terminal_columns(int fd);

}  // namespace shadowprof::report
