// SPDX-License-Identifier: MIT
//
// Debian's debug files are compressed. libdw unpacks all their sections by zlib when it opens them,
// those that nobody reads, too; that takes longer than all else that is done for a short program.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "symbols/elf_file.h"

namespace shadowprof::symbols {

struct MemoryImage {
  std::unique_ptr<char[]> bytes;
  size_t size = 0;

  std::span<char> span() const { return {bytes.get(), size}; }
};

// An ELF file of the sections that SourceLines reads. None: nothing is compressed, or libdw must
// have the file itself, because what is in it leads to other files, or it makes no sense.
std::optional<MemoryImage> unpack_debug_sections(const ElfFile& file);

}  // namespace shadowprof::symbols
