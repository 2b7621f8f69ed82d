// SPDX-License-Identifier: MIT
//
// A small profile with something in every part, and hostile names.
#pragma once

#include "profile/profile.h"

namespace shadowprof::test {

// Long because a profile has many parts.
inline profile::Profile sample_profile() {
  using namespace profile;
  Profile p;
  p.tool_version = "0.1.0";
  p.run.command = {"./app", "\xff\xfe not utf-8", "\"quoted\"\n\x1b[31m"};
  p.run.pid = 42;
  p.run.mode = "full";
  p.run.engine = "translator";
  p.run.options = {{"mode", "full"}};
  p.run.host = {"a cpu", "6.1", 2, {}};
  p.run.started = "2025-01-31T12:00:00Z";
  p.run.duration_s = 1.5;
  p.run.exit = Exit{true, 11};
  p.modules = {{"/bin/app", "00ff", 0x400000, 7, 8}, {"", "", 0x7fff00000000, 0, 0}};
  p.tables.blocks = {{{0, 0x10}, 10, 3, 5}, {{0, 0x1a}, 6, 2, 4}, {{1, 0x0}, 9, 4, 2}};
  p.tables.interruptions = {{2, 1, 1}};
  p.tables.edges = {{{0, 0x18}, {0, 0x1a}, EdgeKind::not_taken, 4},
                    {{0, 0x18}, {1, 0x0}, EdgeKind::call, 1},
                    {{0, 0x1e}, {0, 0x10}, EdgeKind::taken, 4},
                    {{0, 0x1e}, {1, 0x0}, EdgeKind::indirect_call, 1}};
  p.tables.calls = {{{0, 0x18}, {1, 0x0}, false, 1, 4}, {{0, 0x1e}, {1, 0x0}, true, 1, 1}};
  p.tables.entries = {{{0, 0x10}, 1, 28}, {{1, 0x0}, 2, 5}};
  p.tables.contexts = {{kNoContext, ContextKind::code, {0, 0x10}, 20, 0},
                       {0, ContextKind::code, {1, 0x0}, 5, 2},
                       {kNoContext, ContextKind::unknown, {}, 0, 0}};
  p.threads = {{43, 42, "app", 0, 0, 0, 20, 2, 1}, {44, 42, "\x1b[31m", 0, 0, 0, 5, 1, 1}};
  p.tables.thread_code = {{{0, 0x10}, 0, 20}, {{1, 0x0}, 1, 5}};
  p.tables.course = {{0, 0, {0, 0x10}, 7000, 0}, {3, 1, {1, 0x0}, 2000, 1000}};
  p.tables.values = {
      {{0, 0x12},
       false,
       {},
       ValuePart::result,
       32,
       false,
       ValueType::integer,
       0,
       {5, 4, 3, 1, 2, 1, 3, {{0, 4}, {7, 1}}},
       "and ebx, 7"},
      {{0, 0x12},
       false,
       {},
       ValuePart::comparison,
       32,
       false,
       ValueType::integer,
       0,
       {5, 5, 4, 3, 1, 0, 0, {{0, 5}}},
       ""},
      {{0, 0x14},
       true,
       {1, 0x9},
       ValuePart::result,
       64,
       true,
       ValueType::f64,
       2,
       {5, 0, 4, 3, 1, 0, 0, {{~0ull, 5}}},
       ""}};
  p.tables.values[0].figures.estimated = true;
  p.tables.values[0].figures.distinct_error = 2;
  p.tables.arguments = {{{0, 0x18}, {1, 0x0}, 2, {1, 0, 0, 0, 1, 0, 0, {{4096, 1}}}},
                        {{0, 0x18}, {1, 0x0}, 7, {1, 0, 0, 0, 1, 0, 0, {{0x4000000000000000, 1}}}}};
  p.tables.paths = {{2, 5, 2, {1, 0x4}, {{0, 0x10}, {0, 0x1a}}}, {1, 4, 0, {}, {{1, 0}}}};
  p.coverage.paths = {true, false, 5, 3, 1, 1, 2};
  p.run.host.latency =
      LatencyCalibration{27, 54.5, {5, 14, 50, 400}, {5, 6, 7, 10, 20, 18, 4, 5}, 1200, 1.2};
  p.tables.latencies = {{{0, 0x12}, LoadKind::operand, 5, 4, 1, 100, 2, 30, {1, 1, 1, 1, 0},
                         AddressKind::heap, 4, -64, 3, {{2, 1}, {10, 3}}}};
  p.tables.latency_pages = {{LatencyClass::l2, {true, {0, 0x1000}}, 1, CodeRef{0, 0x12}},
                            {LatencyClass::dram, {false, {0, 0x7fff00001000}}, 1, {}}};
  p.tables.latency_values = {{LatencyClass::dram, ~0ull, 1, CodeRef{0, 0x12}}};
  p.tables.cache_lines = {{{false, {0, 0x7fff00000040}}, 3, 1}, {{true, {0, 0x40}}, 2, 0}};
  p.coverage.accesses = {true, 7, 2, 1, 1, 2};
  p.tables.hazards = {{PairKind::forwarding, {0, 0x12}, {0, 0x14}, 3, 5, 0, 9, 0, "mov [rbx], al",
                       "mov eax, [rbx]"},
                      {PairKind::load_line_split, {0, 0x14}, {0, 0x14}, 1, 5, 0, 0, 0, "", ""}};
  p.tables.waste = {
      {PairKind::dead_store, {0, 0x10}, {0, 0x12}, 2, 5, 1, 8, 0, "", "mov [rbx], al"}};
  p.tables.sharing = {{SharingKind::false_sharing, {0, 0x10}, {1, 0x4}, 40, 3, 2, 100, 90,
                       {true, {0, 0x1040}}, 30, 0xff, uint64_t{0xff} << 56, "", "mov eax, [rbx]"},
                      {SharingKind::true_sharing, {0, 0x10}, {0, 0x10}, 6, 1, 64, 100, 100,
                       {false, {0, 0x7fff00000080}}, 2, 0xf, 0xff, "add [rbx], 0x01", ""}};
  p.tables.streams = {{{{0, 0x12}, {0, 0x14}}, 300, 0, 100, 2, 300, 240, true,
                       {{0, 0}, {0, 40}, {1, -7}}, {"mov eax, [rbx]", ""}},
                      {{{0, 0x18}}, 8, 0, 4, 1, 9, 8, false, {{0, 0}, {0, 1}}, {}}};
  p.coverage.streams = {true, 400, 2, 30, 1, 900, 70};
  p.probes = {{"counts", "on call key caller", "count", {"caller"}, 1, 7, 6, 1, 0},
              {"sizes", "on load capture size => log2", "log2", {"size"}, 0, 900, 890, 0, 40},
              {"stacks", "on call key stack", "count", {"stack"}, 1, 9, 8, 0, 0, 1}};
  p.tables.probes = {{0, {{true, 0, 0x12}}, 6, 0},
                     {1, {{false, 0, 4}}, 350, 0},
                     {1, {{false, 0, 8}}, 500, 0},
                     {2, {{false, 0, 0}}, 1, 0},
                     {2, {{false, 0, 2}}, 7, 0, {{true, 0, 0x12}, {false, 0, 0}}}};
  p.plugins = {{.name = "pages",
                .weight = "loads",
                .columns = {{"function", PluginCellKind::text},
                            {"at", PluginCellKind::place},
                            {"page", PluginCellKind::address}},
                .file = "./pages.so",
                .texts = {"copy", "main"},
                .problems = {"it ended early: it ended itself, with status 3"},
                .records = 800,
                .samples_left_out = 2,
                .samples_cut = 1,
                .others = 5}};
  p.tables.plugins = {{0, {{false, 0, 0}, {true, 0, 0x12}, {false, 0, 0x7000}}, 30},
                      {0, {{false, 0, 1}, {true, 0, 0x12}, {false, 0, 0x8000}}, 10}};
  p.coverage.samples = 1;
  p.coverage.attributed = 5 * 3 + 4 * 2 + 2 * 4 - 3;
  p.coverage.dropped = {{"lost", 2}};
  p.coverage.instructions_profiled = p.coverage.attributed + 2;
  p.coverage.instructions_total = p.coverage.instructions_profiled;
  p.coverage.ended = {{"exit", 1}};
  p.coverage.events = {{"returns_without_call", 3}};
  p.overhead = {.budget_share = 0.01,
                .estimated_share = 0.005,
                .pause_s = {0.5, 0.1, 0.01, 0.09},
                .forks = 7,
                .extra_faults = 11,
                .engine_cpu_s = 0.5,
                .collector_cpu_s = 0.25,
                .program_cpu_s = 2,
                .translated_blocks = 3,
                .translation_s = 0.125,
                .stops = {{"syscall", 9}},
                .by_cause = {{"pause", 0.5}, {"copied_pages", 0.25}},
                .steps = {{"fork_first", 1}},
                .sampling = {},
                .timeline = {{1000, 1, 30, 20, 400}, {90000, 2, 11, 31, 500}}};
  p.syscalls.by_class = {{"benign", 2}};
  p.syscalls.by_name = {{"brk", {2, 0}}};
  attribute_functions(p, {{{1, 0}, 100, "evil\x01\x1b]0;\xc3(name", "_Zevil", "", 0, 0, 0, 0, 0},
                          {{0, 0x10}, 0x20, "main", "", "app.c", 12, 0, 0, 0, 0},
                          {{0, 0x90}, 0x20, "never", "", "app.c", 99, 0, 0, 0, 0}});
  p.modules[0].inlining_known = 20;
  p.inlined = {{0, "evil\x01\x1b]0;\xc3<inlined>()", "_Zinlined", "app.h", 3, 7, 0, 9, 0, 0,
                {{0, "", 0, 2}, {0x10, "app.c", 14, 5}}},
               {0, "plain", "", "", 0, 2, 0, 2, 0, 0, {{0x10, "app.h", 4, 2}}}};
  p.hotlists = compute_hotlists(p, 10, [](CodeRef at) -> std::optional<SourceLine> {
    if (at.module != 0) return std::nullopt;
    return SourceLine{"app.c", static_cast<uint32_t>(at.offset)};
  });
  p.confidence.exact = true;
  return p;
}

}  // namespace shadowprof::test
