// SPDX-License-Identifier: MIT
//
// The files that code was mapped from, opened for their names.
#pragma once

#include <cstdint>
#include <memory>

#include "base/cache_folder.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "profile/tables/module_table.h"
#include "symbols/module_symbols.h"
#include "trace/block_table.h"

namespace shadowprof::sample {

// `file`: becomes the module's, if it has one. Only what ran since `started` (seconds since the
// epoch) is taken: an Error where the file is gone, or another one has taken its place.
Result<std::unique_ptr<symbols::ModuleSymbols>> load_symbols(const profile::Module& module,
                                                             const trace::BlockTable& code,
                                                             int64_t started,
                                                             const CacheFolder& notes,
                                                             UniqueFd& file);

}  // namespace shadowprof::sample
