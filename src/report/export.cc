// SPDX-License-Identifier: MIT
#include "report/export.h"

#include <map>

#include "report/columns.h"

namespace shadowprof::report {
namespace {

constexpr ExportFormat kFormats[] = {
    {"autofdo", "AutoFDO's text input (create_llvm_prof --profiler=text)", true, false, false,
     export_autofdo},
    {"bolt", "BOLT's pre-aggregated branches (perf2bolt -pa)", true, false, false, export_bolt},
    {"callgrind", "callgrind_annotate, kcachegrind", false, false, false, export_callgrind},
    {"chrome", "the run as events for chrome://tracing and Perfetto", false, false, false,
     export_chrome},
    {"firefox", "processed profile for profiler.firefox.com", false, false, false, export_firefox},
    {"folded", "folded stacks for flamegraph.pl and inferno", false, false, false, export_folded},
    {"llvm-sample", "LLVM sample profile as text (clang -fprofile-sample-use)", true, false, false,
     export_llvm_sample},
    {"llvm-unsymbolized", "llvm-profgen --unsymbolized-profile", true, false, false,
     export_llvm_unsymbolized},
    {"ndjson", "rows for databases, one JSON object a line", false, false, true, export_ndjson},
    {"otlp", "OpenTelemetry profiles, as protobuf", false, false, true, export_otlp},
    {"perf-script", "text of perf script, for stackcollapse-perf.pl and others", false, false,
     false, export_perf_script},
    {"pprof", "pprof, gzipped", false, true, false, export_pprof},
    {"prefetch", "prefetch hints as CSV, from load latencies", true, false, false, export_prefetch},
    {"speedscope", "speedscope.app", false, false, false, export_speedscope},
};

}  // namespace

std::span<const ExportFormat> export_formats() {
  return kFormats;
}

const ExportFormat* find_export_format(std::string_view name) {
  for (const ExportFormat& format : kFormats)
    if (format.name == name) return &format;
  return nullptr;
}

Result<uint32_t> choose_module(const profile::Profile& profile, const std::string& name) {
  const auto& modules = profile.modules;
  if (!name.empty()) {
    std::optional<uint32_t> found;
    for (uint32_t i = 0; i < modules.size(); i++) {
      if (modules[i].path == name) return i;
      if (file_name(modules[i].path) != name) continue;
      if (found) return fail("several files are called {}: give the whole path", printable(name));
      found = i;
    }
    if (!found) return fail("no code of {} is in the profile", printable(name));
    return *found;
  }
  if (!profile.run.command.empty())
    for (uint32_t i = 0; i < modules.size(); i++)
      if (file_name(modules[i].path) == file_name(profile.run.command[0])) return i;
  std::map<uint32_t, uint64_t> instructions;
  for (const profile::BlockCount& b : profile.tables.blocks)
    instructions[b.at.module] += b.count * b.insns;
  std::optional<uint32_t> most;
  for (const auto& [module, count] : instructions)
    if (!most || count > instructions[*most]) most = module;
  if (!most) return fail("there is no code in the profile");
  return *most;
}

}  // namespace shadowprof::report
