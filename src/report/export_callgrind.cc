// SPDX-License-Identifier: MIT
//
// Callgrind's profile format (valgrind manual, "Callgrind Format Specification"): instructions per
// address and source line of each function, and its calls with their count and inclusive cost.
// Addresses are offsets in the file. Files of inlined code are given by fi and fe.
#include <map>

#include "report/code_costs.h"
#include "report/columns.h"
#include "report/export.h"
#include "report/stacks.h"

namespace shadowprof::report {
namespace {

using profile::CallPair;
using profile::CodeRef;
using profile::Function;
using profile::Profile;

// Names are written once, with a number that stands for them from then on.
class Names {
 public:
  std::string operator()(const std::string& name) {
    const auto [at, added] = numbers_.try_emplace(name, numbers_.size() + 1);
    const std::string number = fmt::format("({})", at->second);
    return added ? number + " " + printable(name) : number;
  }

 private:
  std::map<std::string, size_t> numbers_;
};

class Writer {
 public:
  explicit Writer(const ExportInput& input)
      : profile_(input.profile), modules_(input.modules), costs_(input.profile, input.modules) {}

  std::string write() {
    header();
    // Blocks and calls by the function that they stand in; null: unknown code of one module.
    std::map<std::pair<uint32_t, const Function*>, Body> bodies;
    const auto key = [&](CodeRef at) {
      return std::pair(at.module, find_function(profile_.functions, at));
    };
    for (size_t i = 0; i < profile_.tables.blocks.size(); i++)
      bodies[key(profile_.tables.blocks[i].at)].blocks.push_back(i);
    for (const CallPair& c : profile_.tables.calls) bodies[key(c.site)].calls.push_back(&c);
    for (const auto& [where, body] : bodies) {
      begin_function(where.first, where.second);
      for (const size_t block : body.blocks) write_block(block, where.second);
      for (const CallPair* c : body.calls) write_call(*c, where.second);
    }
    text_ += fmt::format("\ntotals: {}\n", profile_.coverage.attributed);
    return std::move(text_);
  }

 private:
  struct Body {
    std::vector<size_t> blocks;
    std::vector<const CallPair*> calls;
  };

  void header() {
    text_ = "# callgrind format\nversion: 1\ncreator: shadowprof\n";
    std::string command;
    for (const std::string& word : profile_.run.command) command += " " + printable(word);
    text_ += fmt::format("cmd:{}\npositions: instr line\nevents: Ir\n", command);
    text_ += fmt::format("summary: {}\n", profile_.coverage.attributed);
  }

  static std::string name_of(const Function* f) { return f == nullptr ? "???" : f->name; }
  static std::string file_of(const Function* f) {
    return f == nullptr || f->file.empty() ? "???" : f->file;
  }

  void begin_function(uint32_t module, const Function* f) {
    file_ = file_of(f);
    text_ +=
        fmt::format("\nob={}\nfl={}\nfn={}\n", objects_(module_label(profile_.modules[module])),
                    files_(file_), functions_(name_of(f)));
  }

  // The line of an instruction; says so if it is in another file than the one before.
  uint32_t position(CodeRef at, const Function* f) {
    const auto line = f == nullptr || f->file.empty() ? std::nullopt : modules_.line(at);
    const std::string file = line && !line->file.empty() ? line->file : file_of(f);
    if (file != file_) {
      file_ = file;
      text_ += fmt::format("{}={}\n", file == file_of(f) ? "fe" : "fi", files_(file));
    }
    return line ? line->line : f == nullptr ? 0 : f->line;
  }

  void write_block(size_t block, const Function* f) {
    const auto insns = costs_.instructions(block);
    if (insns.empty()) {
      const CodeRef at = profile_.tables.blocks[block].at;
      const uint32_t line = position(at, f);
      text_ += fmt::format("{:#x} {} {}\n", at.offset, line, costs_.executed(block));
    }
    for (const InsnCost& insn : insns) {
      if (insn.count == 0) continue;
      const uint32_t line = position(insn.at, f);
      text_ += fmt::format("{:#x} {} {}\n", insn.at.offset, line, insn.count);
    }
  }

  void write_call(const CallPair& c, const Function* f) {
    const Function* callee = find_function(profile_.functions, c.callee);
    const uint32_t line = position(c.site, f);
    text_ +=
        fmt::format("cob={}\ncfi={}\ncfn={}\ncalls={} {:#x} {}\n{:#x} {} {}\n",
                    objects_(module_label(profile_.modules[c.callee.module])),
                    files_(file_of(callee)), functions_(name_of(callee)), c.count, c.callee.offset,
                    callee == nullptr ? 0 : callee->line, c.site.offset, line, c.inclusive);
  }

  const Profile& profile_;
  const symbols::ModuleSet& modules_;
  CodeCosts costs_;
  Names objects_;
  Names files_;
  Names functions_;
  std::string file_;
  std::string text_;
};

}  // namespace

Result<std::string> export_callgrind(const ExportInput& input) {
  return Writer(input).write();
}

}  // namespace shadowprof::report
