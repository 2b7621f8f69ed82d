// SPDX-License-Identifier: MIT
//
// What reports say of the user's plug-ins, as text and on the page.
#pragma once

#include <string>

#include "profile/profile.h"

namespace shadowprof::report {

// A cell that is no place: its text, or its number as the column's kind wants it.
std::string plugin_cell(const profile::PluginColumn& column, const profile::HotPlugin::Cell& cell);

// "pages.so, given 1.20 M records; 3 samples left out, as it was too slow".
std::string plugin_sums(const profile::PluginInfo& plugin);

}  // namespace shadowprof::report
