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
        add(at, {frame_of(f, at)}, costs_.executed(block));
        continue;
      }
      for (const InsnCost& insn : insns) add(insn.at, frames_at(f, insn.at), insn.count);
    }
    std::vector<Stack> result;
    for (auto& [key, sum] : sums_)
      if (sum.second != 0) result.push_back({sum.first, key.second, sum.second});
    return result;
  }

 private:
  void add(CodeRef at, std::vector<StackFrame> frames, uint64_t instructions) {
    auto& sum = sums_.try_emplace({at.module, std::move(frames)}, at, 0).first->second;
    sum.second += instructions;
  }

  StackFrame frame_of(const profile::Function* f, CodeRef at) const {
    if (f == nullptr) {
      const std::string name =
          "[unknown code of " + module_label(profile_.modules[at.module]) + "]";
      return {name, name, "", 0, 0};
    }
    return {f->name, f->linkage_name.empty() ? f->name : f->linkage_name, f->file, f->line,
            f->line};
  }

  std::vector<StackFrame> frames_at(const profile::Function* f, CodeRef at) const {
    std::vector<symbols::SourceFrame> known = modules_.frames(at);
    if (known.empty()) return {frame_of(f, at)};
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

  const profile::Profile& profile_;
  const symbols::ModuleSet& modules_;
  CodeCosts costs_;
  std::map<std::pair<uint32_t, std::vector<StackFrame>>, std::pair<CodeRef, uint64_t>> sums_;
};

}  // namespace

std::vector<Stack> stacks(const profile::Profile& profile, const symbols::ModuleSet& modules) {
  return Collector(profile, modules).collect();
}

std::string module_label(const profile::Module& module) {
  if (module.path.empty()) return "[anonymous]";
  return module.path.substr(module.path.rfind('/') + 1);
}

}  // namespace shadowprof::report
