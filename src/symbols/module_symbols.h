// SPDX-License-Identifier: MIT
//
// Names and source lines for the code of one module. Needs the file, not the process: it answers
// after the program has ended, and for files that were deleted or replaced meanwhile if they were
// opened in time.
//
// All addresses are offsets in the file (elf_file.h says why), which is what a profile holds:
// address - trace::Module::file_start, with file_start taken from the executable mapping.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "symbols/elf_file.h"
#include "symbols/source_lines.h"
#include "symbols/symbol_table.h"

namespace shadowprof::symbols {

struct ModuleSource {
  std::string path;      // as the program's memory map names it
  UniqueFd fd;           // tried before it
  std::string build_id;  // what it had when it ran, hexadecimal; empty: not checked
};

struct SymbolOptions {
  std::vector<std::string> debug_directories = {"/usr/lib/debug"};
};

class ModuleSymbols {
 public:
  // Reads all names at once; lines only when the first is asked for. Modules may be loaded in
  // parallel, and one module asked by any number of threads.
  static Result<std::unique_ptr<ModuleSymbols>> load(ModuleSource source,
                                                     const SymbolOptions& options = {});
  // A module that exists only in memory: the [vdso].
  static Result<std::unique_ptr<ModuleSymbols>> load_image(const std::string& name,
                                                           std::vector<char> image);

  // The function at this offset.
  std::optional<Symbol> find(uint64_t offset) const { return table_.find(offset); }
  // The same in two steps: which one it is costs little, its name is demangled at each question.
  std::optional<size_t> function_index(uint64_t offset) const { return table_.index_of(offset); }
  Symbol function(size_t index) const { return table_.at(index); }
  // Every function, sorted by offset.
  std::vector<Symbol> functions() const { return table_.all(); }
  size_t function_count() const { return table_.size(); }

  // Source position of this offset, innermost inlined call first; the last frame is the function
  // that find() names. Empty without debug information.
  std::vector<SourceFrame> lines(uint64_t offset) const;

  // The same of a stretch of code, from `offset` on: which inlined calls its bytes belong to, in
  // order and without gaps, by offsets. `known` is false where there is no debug information.
  std::vector<InlinedStretch> inlined(uint64_t offset, uint64_t size) const;
  InlinedCall inlined_call(uint32_t number) const;

  // What is missing of the debug information, in a sentence; empty if nothing is.
  std::string missing_lines() const;

  const std::string& build_id() const { return build_id_; }
  // What the names came from besides the module itself; empty if nothing did.
  const std::string& debug_file() const { return debug_path_; }
  // Linked for any address: false for a non-PIE program, whose link-time addresses are its
  // run-time addresses.
  bool position_independent() const { return position_independent_; }
  // Between offsets and link-time addresses (what objdump and debuggers show).
  const AddressMap& addresses() const { return addresses_; }

 private:
  ModuleSymbols() = default;
  SourceLines* open_lines() const;
  void read(const ElfFile& file, const std::string& path, const SymbolOptions& options);

  std::string build_id_;
  std::string debug_path_;
  bool position_independent_ = false;
  AddressMap addresses_;
  SymbolTable table_;

  // Where the debug information is, until the first question for a line opens it.
  mutable std::once_flag lines_once_;
  mutable UniqueFd lines_fd_;
  mutable std::unique_ptr<SourceLines> lines_;
  std::string lines_path_;
  uint64_t lines_bias_ = 0;  // the module's link-time addresses minus those of that file
};

}  // namespace shadowprof::symbols
