// SPDX-License-Identifier: MIT
#include "report/annotation.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <span>

#include "decoder/insn.h"
#include "report/annotated_lines.h"
#include "report/code_costs.h"
#include "report/columns.h"

namespace shadowprof::report {

using profile::CodeRef;
using profile::EdgeKind;
using profile::Function;
using profile::Profile;

namespace {

constexpr size_t kMostCandidates = 12;
// What ModuleSet::code gives at once.
constexpr uint64_t kMostBytes = uint64_t{1} << 20;

std::string place_name(const Profile& profile, CodeRef at) {
  const std::string& path = profile.modules[at.module].path;
  return fmt::format("{}+{:#x}", path.empty() ? "[anonymous]" : printable(file_name(path)),
                     at.offset);
}

std::string without_parameters(const std::string& name) {
  return function_or_address({"", 0, name, "", 0});
}

std::string candidates(const Profile& profile, std::vector<const Function*> list) {
  std::sort(list.begin(), list.end(),
            [](const Function* a, const Function* b) { return a->self > b->self; });
  std::string text;
  for (size_t i = 0; i < std::min(list.size(), kMostCandidates); i++)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", fit(printable(list[i]->name), 100),
                        place_name(profile, list[i]->at));
  if (list.size() > kMostCandidates)
    text += fmt::format(" and {} more", list.size() - kMostCandidates);
  return text;
}

// The offset behind the last "+0x" of a handle.
std::optional<uint64_t> offset_in(std::string_view name, size_t plus) {
  uint64_t offset = 0;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + plus + 3, end, offset, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return offset;
}

template <typename Fits>
std::vector<const Function*> functions_that(const Profile& profile, Fits fits) {
  std::vector<const Function*> result;
  for (const Function& f : profile.functions)
    if (fits(f)) result.push_back(&f);
  return result;
}

// Module+0xOFFSET, or null.
const Function* function_at(const Profile& profile, std::string_view module, uint64_t offset) {
  for (uint32_t i = 0; i < profile.modules.size(); i++) {
    const std::string& path = profile.modules[i].path;
    if (path != module && file_name(path) != module) continue;
    if (const Function* f = find_function(profile.functions, {i, offset})) return f;
  }
  return nullptr;
}

class Annotator {
 public:
  Annotator(const Profile& profile, const symbols::ModuleSet& modules, const Function& function,
            SourceFiles& sources)
      : profile_(profile), modules_(modules), sources_(sources), costs_(profile, modules) {
    result_.function = function;
    const profile::Module& module = profile.modules[function.at.module];
    result_.module = module.path;
    result_.build_id = module.build_id;
    result_.attributed = profile.coverage.attributed;
    result_.exact = profile.confidence.exact;
    result_.estimated = profile.coverage.estimated;
  }

  Annotation annotate() {
    counted();
    fill_gaps();
    outcomes();
    figures();
    for (AnnotatedInsn& insn : result_.instructions) result_.executed += insn.count;
    lines();
    note_inlined();
    return std::move(result_);
  }

 private:
  bool within(CodeRef at) const {
    const Function& f = result_.function;
    return at.module == f.at.module && at.offset >= f.at.offset && at.offset - f.at.offset < f.size;
  }
  AnnotatedInsn* find(CodeRef at) {
    const auto it = by_offset_.find(at.offset);
    return within(at) && it != by_offset_.end() ? &result_.instructions[it->second] : nullptr;
  }

  // Instructions of blocks that executed.
  void counted() {
    const auto& blocks = profile_.tables.blocks;
    uint64_t changed = 0;
    for (size_t i = 0; i < blocks.size(); i++) {
      const CodeRef last{blocks[i].at.module,
                         blocks[i].at.offset + std::max<uint32_t>(blocks[i].size, 1) - 1};
      if (!within(blocks[i].at) && !within(last)) continue;
      const auto insns = costs_.instructions(i);
      if (insns.empty() && within(blocks[i].at)) changed += costs_.executed(i);
      for (const InsnCost& insn : insns) {
        if (!within(insn.at)) continue;
        AnnotatedInsn& known = counted_[insn.at.offset];
        known.at = insn.at;
        known.length = insn.length;
        known.count += insn.count;
      }
    }
    if (changed != 0)
      result_.notes.push_back(fmt::format(
          "{} instructions executed in code that was not as the file has it: they are not shown",
          changed));
  }

  // Code that did not execute, read in order from the end of what did.
  void fill_gaps() {
    const Function& f = result_.function;
    const std::vector<uint8_t> code =
        modules_.code(f.at, static_cast<uint32_t>(std::min(f.size, kMostBytes)));
    if (code.size() < f.size)
      result_.notes.push_back(
          fmt::format("only {} of the function's {} bytes are shown", code.size(), f.size));
    uint64_t cursor = f.at.offset;
    const uint64_t end = f.at.offset + code.size();
    auto next = counted_.begin();
    while (cursor < end || next != counted_.end()) {
      if (next != counted_.end() && next->first <= cursor) {
        add(next->second, code);
        cursor = std::max(cursor, next->first + next->second.length);
        ++next;
        continue;
      }
      if (cursor >= end) break;
      const auto rest = std::span(code).subspan(cursor - f.at.offset);
      const uint64_t limit = next == counted_.end() ? end : next->first;
      AnnotatedInsn insn;
      insn.at = {f.at.module, cursor};
      const uint8_t length = decoder::decode(rest, GuestAddr(cursor)).length;
      insn.length = length == 0 || cursor + length > limit ? 1 : length;
      add(insn, code);
      cursor += insn.length;
    }
  }

  void add(AnnotatedInsn insn, std::span<const uint8_t> code) {
    const uint64_t from = insn.at.offset - result_.function.at.offset;
    if (from >= code.size()) return;
    const auto bytes = code.subspan(from);
    const auto size = std::min<size_t>(insn.length, bytes.size());
    insn.text = text_of(insn.at, bytes.first(size));
    const auto frames = modules_.frames(insn.at);
    for (const symbols::SourceFrame& frame : frames) {
      if (frame.line == 0) continue;
      insn.file = frame.file;
      insn.line = frame.line;
      break;
    }
    if (frames.size() > 1) insn.inlined = frames[0].function;
    by_offset_[insn.at.offset] = result_.instructions.size();
    result_.instructions.push_back(std::move(insn));
  }

  // By the addresses that the linker gave, as other tools show them; targets of branches by name.
  std::string text_of(CodeRef at, std::span<const uint8_t> bytes) const {
    const symbols::AddressMap& map = modules_.find(at.module)->addresses();
    const uint64_t address = map.to_vaddr(at.offset).value_or(at.offset);
    std::string text = decoder::disassemble(bytes, GuestAddr(address));
    const decoder::Insn insn = decoder::decode(bytes, GuestAddr(address));
    const size_t blank = text.find(' ');
    if (insn.branch_target == GuestAddr() || blank == std::string::npos) return text;
    const auto offset = map.to_offset(insn.branch_target.value);
    if (!offset) return text;
    const CodeRef to{at.module, *offset};
    const Function* f = find_function(profile_.functions, to);
    if (within(to))
      text.replace(blank + 1, std::string::npos,
                   fmt::format("+{:#x}", *offset - result_.function.at.offset));
    else if (f != nullptr)
      text.replace(blank + 1, std::string::npos, f->name);
    return text;
  }

  void outcomes() {
    for (const profile::Edge& edge : profile_.tables.edges) {
      AnnotatedInsn* insn = find(edge.from);
      if (insn == nullptr) continue;
      const Function* f = find_function(profile_.functions, edge.to);
      std::string name = f == nullptr ? place_name(profile_, edge.to) : f->name;
      if (f != nullptr && edge.to != f->at)
        name += fmt::format("+{:#x}", edge.to.offset - f->at.offset);
      insn->outcomes.push_back({edge.to, std::move(name), edge.kind, edge.count});
    }
    for (AnnotatedInsn& insn : result_.instructions)
      std::stable_sort(insn.outcomes.begin(), insn.outcomes.end(),
                       [](const Outcome& a, const Outcome& b) { return a.count > b.count; });
  }

  void figures() {
    for (const profile::LatencyRow& row : profile_.tables.latencies)
      if (AnnotatedInsn* insn = find(row.at)) insn->load = &row;
    for (const profile::ValueRow& row : profile_.tables.values) {
      AnnotatedInsn* insn = find(row.at);
      if (insn == nullptr || row.constant) continue;
      if (insn->value == nullptr || insn->value->figures.count < row.figures.count)
        insn->value = &row;
    }
  }

  void lines() {
    LineSums sums;
    for (const AnnotatedInsn& insn : result_.instructions) {
      if (insn.line == 0) continue;
      AnnotatedLine& line = sums[{insn.file, insn.line}];
      line.instructions += insn.count;
      line.executions = std::max(line.executions, insn.count);
    }
    add_lines(profile_, modules_.find(result_.function.at.module), sources_, std::move(sums),
              result_);
  }

  // Copies of it that have no symbol. The symbol may have the parameters that debug information
  // leaves out; the declaration is the same.
  void note_inlined() {
    const Function& own = result_.function;
    for (const profile::InlinedFunction& f : profile_.inlined) {
      const bool same_place = f.line != 0 && f.line == own.line && f.file == own.file;
      if (f.module != own.at.module || (!same_place && f.name != own.name)) continue;
      result_.notes.push_back(fmt::format(
          "it was inlined, too, with {} instructions of its own in {} place{}: annotate "
          "--inlined shows these",
          f.self, f.places.size(), f.places.size() == 1 ? "" : "s"));
    }
  }

  const Profile& profile_;
  const symbols::ModuleSet& modules_;
  SourceFiles& sources_;
  CodeCosts costs_;
  Annotation result_;
  std::map<uint64_t, AnnotatedInsn> counted_;
  std::map<uint64_t, size_t> by_offset_;
};

}  // namespace

bool AnnotatedInsn::conditional() const {
  return std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) {
    return o.kind == EdgeKind::taken || o.kind == EdgeKind::not_taken;
  });
}

double AnnotatedInsn::taken_share() const {
  uint64_t taken = 0, all = 0;
  for (const Outcome& o : outcomes) {
    if (o.kind != EdgeKind::taken && o.kind != EdgeKind::not_taken) continue;
    all += o.count;
    if (o.kind == EdgeKind::taken) taken += o.count;
  }
  return all == 0 ? 0 : static_cast<double>(taken) / static_cast<double>(all);
}

std::string Annotation::handle(const AnnotatedInsn& insn) const {
  return fmt::format("{}+{:#x}", function.name, insn.at.offset - function.at.offset);
}

std::vector<const Function*> functions_called(const Profile& profile, std::string_view name) {
  auto found = functions_that(
      profile, [&](const Function& f) { return f.name == name || f.linkage_name == name; });
  if (found.empty())
    found = functions_that(
        profile, [&](const Function& f) { return without_parameters(f.name) == name; });
  return found;
}

Result<const Function*> choose_function(const Profile& profile, std::string_view name) {
  const size_t plus = name.rfind("+0x");
  const auto offset = plus == std::string_view::npos ? std::nullopt : offset_in(name, plus);
  if (offset)
    if (const Function* f = function_at(profile, name.substr(0, plus), *offset)) return f;
  const std::string_view plain = offset ? name.substr(0, plus) : name;
  auto found = functions_called(profile, name);
  if (found.empty() && offset) found = functions_called(profile, plain);
  if (found.size() == 1) return found[0];
  if (found.size() > 1)
    return fail("{} functions are called {}: {}; name one by what is in parentheses", found.size(),
                printable(plain), candidates(profile, found));
  const auto similar = functions_that(profile, [&](const Function& f) {
    return !plain.empty() && f.name.find(plain) != std::string::npos;
  });
  std::string names = similar.empty() ? "" : candidates(profile, similar);
  if (const std::string inlined = inlined_names(profile, plain); !inlined.empty())
    names += (names.empty() ? "inlined: " : "; inlined: ") + inlined;
  if (names.empty())
    return fail("no function called {} executed (see shadowprof report)", printable(plain));
  return fail("no function called {} executed; names that contain it: {}", printable(plain), names);
}

Result<Annotation> annotate(const Profile& profile, const symbols::ModuleSet& modules,
                            const Function& function, SourceFiles& sources) {
  if (const auto opened = modules.open(function.at.module); !opened)
    return fail("{} cannot be annotated: {}", printable(function.name), opened.error().message);
  return Annotator(profile, modules, function, sources).annotate();
}

}  // namespace shadowprof::report
