// SPDX-License-Identifier: MIT
//
// Which of the code that is met lies in functions that the user has named.
//
// Symbols are looked at on the tracer's thread: names of a module when code of it is first met, and
// a function's when a block of it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cache_folder.h"
#include "symbols/module_symbols.h"
#include "trace/block_table.h"

namespace shadowprof::sample {

struct FunctionPattern {
  std::string module;    // of its path, or of the name that reports have; "": any
  std::string function;  // as rules of check name it; "": all code of the module
  bool asks_for_lines = false;  // line_of() is for blocks that are meant

  // "function", "module!function", "module!".
  static FunctionPattern from(const std::string& text);
};

class NamedFunctions {
 public:
  static constexpr size_t kMostPatterns = 16;

  // `started`: as load_symbols has it.
  NamedFunctions(const trace::BlockTable& table, std::vector<FunctionPattern> patterns,
                 int64_t started);

  struct Found {
    uint16_t patterns = 0;  // a bit for each that means the block, in their order
    uint32_t function = 0;  // its number; 0: not known
    bool is_entry = false;  // the block begins where a function does that a pattern names
  };
  Found find(const trace::Block& block);
  // Where an instruction of a block that was found is written. Nothing: nobody knows.
  struct Line {
    std::string file;
    uint32_t line = 0;
  };
  std::optional<Line> line_of(const trace::Block& block, GuestAddr insn) const;
  // The name of the function that a block lies in which was found in one.
  std::string name_of(const trace::Block& block) const;

 private:
  struct Function {
    uint16_t patterns = 0;
    uint64_t offset = 0;
  };
  struct Module {
    std::unique_ptr<symbols::ModuleSymbols> symbols;  // null: it has no names, or needs none
    uint16_t meant = 0;                               // patterns, by the module's name
    std::vector<std::optional<Function>> functions;   // by their numbers in the module
    uint32_t first_function = 0;
  };

  void load_module(ModuleId id);
  const Function& look_at(Module& module, size_t index) const;
  uint64_t offset_of(const trace::Block& block) const;

  const trace::BlockTable& table_;
  const std::vector<FunctionPattern> patterns_;
  const int64_t started_;
  const CacheFolder notes_ = CacheFolder::of_user().inside("names");
  uint16_t named_ = 0;  // patterns that name a function
  uint16_t lined_ = 0;  // that ask for lines
  uint32_t functions_ = 0;
  std::vector<Module> modules_;
};

}  // namespace shadowprof::sample
