// SPDX-License-Identifier: MIT
//
// Go's own table of functions and lines (.gopclntab), which stays when symbols and debug
// information are stripped, as the Go runtime reads it itself. Its layouts are those of Go 1.2,
// 1.16, 1.18 and 1.20, told apart by their first four bytes:
//
//   header      magic, 0, 0, instruction size, pointer size; then words:
//     1.2       functions                                          (names and functions from 0 on)
//     1.16      functions, files, *names, *units, *files, *steps, *functions
//     1.18...   functions, files, start of the text, and the same
//   functions   for each where it begins and where more of it is written, and where the last ends
//   more of it  where it begins; then of four bytes each: where in `names` its name is, two others,
//               where in `steps` stack, file and line begin, another, where in `units` its files
//
// Since 1.18 beginnings are distances from the start of the text. Nothing in it is trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/elf_file.h"
#include "symbols/symbol_table.h"

namespace shadowprof::symbols {

class GoTable {
 public:
  // Nothing: the file is no Go program, or of a layout that is not known.
  static std::optional<GoTable> read(const ElfFile& module);

  // By link-time addresses. The name is valid as long as the table.
  struct Function {
    uint64_t start;
    uint64_t end;
    std::string_view name;
  };
  uint64_t function_count() const { return functions_; }
  Function function(uint64_t index) const;

  // What the instruction at this address was written as; of code that was inlined, there.
  struct Line {
    std::string file;
    uint32_t line;
  };
  std::optional<Line> line_of(uint64_t address) const;

 private:
  explicit GoTable(std::string bytes) : bytes_(std::move(bytes)) {}
  bool read_header(const ElfFile& module, uint64_t address);
  template <typename T>
  T at(uint64_t offset) const;
  uint64_t word(uint64_t offset) const;
  uint64_t start(uint64_t index) const;
  uint64_t fields(uint64_t index) const;
  std::string_view text_at(uint64_t offset) const;
  int64_t value_at(uint64_t steps, uint64_t start, uint64_t address) const;

  std::string bytes_;
  uint64_t functions_ = 0;  // how many
  uint64_t text_ = 0;       // what beginnings are relative to
  uint64_t names_ = 0, units_ = 0, files_ = 0, steps_ = 0;
  uint64_t entries_ = 0;  // the functions
  uint64_t base_ = 0;     // what their offsets are relative to
  size_t word_bytes_ = 8;
  bool has_lines_ = false;
};

// Adds its functions. The table must outlive the names.
void collect_go_functions(const GoTable& table, const AddressMap& module, SymbolSources& sources);

}  // namespace shadowprof::symbols
