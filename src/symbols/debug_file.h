// SPDX-License-Identifier: MIT
//
// Where distributions put what they strip from a program: a debug file named by the build-id or by
// .gnu_debuglink, and a small symbol table compressed into .gnu_debugdata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "symbols/elf_file.h"

namespace shadowprof::symbols {

struct DebugFile {
  UniqueFd fd;
  std::string path;
};

// Looks in each directory for .build-id/xx/yyyy.debug with the same build-id, then for the
// debuglink's name beside the module (`module_path`), in its .debug directory and under each
// directory. A debuglink counts only if the file's CRC is the one that the module names.
std::optional<DebugFile> find_debug_file(const ElfFile& module, const std::string& module_path,
                                         const std::vector<std::string>& directories);

// The ELF file in .gnu_debugdata; empty where there is none or it does not decompress.
std::vector<char> unpack_mini_debug_info(const ElfFile& module);

// A read-only descriptor of a regular file. Does not block on a FIFO that took a file's name.
UniqueFd open_regular(const std::string& path, int extra_flags = 0);

}  // namespace shadowprof::symbols
