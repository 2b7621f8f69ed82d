// SPDX-License-Identifier: MIT
//
// Debug information from the servers that the user has named (DEBUGINFOD_URLS), by elfutils'
// client, which keeps what it fetched in a cache. Nothing is asked of the network unless the user
// has asked for that in this command: names of what somebody runs are nobody's business.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "symbols/debug_file.h"

namespace shadowprof::symbols {

// From here on, for all modules of this process. An Error: there is no client library, or no server
// is named.
Status use_debuginfod();

// Nothing where it is not to be used, or no server has it. Takes as long as the network does.
std::optional<DebugFile> fetch_debug_file(const std::string& build_id);

}  // namespace shadowprof::symbols
