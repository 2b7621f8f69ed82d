// SPDX-License-Identifier: MIT
//
// The files (and anonymous regions) that profiled code came from. Every other table names code as
// (index into this table, offset), offset = address - address of the file's first byte, so that
// profiles of runs with other address layouts can be compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shadowprof::profile {

struct Module {
  std::string path;      // as the kernel names it; "[vdso]"; "" for anonymous code
  std::string build_id;  // lower-case hex; "" where the file has none
  // Where the file's first byte was mapped when first seen. Tells anonymous regions apart, and lets
  // exports write addresses as this run saw them.
  uint64_t address = 0;
  uint64_t inode = 0;
  uint64_t device = 0;
  uint64_t inlining_known = 0;  // instructions: inlined_table.h
};

using ModuleTable = std::vector<Module>;

// A place in code.
struct CodeRef {
  uint32_t module = 0;  // index into the module table
  uint64_t offset = 0;
  constexpr auto operator<=>(const CodeRef&) const = default;
};

// The index of the entry for the same file (path, device, inode) or, without an inode, the same
// region (path, address); added where there is none yet. The [vdso] is one image, wherever each
// process has it.
uint32_t find_or_add_module(ModuleTable& table, const Module& module);

}  // namespace shadowprof::profile
