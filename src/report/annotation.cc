// SPDX-License-Identifier: MIT
#include "report/annotation.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <map>
#include <span>

#include "decoder/insn.h"
#include "report/code_costs.h"
#include "report/columns.h"

namespace shadowprof::report {

using profile::CodeRef;
using profile::EdgeKind;
using profile::Function;
using profile::Profile;

namespace {

constexpr size_t kMostCandidates = 12;
constexpr uint32_t kMostFilled = 5;
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
    std::map<std::pair<std::string, uint32_t>, AnnotatedLine> sums;
    for (const AnnotatedInsn& insn : result_.instructions) {
      if (insn.line == 0) continue;
      AnnotatedLine& line = sums[{insn.file, insn.line}];
      line.instructions += insn.count;
      line.executions = std::max(line.executions, insn.count);
    }
    bool readable = false, newer = false;
    tm started{};
    const bool dated =
        ::strptime(profile_.run.started.c_str(), "%Y-%m-%dT%H:%M:%SZ", &started) != nullptr;
    for (auto& [key, line] : sums) {
      line.file = key.first;
      line.line = key.second;
      line.text = sources_.line(line.file, line.line);
      readable = readable || line.text;
      newer = newer || (dated && sources_.modified(line.file) > ::timegm(&started));
      fill_before(line);
      result_.lines.push_back(std::move(line));
    }
    note_refusals();
    sort_files();
    if (result_.lines.empty())
      result_.notes.emplace_back("the file has no debug information for this function");
    else if (!readable)
      result_.notes.emplace_back("the source is not on this host");
    const symbols::ModuleSymbols* module = modules_.find(result_.function.at.module);
    if (module != nullptr && !module->missing_lines().empty())
      result_.notes.push_back(module->missing_lines());
    if (newer)
      result_.notes.emplace_back(
          "source was changed since the run: lines may not be those that ran");
  }

  void note_refusals() {
    const std::string* last = nullptr;
    for (const AnnotatedLine& line : result_.lines) {
      if (last != nullptr && *last == line.file) continue;
      last = &line.file;
      if (const std::string& refusal = sources_.refusal(line.file); !refusal.empty())
        result_.notes.push_back(refusal);
    }
  }

  // The function's own file first, then those with the most instructions; lines in order.
  void sort_files() {
    std::map<std::string, uint64_t> instructions;
    for (const AnnotatedLine& line : result_.lines) instructions[line.file] += line.instructions;
    if (const auto own = instructions.find(result_.function.file); own != instructions.end())
      own->second = ~uint64_t{0};
    std::stable_sort(result_.lines.begin(), result_.lines.end(),
                     [&](const AnnotatedLine& a, const AnnotatedLine& b) {
                       return a.file != b.file && instructions[a.file] > instructions[b.file];
                     });
  }

  // Lines without instructions (a brace, a comment) from the one before to `next`, if they are few.
  void fill_before(const AnnotatedLine& next) {
    if (next.file != result_.function.file || !next.text || result_.lines.empty() ||
        result_.lines.back().file != next.file)
      return;
    const uint32_t after = result_.lines.back().line;
    if (next.line - after - 1 > kMostFilled) return;
    for (uint32_t n = after + 1; n < next.line; n++)
      result_.lines.push_back({next.file, n, 0, 0, false, sources_.line(next.file, n)});
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

Result<const Function*> choose_function(const Profile& profile, std::string_view name) {
  const size_t plus = name.rfind("+0x");
  const auto offset = plus == std::string_view::npos ? std::nullopt : offset_in(name, plus);
  if (offset)
    if (const Function* f = function_at(profile, name.substr(0, plus), *offset)) return f;
  const std::string_view plain = offset ? name.substr(0, plus) : name;
  const auto one = [&](std::string_view wanted) {
    auto found = functions_that(
        profile, [&](const Function& f) { return f.name == wanted || f.linkage_name == wanted; });
    if (found.empty())
      found = functions_that(
          profile, [&](const Function& f) { return without_parameters(f.name) == wanted; });
    return found;
  };
  auto found = one(name);
  if (found.empty() && offset) found = one(plain);
  if (found.size() == 1) return found[0];
  if (found.size() > 1)
    return fail("{} functions are called {}: {}; name one by what is in parentheses", found.size(),
                printable(plain), candidates(profile, found));
  const auto similar = functions_that(profile, [&](const Function& f) {
    return !plain.empty() && f.name.find(plain) != std::string::npos;
  });
  if (similar.empty())
    return fail("no function called {} executed (see shadowprof report)", printable(plain));
  return fail("no function called {} executed; names that contain it: {}", printable(plain),
              candidates(profile, similar));
}

Result<Annotation> annotate(const Profile& profile, const symbols::ModuleSet& modules,
                            const Function& function, SourceFiles& sources) {
  if (const auto opened = modules.open(function.at.module); !opened)
    return fail("{} cannot be annotated: {}", printable(function.name), opened.error().message);
  return Annotator(profile, modules, function, sources).annotate();
}

}  // namespace shadowprof::report
