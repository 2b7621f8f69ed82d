// SPDX-License-Identifier: MIT
//
// Which file's code is where in a process, as time goes on: what is mapped later covers what was
// there. Memory that is unmapped is not told, so an address may still be known that is free. Our
// own code cache is nobody's code: what a burst executes there is not known by place.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "kernel/proc.h"
#include "profile/tables/module_table.h"

namespace shadowprof::clock {

class CodeMap {
 public:
  void add(const kernel::Mapping& mapping, profile::ModuleTable& modules);
  // After an exec.
  void clear() { regions_.clear(); }

  // Nothing: no executable memory that we know of.
  std::optional<profile::CodeRef> find(GuestAddr at) const;

 private:
  struct Region {
    GuestAddr end;
    uint32_t module = 0;
    uint64_t start_of_file = 0;  // the address of its first byte; 0 for memory without a name
  };
  std::map<GuestAddr, Region> regions_;  // by start; none overlap
};

}  // namespace shadowprof::clock
