// SPDX-License-Identifier: MIT
#include "report/code_facts.h"

#include "decoder/insn.h"

namespace shadowprof::report {

using profile::CodeRef;
using profile::Place;
using profile::SourceLine;

CodeFacts::CodeFacts(const profile::Profile& profile, const symbols::ModuleSet* files)
    : profile_(profile), files_(files) {
  for (uint32_t i = 0; i < profile.modules.size(); i++)
    modules_.try_emplace(profile.modules[i].path, i);
  const profile::Hotlists& lists = profile.hotlists;
  const auto note = [&](const Place& p) {
    if (p.is_line_of_code()) lines_[{p.module, p.offset}] = {p.file, p.line};
  };
  profile::for_each_hotlist([&](const char*, auto list, profile::Stored, auto) {
    for (const auto& row : lists.*list) row.for_each_place(note);
  });
  for (const profile::HotValue& row : lists.values)
    if (!row.disassembly.empty()) instructions_[{row.at.module, row.at.offset}] = row.disassembly;
}

std::optional<SourceLine> CodeFacts::line(CodeRef at) const {
  const auto known = lines_.find(key(at));
  if (known != lines_.end()) return known->second;
  return files_ == nullptr ? std::nullopt : files_->line(at);
}

std::string CodeFacts::instruction(CodeRef at) const {
  const auto known = instructions_.find(key(at));
  if (known != instructions_.end()) return known->second;
  if (files_ == nullptr) return "";
  const std::vector<uint8_t> code = files_->code(at, decoder::kMaxInsnBytes);
  return instructions_[key(at)] =
             code.empty() ? "" : decoder::disassemble(code, GuestAddr(at.offset));
}

std::optional<CodeRef> CodeFacts::code_ref(const Place& place) const {
  const auto module = modules_.find(place.module);
  if (module == modules_.end()) return std::nullopt;
  return CodeRef{module->second, place.offset};
}

Place CodeFacts::with_line(Place place) const {
  const auto at = code_ref(place);
  if (!at || !place.file.empty()) return place;
  if (std::optional<SourceLine> found = line(*at)) {
    place.file = std::move(found->file);
    place.line = found->line;
  }
  return place;
}

}  // namespace shadowprof::report
