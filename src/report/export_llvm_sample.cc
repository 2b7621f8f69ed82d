// SPDX-License-Identifier: MIT
//
// LLVM's sample profile as text (clang's manual, "Sample Profile Text Format"): for each function
// its lines, relative to where it begins, with the count of the most executed instruction of each
// line; calls with their callees; inlined functions nested where they were inlined. Totals
// are executed instructions, as llvm-profgen counts them.
//
// A line of count 0 says that it was not executed, where a line that is left out says nothing. So
// the code of a function that executed is listed in full: what no block of the profile has gets 0.
// Nothing is said of functions that never executed.
//
// LLVM keeps counts in 64 bits, but weights of branches and calls in 32, and does not scale down
// what is larger. So counts are divided until the highest fits.
//
// Discriminators tell parts of one line apart. LLVM packs three numbers into each (the header of
// llvm/IR/DebugInfoMetadata.h documents it): the base discriminator, by which profiles are matched,
// how often an optimisation multiplied the code, and which copy this is. A loop that was unrolled
// four times runs each copy a quarter as often, so counts are multiplied again.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <span>

#include "base/printable.h"
#include "decoder/insn.h"
#include "report/code_costs.h"
#include "report/export.h"

namespace shadowprof::report {
namespace {

using profile::CallPair;
using profile::CodeRef;
using profile::Function;
using profile::Profile;
using symbols::SourceFrame;

// Components are of 1, 7 or 14 bits: a set lowest bit is a 0, bit 6 says that there are 14.
uint32_t first_component(uint32_t discriminator) {
  if ((discriminator & 1) != 0) return 0;
  const uint32_t d = discriminator >> 1;
  return (d & 0x20) != 0 ? ((d >> 1) & 0xfe0) | (d & 0x1f) : d & 0x1f;
}

uint32_t other_components(uint32_t discriminator) {
  if ((discriminator & 1) != 0) return discriminator >> 1;
  return discriminator >> ((discriminator & 0x40) != 0 ? 14 : 7);
}

uint64_t duplication(uint32_t discriminator) {
  const uint32_t factor = first_component(other_components(discriminator));
  return factor == 0 ? 1 : factor;
}

struct Location {
  uint32_t line = 0;  // from the function's first on
  uint32_t discriminator = 0;
  auto operator<=>(const Location&) const = default;
};

Location location_of(const SourceFrame& frame) {
  // Code that was included or expanded before the function begins is put on its first line, as
  // LLVM does: 16 bits are kept of the difference.
  const uint32_t line = frame.line < frame.function_line ? 0 : frame.line - frame.function_line;
  return {line & 0xffff, first_component(frame.discriminator)};
}

// What ".llvm." introduces is the number of a compilation unit.
std::string canonical_name(const std::string& name) {
  return name.substr(0, name.find(".llvm."));
}

// Blanks and colons separate what a line of this format says.
std::string word(const std::string& name) {
  std::string text;
  for (const char c : printable(name)) {
    if (c == ' ' || c == ':')
      text += c == ' ' ? "\\x20" : "\\x3a";
    else
      text += c;
  }
  return text;
}

struct Body {
  uint64_t count = 0;
  std::map<std::string, uint64_t> callees;
};

struct Samples {
  std::map<Location, Body> lines;
  std::map<Location, std::map<std::string, std::unique_ptr<Samples>>> inlined;
  uint64_t own = 0;  // executed instructions that are not in inlined functions
  uint64_t head = 0;

  uint64_t total() const {
    uint64_t sum = own;
    for (const auto& [at, calls] : inlined)
      for (const auto& [name, samples] : calls) sum += samples->total();
    return sum;
  }
  uint64_t highest() const {
    uint64_t most = 0;
    for (const auto& [at, body] : lines) {
      most = std::max(most, body.count);
      for (const auto& [callee, count] : body.callees) most = std::max(most, count);
    }
    for (const auto& [at, calls] : inlined)
      for (const auto& [name, samples] : calls) most = std::max(most, samples->highest());
    return most;
  }
};

class SampleProfile {
 public:
  explicit SampleProfile(const ExportInput& input) : input_(input) {}

  std::string make() {
    const Profile& p = input_.profile;
    const CodeCosts costs(p, input_.modules);
    for (size_t i = 0; i < p.tables.blocks.size(); i++) {
      if (p.tables.blocks[i].at.module != input_.module) continue;
      for (const InsnCost& insn : costs.instructions(i)) add_instruction(insn);
    }
    for (const Function& f : p.functions)
      if (f.at.module == input_.module && functions_.contains(name_of(f))) add_unexecuted(f);
    for (const CallPair& c : p.tables.calls)
      if (c.site.module == input_.module) add_call(c);
    for (const profile::Entry& e : p.tables.entries) {
      const Function* f = find_function(p.functions, e.at);
      if (f != nullptr && f->at == e.at && e.at.module == input_.module)
        if (const auto at = functions_.find(name_of(*f)); at != functions_.end())
          at->second.head += e.invocations;
    }
    std::multimap<uint64_t, const std::string*, std::greater<>> by_weight;
    uint64_t highest = 0;
    for (auto& [name, samples] : functions_) {
      by_weight.emplace(samples.total(), &name);
      highest = std::max({highest, samples.head, samples.highest()});
    }
    divisor_ = highest / (uint64_t{std::numeric_limits<uint32_t>::max()} + 1) + 1;
    std::string text;
    for (const auto& [total, name] : by_weight)
      if (total != 0) write(*name, functions_.at(*name), text);
    return text;
  }

 private:
  static std::string name_of(const Function& f) {
    return word(canonical_name(f.linkage_name.empty() ? f.name : f.linkage_name));
  }
  static std::string name_of(const SourceFrame& f) {
    return word(canonical_name(f.linkage_name.empty() ? f.function : f.linkage_name));
  }

  // Where the counts of an instruction belong; null: not known.
  Samples* samples_at(CodeRef at, Location& location, uint64_t& factor) {
    const Function* f = find_function(input_.profile.functions, at);
    if (f == nullptr) return nullptr;
    const auto frames = input_.modules.frames(at);
    if (frames.empty() || frames[0].line == 0) return nullptr;
    for (const SourceFrame& frame : frames)
      if (frame.function_line == 0) return nullptr;
    Samples* samples = &functions_[name_of(*f)];
    for (size_t i = frames.size(); i-- > 1;) {
      auto& inlined = samples->inlined[location_of(frames[i])][name_of(frames[i - 1])];
      if (!inlined) inlined = std::make_unique<Samples>();
      samples = inlined.get();
    }
    location = location_of(frames[0]);
    factor = duplication(frames[0].discriminator);
    return samples;
  }

  void add_instruction(const InsnCost& insn) {
    Location location;
    uint64_t factor = 1;
    Samples* samples = samples_at(insn.at, location, factor);
    if (samples == nullptr) return;
    samples->own += insn.count * factor;
    uint64_t& count = samples->lines[location].count;
    count = std::max(count, insn.count * factor);
  }

  // The function's instructions that no block has, each with count 0.
  void add_unexecuted(const Function& f) {
    const auto& blocks = input_.profile.tables.blocks;
    auto block = std::lower_bound(blocks.begin(), blocks.end(), f.at,
                                  [](const auto& b, CodeRef at) { return b.at < at; });
    const auto size = static_cast<uint32_t>(std::min<uint64_t>(f.size, kMostCodeBytes));
    const std::vector<uint8_t> code = input_.modules.code(f.at, size);
    size_t done = 0;
    while (done < code.size()) {
      const CodeRef at{f.at.module, f.at.offset + done};
      while (block != blocks.end() && block->at < at) ++block;
      if (block != blocks.end() && block->at == at && block->size != 0) {
        done += block->size;
        continue;
      }
      const auto insn = decoder::decode(std::span(code).subspan(done), GuestAddr(at.offset));
      if (insn.length == 0) return;
      add_instruction({at, insn.length, 0});
      done += insn.length;
    }
  }

  void add_call(const CallPair& c) {
    const Function* callee = find_function(input_.profile.functions, c.callee);
    Location location;
    uint64_t factor = 1;
    if (callee == nullptr || callee->name.starts_with("function@")) return;
    Samples* samples = samples_at(c.site, location, factor);
    if (samples != nullptr) samples->lines[location].callees[name_of(*callee)] += c.count * factor;
  }

  static std::string text_of(Location at) {
    return at.discriminator == 0 ? fmt::format("{}", at.line)
                                 : fmt::format("{}.{}", at.line, at.discriminator);
  }

  // What executed at all stays above 0.
  uint64_t scaled(uint64_t count) const { return count / divisor_ + (count % divisor_ != 0); }

  void write(const std::string& name, const Samples& samples, std::string& text) const {
    text += fmt::format("{}:{}:{}\n", name, scaled(samples.total()), scaled(samples.head));
    write_body(samples, " ", text);
  }

  void write_body(const Samples& samples, const std::string& indent, std::string& text) const {
    for (const auto& [at, body] : samples.lines) {
      text += fmt::format("{}{}: {}", indent, text_of(at), scaled(body.count));
      for (const auto& [callee, count] : body.callees)
        text += fmt::format(" {}:{}", callee, scaled(count));
      text += '\n';
    }
    for (const auto& [at, calls] : samples.inlined) {
      for (const auto& [name, inlined] : calls) {
        text += fmt::format("{}{}: {}:{}\n", indent, text_of(at), name, scaled(inlined->total()));
        write_body(*inlined, indent + " ", text);
      }
    }
  }

  static constexpr uint64_t kMostCodeBytes = uint64_t{1} << 20;  // that one question may be about

  const ExportInput& input_;
  uint64_t divisor_ = 1;
  std::map<std::string, Samples> functions_;
};

}  // namespace

Result<std::string> export_llvm_sample(const ExportInput& input) {
  SP_TRY(input.modules.open(input.module));
  std::string text = SampleProfile(input).make();
  if (text.empty())
    return fail("{} has no debug information: compile it with -g",
                input.profile.modules[input.module].path);
  return text;
}

}  // namespace shadowprof::report
