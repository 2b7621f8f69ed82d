// SPDX-License-Identifier: MIT
//
// Folded stacks: "caller;function;inlined function count" a line; without calling contexts
// "file;function;inlined function count".
#include <map>

#include "report/columns.h"
#include "report/export.h"
#include "report/stacks.h"

namespace shadowprof::report {
namespace {

// A semicolon would end the frame.
std::string frame(const std::string& name) {
  std::string text = printable(name);
  for (char& c : text)
    if (c == ';') c = ':';
  return text;
}

}  // namespace

Result<std::string> export_folded(const ExportInput& input) {
  std::map<std::string, uint64_t> lines;
  for (const Stack& stack : stacks(input.profile, input.modules)) {
    std::string line;
    const auto add = [&](const std::string& name) {
      line += (line.empty() ? "" : ";") + frame(name);
    };
    if (input.profile.tables.contexts.empty() && stack.at)
      add(module_label(input.profile.modules[stack.at->module]));
    for (const Caller& c : stack.callers) add(c.frame.name);
    for (const StackFrame& f : stack.frames) add(f.name);
    lines[line] += stack.instructions;
  }
  std::string text;
  for (const auto& [line, count] : lines) text += fmt::format("{} {}\n", line, count);
  return text;
}

}  // namespace shadowprof::report
