// SPDX-License-Identifier: MIT
//
// Names and source lines for the code of one module. Needs the file, not the process: it answers
// after the program has ended, and for files that were deleted or replaced meanwhile if they were
// opened in time. Names are read when the first is asked for, and so are lines; what notes of
// earlier runs answer (module_notes.h) is not read again.
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
#include "symbols/debug_file.h"
#include "symbols/elf_file.h"
#include "symbols/go_table.h"
#include "symbols/module_notes.h"
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
  // Notes of earlier runs, which outlives the module. Null: none are used, and none are kept.
  const CacheFolder* notes = nullptr;
};

class ModuleSymbols {
 public:
  // Modules may be loaded in parallel, and one module asked by any number of threads.
  static Result<std::unique_ptr<ModuleSymbols>> load(ModuleSource source,
                                                     const SymbolOptions& options = {});
  // A module that exists only in memory: the [vdso].
  static Result<std::unique_ptr<ModuleSymbols>> load_image(const std::string& name,
                                                           std::vector<char> image);

  // The function at this offset.
  std::optional<Symbol> find(uint64_t offset) const;
  // The same in two steps: which one it is costs little, its name is demangled at each question.
  std::optional<size_t> function_index(uint64_t offset) const;
  Symbol function(size_t index) const;
  // Every function, sorted by offset.
  std::vector<Symbol> functions() const { return names().all(); }
  size_t function_count() const { return names().size(); }

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
  const std::string& debug_file() const;
  // Linked for any address: false for a non-PIE program, whose link-time addresses are its
  // run-time addresses.
  bool position_independent() const { return position_independent_; }
  // Between offsets and link-time addresses (what objdump and debuggers show).
  const AddressMap& addresses() const { return addresses_; }

  // What was asked is noted for later runs.
  void keep_notes();

 private:
  // What names are read from.
  struct Files {
    UniqueFd fd;
    ElfFile module;
    std::string path;
    bool looked_for_debug = false;
    std::optional<DebugFile> debug;
  };

  ModuleSymbols() = default;
  void describe(const ElfFile& file);
  void look_for_debug(Files& files) const;
  void open_notes(const CacheFolder& folder, const Files& files);
  const SymbolTable& names() const;
  void read_names(Files& files) const;
  void read_debug_names(Files& files, bool stripped, SymbolSources& sources) const;
  SourceLines* open_lines() const;
  std::vector<SourceFrame> find_lines(uint64_t offset) const;
  std::vector<InlinedStretch> find_inlined(uint64_t offset, uint64_t size) const;
  template <typename Look, typename Find, typename Add>
  auto noted(Look look, Find find, Add add) const;

  std::string build_id_;
  bool position_independent_ = false;
  AddressMap addresses_;
  std::vector<std::string> debug_directories_;

  // Where names are, until the first question for one reads them; and what there is then.
  mutable std::once_flag names_once_;
  mutable std::optional<Files> files_;
  mutable std::optional<GoTable> go_;  // names of table_ may be in it
  mutable SymbolTable table_;
  mutable std::string debug_path_;

  // Where the debug information is, until the first question for a line opens it.
  mutable std::once_flag lines_once_;
  mutable UniqueFd lines_fd_;
  mutable std::unique_ptr<SourceLines> lines_;
  mutable std::string lines_path_;
  mutable uint64_t lines_bias_ = 0;  // the module's link-time addresses minus those of that file

  mutable std::mutex notes_mutex_;
  std::unique_ptr<ModuleNotes> notes_;
};

}  // namespace shadowprof::symbols
