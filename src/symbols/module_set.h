// SPDX-License-Identifier: MIT
//
// The files that a profile's code came from, opened when first asked for, long after the run. A
// file counts only if it is the one that ran: its build-id is the module's, or where that has none,
// its inode.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "profile/profile.h"
#include "symbols/module_symbols.h"

namespace shadowprof::symbols {

class ModuleSet {
 public:
  // `modules` must outlive this.
  explicit ModuleSet(const profile::ModuleTable& modules);

  // An error says why the file cannot be used.
  Result<const ModuleSymbols*> open(uint32_t module) const;
  // Null instead of the error.
  const ModuleSymbols* find(uint32_t module) const;

  // Innermost inlined call first; empty where nothing is known.
  std::vector<SourceFrame> frames(profile::CodeRef at) const;
  // `size` bytes of the file's code; fewer where it ends before, none where it cannot be used.
  std::vector<uint8_t> code(profile::CodeRef at, uint32_t size) const;

  // The innermost line that is known, for hotlists.
  std::optional<profile::SourceLine> line(profile::CodeRef at) const;

 private:
  struct Slot {
    bool tried = false;
    UniqueFd fd;
    std::unique_ptr<ModuleSymbols> symbols;
    Error error;
  };

  const profile::ModuleTable& modules_;
  mutable std::vector<Slot> slots_;
};

}  // namespace shadowprof::symbols
