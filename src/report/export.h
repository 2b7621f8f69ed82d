// SPDX-License-Identifier: MIT
//
// A profile as the file of another tool. One format per file (export_*.cc), all listed in
// export_formats().
//
// What is not in a profile is not made up: full mode counts calls by pairs and not by whole
// stacks, so the "stacks" of flame graphs and the like are the file, the function, and the inlined
// calls that debug information knows at each instruction. Only callgrind's format has room for call
// pairs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "profile/profile.h"
#include "symbols/module_set.h"

namespace shadowprof::report {

struct ExportInput {
  const profile::Profile& profile;
  const symbols::ModuleSet& modules;
  uint32_t module = 0;  // for formats that describe one file
  // For formats that say where a profile is from. "": not known, and the program's name.
  std::string host;
  std::string service;
};

struct ExportFormat {
  std::string_view name;
  std::string_view summary;
  bool one_module = false;  // describes one program or library
  bool gzipped = false;     // always, whatever the file's name is
  bool has_origin = false;  // says where the profile is from
  Result<std::string> (*make)(const ExportInput& input);
};

std::span<const ExportFormat> export_formats();
const ExportFormat* find_export_format(std::string_view name);

// The module that `name` means: its path or file name; "" is the program that was run, or where
// that is not known, the module with the most instructions.
Result<uint32_t> choose_module(const profile::Profile& profile, const std::string& name);

Result<std::string> export_autofdo(const ExportInput& input);
Result<std::string> export_bolt(const ExportInput& input);
Result<std::string> export_callgrind(const ExportInput& input);
Result<std::string> export_chrome(const ExportInput& input);
Result<std::string> export_firefox(const ExportInput& input);
Result<std::string> export_folded(const ExportInput& input);
Result<std::string> export_llvm_sample(const ExportInput& input);
Result<std::string> export_llvm_unsymbolized(const ExportInput& input);
Result<std::string> export_ndjson(const ExportInput& input);
Result<std::string> export_otlp(const ExportInput& input);
Result<std::string> export_perf_script(const ExportInput& input);
Result<std::string> export_pprof(const ExportInput& input);
Result<std::string> export_prefetch(const ExportInput& input);
Result<std::string> export_speedscope(const ExportInput& input);

}  // namespace shadowprof::report
