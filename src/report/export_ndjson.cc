// SPDX-License-Identifier: MIT
//
// Rows of a table, a JSON object a line, for engines that add up profiles of many hosts
// (docs/fleet.md has the schema). All rows have the same members: what a row has nothing to say of
// is null.
//
//   run   one: what was attributed, and the time of all threads
//   code  one for each instruction where the program's file is at hand, else for each block. They
//         add up to what was attributed.
//   time  one for each place and thread
//
// Blocks are not the same in each run, since more of the code was seen in one than in another;
// instructions are.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "report/code_costs.h"
#include "report/columns.h"
#include "report/export.h"
#include "report/run_facts.h"
#include "report/stacks.h"

namespace shadowprof::report {
namespace {

using Json = nlohmann::ordered_json;

// A name is in as many rows as its function has instructions.
constexpr size_t kMostCharacters = 4000;

Json text(const std::string& words) {
  if (words.empty()) return nullptr;
  // What is cut off is not looked at: a character has four bytes at most.
  const std::string_view enough = std::string_view(words).substr(0, 4 * kMostCharacters + 4);
  return fit(printable(enough), kMostCharacters);
}

Json number(int64_t n) {
  return n == 0 ? Json(nullptr) : Json(n);
}

class Rows {
 public:
  explicit Rows(const ExportInput& input) : input_(input), profile_(input.profile) {
    const profile::Run& run = profile_.run;
    origin_ = {{"host", text(input.host)},
               {"service", text(input.service.empty() ? program_name(run) : input.service)},
               {"command", text(command_line(run.command))},
               {"started", text(run.started)}};
  }

  std::string write() {
    add("run", {{"process", run_process()},
                {"instructions", profile_.coverage.attributed},
                {"user_ns", nanoseconds(profile_.time.user_s)},
                {"kernel_ns", nanoseconds(profile_.time.kernel_s)}});
    add_code();
    for (const profile::TimeRow& row : profile_.tables.time) add_time(row);
    return std::move(lines_);
  }

 private:
  Json run_process() const {
    return profile_.run.merged.empty() ? number(profile_.run.pid) : Json(nullptr);
  }

  Json nanoseconds(double seconds) const {
    return profile_.time.is_known() ? Json(static_cast<uint64_t>(seconds * 1e9)) : Json(nullptr);
  }

  void add(const char* kind, const Json& members) {
    Json row = {{"kind", kind}};
    for (const char* name :
         {"build_id", "module", "offset", "function", "function_offset", "inlined", "file", "line",
          "thread", "thread_id", "process", "instructions", "user_ns", "kernel_ns"})
      row[name] = members.contains(name) ? members[name] : Json(nullptr);
    row.update(origin_);
    lines_ += row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  // Where code is: the function that has its symbol, and the innermost line.
  Json place(profile::CodeRef at) const {
    const profile::Module& module = profile_.modules[at.module];
    const profile::Function* f = find_function(profile_.functions, at);
    Json row = {{"build_id", text(module.build_id)},
                {"module", text(module.path.empty() ? module_label(module) : module.path)},
                {"offset", at.offset}};
    if (f == nullptr) return row;
    row["function"] = text(f->name);
    row["function_offset"] = f->at.offset;
    const std::vector<StackFrame> frames = frames_at(profile_, input_.modules, f, at);
    const StackFrame& innermost = frames.back();
    if (frames.size() > 1) row["inlined"] = text(innermost.name);
    row["file"] = text(innermost.file);
    row["line"] = number(innermost.line);
    return row;
  }

  void add_instructions(profile::CodeRef at, uint64_t instructions) {
    if (instructions == 0) return;
    Json row = place(at);
    row["process"] = run_process();
    row["instructions"] = instructions;
    add("code", row);
  }

  void add_code() {
    const CodeCosts costs(profile_, input_.modules);
    // Blocks may overlap, where code is entered in the middle of an instruction.
    std::map<profile::CodeRef, uint64_t> sums;
    for (size_t block = 0; block < profile_.tables.blocks.size(); block++) {
      const std::vector<InsnCost> insns = costs.instructions(block);
      if (insns.empty()) sums[profile_.tables.blocks[block].at] += costs.executed(block);
      for (const InsnCost& insn : insns) sums[insn.at] += insn.count;
    }
    for (const auto& [at, instructions] : sums) add_instructions(at, instructions);
  }

  void add_time(const profile::TimeRow& time) {
    const profile::ThreadRow& thread = profile_.threads[time.thread];
    Json row = place(time.at);
    row["thread"] = text(thread.name);
    row["thread_id"] = number(thread.tid);
    row["process"] = number(thread.process);
    row["user_ns"] = time.user_ns;
    row["kernel_ns"] = time.kernel_ns;
    add("time", row);
  }

  const ExportInput& input_;
  const profile::Profile& profile_;
  Json origin_;
  std::string lines_;
};

}  // namespace

Result<std::string> export_ndjson(const ExportInput& input) {
  return Rows(input).write();
}

}  // namespace shadowprof::report
