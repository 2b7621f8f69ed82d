// SPDX-License-Identifier: MIT
#include "report/stacks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "report/code_costs.h"
#include "report/columns.h"

namespace shadowprof::report {
namespace {

using profile::CodeRef;

// A share of the instructions of all contexts.
constexpr double kWorthDividing = 1e-4;

__extension__ using Wide = unsigned __int128;

class Collector {
 public:
  Collector(const profile::Profile& profile, const symbols::ModuleSet& modules)
      : profile_(profile), modules_(modules), costs_(profile, modules) {}

  std::vector<Stack> collect() {
    const auto& blocks = profile_.tables.blocks;
    for (size_t block = 0; block < blocks.size(); block++) {
      const CodeRef at = blocks[block].at;
      const profile::Function* f = find_function(profile_.functions, at);
      const bool has_lines = f != nullptr && !f->file.empty();
      const auto insns = has_lines ? costs_.instructions(block) : std::vector<InsnCost>{};
      if (insns.empty()) {
        add(at, {function_frame(profile_, f, at)}, costs_.executed(block));
        continue;
      }
      for (const InsnCost& insn : insns)
        add(insn.at, frames_at(profile_, modules_, f, insn.at), insn.count);
    }
    std::vector<Stack> result;
    for (auto& [key, sum] : sums_)
      if (sum.second != 0) result.push_back({sum.first, {}, key.second, sum.second});
    return result;
  }

 private:
  void add(CodeRef at, std::vector<StackFrame> frames, uint64_t instructions) {
    auto& sum = sums_.try_emplace({at.module, std::move(frames)}, at, 0).first->second;
    sum.second += instructions;
  }

  const profile::Profile& profile_;
  const symbols::ModuleSet& modules_;
  CodeCosts costs_;
  std::map<std::pair<uint32_t, std::vector<StackFrame>>, std::pair<CodeRef, uint64_t>> sums_;
};

Caller caller(const profile::Profile& profile, const profile::ContextRow& row) {
  if (profile::is_code(row))
    return {row.at, function_frame(profile, find_function(profile.functions, row.at), row.at)};
  return caller_of_kind(row.kind);
}

// The chains of each function, and contexts' instructions divided among them.
class ByContext {
 public:
  ByContext(const profile::Profile& profile, std::vector<Stack> flat) : profile_(profile) {
    for (Stack& stack : flat) {
      const profile::Function* f = find_function(profile.functions, *stack.at);
      Chains& chains = chains_[f == nullptr ? *stack.at : f->at];
      chains.instructions += stack.instructions;
      chains.stacks.push_back(std::move(stack));
    }
    for (const profile::ContextRow& row : contexts()) all_ += row.self;
  }

  std::vector<Stack> divide() {
    std::vector<Stack> result;
    for (uint32_t i = 0; i < contexts().size(); i++) {
      const profile::ContextRow& row = contexts()[i];
      if (row.self == 0) continue;
      std::vector<Caller> callers = callers_of(profile_, i);
      Caller own = caller(profile_, row);
      const auto chains = own.at ? chains_.find(*own.at) : chains_.end();
      const bool worth =
          static_cast<double>(row.self) >= kWorthDividing * static_cast<double>(all_);
      if (chains == chains_.end() || !worth)
        result.push_back({own.at, std::move(callers), {std::move(own.frame)}, row.self});
      else
        divide(row.self, callers, chains->second, result);
    }
    return result;
  }

 private:
  struct Chains {
    std::vector<Stack> stacks;
    uint64_t instructions = 0;
  };

  const profile::ContextTable& contexts() const { return profile_.tables.contexts; }

  // Rounded so that the parts add up to the whole.
  static void divide(uint64_t self, const std::vector<Caller>& callers, const Chains& chains,
                     std::vector<Stack>& result) {
    uint64_t before = 0, given = 0;
    for (const Stack& stack : chains.stacks) {
      before += stack.instructions;
      const auto upto =
          static_cast<uint64_t>(static_cast<Wide>(self) * before / chains.instructions);
      if (upto > given) result.push_back({stack.at, callers, stack.frames, upto - given});
      given = upto;
    }
  }

  const profile::Profile& profile_;
  std::map<CodeRef, Chains> chains_;  // by function; by place where there is none
  uint64_t all_ = 0;
};

}  // namespace

StackFrame function_frame(const profile::Profile& profile, const profile::Function* f, CodeRef at) {
  if (f == nullptr) {
    const std::string name = profile::unknown_code_name(profile.modules[at.module]);
    return {name, name, "", 0, 0};
  }
  // One made up from its offset means something with its module only.
  const std::string& path = profile.modules[f->at.module].path;
  const std::string name = f->name.starts_with("function@")
                               ? function_or_address({path, f->at.offset, f->name, "", 0})
                               : f->name;
  return {name, f->linkage_name.empty() ? name : f->linkage_name, f->file, f->line, f->line};
}

std::vector<StackFrame> frames_at(const profile::Profile& profile,
                                  const symbols::ModuleSet& modules, const profile::Function* f,
                                  CodeRef at) {
  if (f == nullptr || f->file.empty()) return {function_frame(profile, f, at)};
  std::vector<symbols::SourceFrame> known = modules.frames(at);
  if (known.empty()) return {function_frame(profile, f, at)};
  std::vector<StackFrame> frames;
  for (auto frame = known.rbegin(); frame != known.rend(); ++frame) {
    StackFrame s{frame->function, frame->linkage_name, frame->file, frame->line,
                 frame->function_line};
    if (frames.empty() || s.name.empty()) s.name = frames.empty() ? f->name : "[unnamed]";
    if (frames.empty()) s.linkage_name = f->linkage_name;
    if (s.linkage_name.empty()) s.linkage_name = s.name;
    frames.push_back(std::move(s));
  }
  return frames;
}

Caller caller_of_kind(profile::ContextKind kind) {
  const std::string label = profile::context_label(kind);
  return {std::nullopt, {label, label, "", 0, 0}};
}

std::vector<Caller> callers_of(const profile::Profile& profile, uint32_t context) {
  std::vector<Caller> callers;
  for (uint32_t at : context_chain(profile.tables.contexts, context))
    callers.push_back(caller(profile, profile.tables.contexts[at]));
  callers.pop_back();
  return callers;
}

std::vector<Stack> stacks(const profile::Profile& profile, const symbols::ModuleSet& modules) {
  std::vector<Stack> flat = Collector(profile, modules).collect();
  if (profile.tables.contexts.empty()) return flat;
  return ByContext(profile, std::move(flat)).divide();
}

}  // namespace shadowprof::report
