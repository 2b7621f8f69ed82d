// SPDX-License-Identifier: MIT
//
// A profile as one HTML page that needs nothing else: no network, no other file. It holds what it
// shows and not the profile's tables, so a large profile makes a page of a few megabytes at most.
//
// Names and source come from the profiled program and are hostile until shown otherwise. They are
// data of the page (JSON in which no "<" is left), become text nodes and never markup, have no
// control or direction-changing characters, and are cut where no reader would go on reading.
#pragma once

#include <cstddef>
#include <string>

#include "profile/profile.h"
#include "report/source_access.h"
#include "symbols/module_set.h"

namespace shadowprof::report {

struct HtmlOptions {
  size_t rows = 300;      // of each list
  size_t annotated = 40;  // functions with their source and code
  SourceRules sources;
};

// Uses the profile's hotlists as they are.
std::string render_html(const profile::Profile& profile, const symbols::ModuleSet& modules,
                        const HtmlOptions& options);

}  // namespace shadowprof::report
