// SPDX-License-Identifier: MIT
//
// The data of the HTML pages: short arrays rather than objects where there are many rows, since the
// pages carry them. html/report.js and html/moments.js read what this writes about one profile,
// html/diff.js what it writes about two; the order of columns stands here. They stand behind what
// they share: html/core.js, html/lists.js and html/flames.js.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "profile/compare/diff.h"
#include "report/html_report.h"

namespace shadowprof::report {

using HtmlJson = nlohmann::ordered_json;

// Text from outside, harmless and of a bounded length.
std::string page_text(std::string_view text);
// A function's name without its parameters.
std::string page_name(const std::string& name);

//   functions  [name, module, offset, file:line, self, inclusive, calls, loops, whole name]; the
//              first `own_list` of them are the list, the others are there because the rest refers
//              to them
//   pairs      [caller, callee, count, inclusive, indirect]; functions by index, -1 unknown
//   code       {function's index: {notes, lines, insns}}
//     lines    [file, line, instructions, executions, has code, text or null]
//     insns    [offset from the start, count, text, taken share or null, line's index or -1,
//     details,
//              innermost inlined function or ""]
//   course     {slice_s, threads, rows}, or null
//     threads  [name, tid, index]; the busiest first
//     rows     [slice, thread or -1, function or -1, seconds in user mode, in the kernel]
HtmlJson page_functions(const profile::Profile& profile, const symbols::ModuleSet& modules,
                        const HtmlOptions& options);

//   names  [name without parameters, whole name]
//   rows   [caller's row or -1, name's index, instructions with all below, its own, calls]
//   all    instructions in contexts; cut: some rows are too small for the page
HtmlJson page_contexts(const profile::Profile& profile);
// The same of nanoseconds of processor time instead of instructions, with inlined functions and the
// kernel's part; without calls. No rows where the time or the contexts are not known.
HtmlJson page_time_contexts(const profile::Profile& profile, const symbols::ModuleSet& modules);

//   run, coverage, overhead, syscalls: as the file has them, with pairs instead of objects
//   advice  why it is too little for conclusions, or ""
//   threads [tid, process, name, seconds in user mode, in the kernel, [[function, seconds], ...]],
//           where there are several
HtmlJson page_summary(const profile::Profile& profile);

// What the report begins with: shares of the time or the cycles, as `of` says.
//   rows [share at stake, place or "" for the whole program, whole name of its function, sentence]
HtmlJson page_findings(const profile::Profile& profile, const symbols::ModuleSet& modules);

//   inlined  [name, file of the code, file:line of the declaration, self, inclusive, places, whole
//   name,
//            seconds of processor time of its own, of the kernel's for it]
//   edges    [from, to, kind, count, share]
//   calls    [site, callee, indirect, count, share, inclusive]
//   contexts [share, instructions, calls, [function, ...]]
//   paths    [share, flow, count, instructions, from, [block, ...]]
//   loads    [place, executions, mean, p50, p99, [class shares], lost cycles, kind, stride,
//            [[cycles from, count], ...]]
//   values   [place, context, disassembly, count, invariance, zero, same, stride, distinct, semi,
//            [[value, share], ...]]
//   arguments [site, callee, register, is size, count, invariance, [[value, share], ...]]
//   targets  [place, kind, count, distinct, [[to, share], ...]]
HtmlJson page_lists(const profile::Profile& profile, const HtmlOptions& options);

// A comparison's lists: a row begins with what it is ranked by, before and now, and the noise,
// which is half of the 95 % interval of the difference (0: it is exact, null: not known). Errors of
// lines, values and system calls are not known, so they have no noise.
//   functions [before, now, noise, name, whole name, file:line, file of the code, presence,
//             inclusive before, now, calls before, now, loops before, now, kind of reason, reason]
//   inlined   [before, now, noise, name, whole name, file:line, file of the code, presence, places
//             before, now]
//   lines     [before, now, function, file:line, function's index or -1]
//   calls     [before, now, noise, site, callee, computed, instructions before, now]
//   edges     [before, now, noise, from, to, kind]
//   paths     [before, now, noise, count before, now, blocks, [function, ...], [line, ...]]
//   loads     [before, now, noise, place, executions before, now, mean cycles before, now,
//             millionths of misses before, now]
//   values    [executions before, now, millionths of them before, now, value, instruction, place]
//   syscalls  [before, now, name]
HtmlJson page_changes(const profile::Diff& diff, const HtmlOptions& options);
//   pairs     [caller, callee, calls before, now, instructions before, now, computed]; indices of
//             functions, -1 unknown
HtmlJson page_pair_changes(const profile::Diff& diff, const HtmlOptions& options);
//   names  [name without parameters, whole name, function's index or -1]
//   rows   [caller's row or -1, name's index, before and now with all below, of its own, calls;
//          noise with all below, of its own]
//   all    [before, now]; cut: some rows are too small for the page
HtmlJson page_context_changes(const profile::Diff& diff, const HtmlOptions& options);

// The page's frame with data and what the page does with it.
std::string page_with(const HtmlJson& data, std::string_view script);

}  // namespace shadowprof::report
