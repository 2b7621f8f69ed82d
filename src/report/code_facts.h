// SPDX-License-Identifier: MIT
//
// What tables do not have of places in code: source lines and instructions. The profile's hotlists
// have those of their rows. Of other places the program's files may have them, as far as they are
// still those that ran; a file is opened when it is first needed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "profile/profile.h"
#include "symbols/module_set.h"

namespace shadowprof::report {

class CodeFacts {
 public:
  // `files`: null where the hotlists alone are asked. The profile and they must outlive this.
  CodeFacts(const profile::Profile& profile, const symbols::ModuleSet* files);

  std::optional<profile::SourceLine> line(profile::CodeRef at) const;
  // Disassembled; "" when unknown.
  std::string instruction(profile::CodeRef at) const;
  // With its line, if that is known.
  profile::Place with_line(profile::Place place) const;
  // Nothing: the profile has no such module.
  std::optional<profile::CodeRef> code_ref(const profile::Place& place) const;

 private:
  using Key = std::pair<std::string, uint64_t>;  // module's path, offset
  Key key(profile::CodeRef at) const { return {profile_.modules[at.module].path, at.offset}; }

  const profile::Profile& profile_;
  const symbols::ModuleSet* files_;
  std::map<std::string, uint32_t> modules_;
  std::map<Key, profile::SourceLine> lines_;
  mutable std::map<Key, std::string> instructions_;  // those of the files, too
};

}  // namespace shadowprof::report
