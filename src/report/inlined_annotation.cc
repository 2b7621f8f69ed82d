// SPDX-License-Identifier: MIT
//
// Annotation of a function that was inlined: the sum over all its places. Which code that is, debug
// information says again, as when the profile was made (profile/tables/inlined_table.h): the
// functions that it is in are gone through, each instruction with the inlined calls that it is part
// of.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "decoder/insn.h"
#include "report/annotated_lines.h"
#include "report/code_costs.h"
#include "report/columns.h"

namespace shadowprof::report {

using profile::CodeRef;
using profile::Function;
using profile::InlinedFunction;
using profile::Profile;
using symbols::kNoInlinedCall;

namespace {

constexpr size_t kMostCandidates = 12;
constexpr uint64_t kMostBytes = uint64_t{1} << 20;

std::string declared_at(const InlinedFunction& f) {
  if (f.file.empty()) return "";
  return fmt::format("{}:{}", file_name(f.file), f.line);
}

std::string candidates(std::vector<const InlinedFunction*> list) {
  std::ranges::stable_sort(list, std::greater<>(), &InlinedFunction::self);
  std::string text;
  for (size_t i = 0; i < std::min(list.size(), kMostCandidates); i++)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", fit(printable(list[i]->name), 100),
                        printable(declared_at(*list[i])));
  if (list.size() > kMostCandidates)
    text += fmt::format(" and {} more", list.size() - kMostCandidates);
  return text;
}

class InlinedAnnotator {
 public:
  InlinedAnnotator(const Profile& profile, const symbols::ModuleSet& modules,
                   const InlinedFunction& function, SourceFiles& sources)
      : profile_(profile),
        modules_(modules),
        symbols_(*modules.find(function.module)),
        function_(function),
        sources_(sources),
        costs_(profile, modules) {
    Function& f = result_.function;
    f.at.module = function.module;
    f.name = function.name;
    f.linkage_name = function.linkage_name;
    f.file = function.file;
    f.line = function.line;
    f.self = function.self;
    f.inclusive = function.inclusive;
    result_.inlined = true;
    result_.module = profile.modules[function.module].path;
    result_.build_id = profile.modules[function.module].build_id;
    result_.attributed = profile.coverage.attributed;
    result_.exact = profile.confidence.exact;
    result_.estimated = profile.coverage.estimated;
  }

  Annotation annotate() {
    std::set<const Function*> within;
    for (const profile::InlinedPlace& place : function_.places)
      within.insert(find_function(profile_.functions, {function_.module, place.function}));
    const bool hidden = within.erase(nullptr) != 0;
    for (const Function* f : within) go_through(*f);
    if (hidden)
      result_.notes.emplace_back("it was inlined in code without a name, too: that is not shown");
    for (auto& [key, place] : places_) result_.places.push_back(std::move(place));
    std::ranges::stable_sort(result_.places, std::greater<>(), &AnnotatedPlace::instructions);
    add_lines(profile_, &symbols_, sources_, std::move(lines_), result_);
    return std::move(result_);
  }

 private:
  struct Call {
    bool is_it = false;
    uint32_t outer = kNoInlinedCall;
    std::string file;
    uint32_t line = 0;
  };
  using Counts = std::map<uint64_t, InsnCost>;  // by offset

  const Call& call(uint32_t number) {
    const auto [entry, is_new] = calls_.try_emplace(number);
    if (is_new) {
      symbols::InlinedCall known = symbols_.inlined_call(number);
      const bool is_it = known.function == function_.name && known.file == function_.file &&
                         known.line == function_.line;
      entry->second = {is_it, known.outer, std::move(known.call_file), known.call_line};
    }
    return entry->second;
  }

  // What executed in a function.
  Counts counts_in(const Function& f) const {
    Counts counts;
    const auto& blocks = profile_.tables.blocks;
    auto block = std::ranges::lower_bound(blocks, f.at, {}, &profile::BlockCount::at);
    for (; block != blocks.end() && block->at.module == f.at.module &&
           block->at.offset - f.at.offset < f.size;
         ++block) {
      for (const InsnCost& insn :
           costs_.instructions(static_cast<size_t>(block - blocks.begin()))) {
        InsnCost& known = counts[insn.at.offset];
        known.at = insn.at;
        known.length = insn.length;
        known.count += insn.count;
      }
    }
    return counts;
  }

  void go_through(const Function& f) {
    const Counts counts = counts_in(f);
    std::map<uint32_t, LineSums> by_call;
    const std::vector<uint8_t> code =
        modules_.code(f.at, static_cast<uint32_t>(std::min(f.size, kMostBytes)));
    for (const symbols::InlinedStretch& stretch : symbols_.inlined(f.at.offset, code.size())) {
      uint32_t number = stretch.call;
      while (number != kNoInlinedCall && !call(number).is_it) number = call(number).outer;
      if (number == kNoInlinedCall) continue;
      const Call& found = call(number);
      AnnotatedPlace& place = places_[{f.at.offset, found.file, found.line}];
      place.at = f.at;
      place.function = f.name;
      place.file = found.file;
      place.line = found.line;
      for (uint64_t at = stretch.start; at < stretch.end;)
        at += add(at, std::span(code).subspan(at - f.at.offset), counts, place, by_call[number]);
    }
    // A line is executed as often as in all of its copies.
    for (const auto& [number, lines] : by_call) {
      for (const auto& [key, line] : lines) {
        lines_[key].instructions += line.instructions;
        lines_[key].executions += line.executions;
      }
    }
  }

  // The instruction's length.
  uint64_t add(uint64_t at, std::span<const uint8_t> bytes, const Counts& counts,
               AnnotatedPlace& place, LineSums& lines) {
    const auto next = counts.lower_bound(at);
    uint64_t length = std::max<uint64_t>(decoder::decode(bytes, GuestAddr(at)).length, 1);
    uint64_t count = 0;
    if (next != counts.end() && next->first == at) {
      length = next->second.length;
      count = next->second.count;
    } else if (next != counts.end()) {
      length = std::min(length, next->first - at);
    }
    place.instructions += count;
    result_.executed += count;
    for (const symbols::SourceFrame& frame : modules_.frames({function_.module, at})) {
      if (frame.line == 0) continue;
      AnnotatedLine& line = lines[{frame.file, frame.line}];
      line.instructions += count;
      line.executions = std::max(line.executions, count);
      break;
    }
    return length;
  }

  const Profile& profile_;
  const symbols::ModuleSet& modules_;
  const symbols::ModuleSymbols& symbols_;
  const InlinedFunction& function_;
  SourceFiles& sources_;
  CodeCosts costs_;
  Annotation result_;
  std::map<uint32_t, Call> calls_;
  std::map<std::tuple<uint64_t, std::string, uint32_t>, AnnotatedPlace> places_;
  LineSums lines_;
};

}  // namespace

std::string inlined_names(const Profile& profile, std::string_view part) {
  std::vector<const InlinedFunction*> found;
  for (const InlinedFunction& f : profile.inlined)
    if (!part.empty() && f.name.find(part) != std::string::npos) found.push_back(&f);
  return candidates(std::move(found));
}

std::vector<const InlinedFunction*> inlined_called(const Profile& profile, std::string_view name) {
  std::vector<const InlinedFunction*> found;
  const auto take = [&](auto fits) {
    for (const InlinedFunction& f : profile.inlined)
      if (fits(f)) found.push_back(&f);
  };
  take([&](const InlinedFunction& f) { return f.name == name || f.linkage_name == name; });
  if (found.empty())
    take([&](const InlinedFunction& f) {
      return function_or_address({"", 0, f.name, "", 0}) == name || declared_at(f) == name;
    });
  return found;
}

Result<const InlinedFunction*> choose_inlined(const Profile& profile, std::string_view name) {
  std::vector<const InlinedFunction*> found = inlined_called(profile, name);
  if (found.empty()) {
    const std::string names = inlined_names(profile, name);
    return fail("no function called {} was inlined and executed{}{}", printable(name),
                names.empty() ? "" : "; names that contain it: ", names);
  }
  std::ranges::stable_sort(found, std::greater<>(), &InlinedFunction::self);
  const InlinedFunction& hottest = *found[0];
  // The same of another module is not another function.
  const bool one = std::ranges::all_of(found, [&](const InlinedFunction* f) {
    return f->name == hottest.name && f->file == hottest.file && f->line == hottest.line;
  });
  if (!one)
    return fail("{} inlined functions are called {}: {}; name one by what is in parentheses",
                found.size(), printable(name), candidates(found));
  return &hottest;
}

Result<Annotation> annotate_inlined(const Profile& profile, const symbols::ModuleSet& modules,
                                    const InlinedFunction& function, SourceFiles& sources) {
  if (const auto opened = modules.open(function.module); !opened)
    return fail("{} cannot be annotated: {}", printable(function.name), opened.error().message);
  return InlinedAnnotator(profile, modules, function, sources).annotate();
}

}  // namespace shadowprof::report
