// SPDX-License-Identifier: MIT
//
// Which code a region of the program begins with (collect/regions/region_filter.h): functions are
// known by their names, and blocks by where they lie in their files.
//
// Symbols are looked at on the tracer's thread, before a chunk with new blocks goes to the
// collectors: names of a module when code of it is first met, and of a function when a block at its
// first byte is.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/cache_folder.h"
#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/regions/region_filter.h"
#include "symbols/module_symbols.h"
#include "trace/block_table.h"

namespace shadowprof::sample {

// What is asked for: --within "marks", or a function as rules of check name it, perhaps behind the
// name of its module: FUNCTION, MODULE!FUNCTION. Both may have wildcards. Or --from one --to
// another.
struct RegionRequest {
  std::string within;
  std::string from;
  std::string to;
  collect::RegionKind kind() const {
    if (within.empty()) return collect::RegionKind::between;
    return within == "marks" ? collect::RegionKind::marks : collect::RegionKind::function;
  }
};

class RegionCode {
 public:
  // `started`: as load_symbols has it.
  RegionCode(const trace::BlockTable& table, const RegionRequest& request, int64_t started);

  // Looks at what was added to the table since.
  void look();

  // By block id: what the entry of a function does to the region.
  const ReservedArray<uint8_t>& entries() const { return entries_; }
  // Functions with such a block, sorted.
  std::vector<std::string> functions() const { return {functions_.begin(), functions_.end()}; }

 private:
  struct Pattern {
    std::string module;  // "": any
    std::string function;
    uint8_t does;
  };
  struct NamedModule {
    std::unique_ptr<symbols::ModuleSymbols> symbols;  // null: it has no names, or is not meant
    std::vector<const Pattern*> patterns;
    std::vector<std::optional<uint8_t>> does;         // by the function's number
  };

  void add_pattern(const std::string& text, uint8_t does);
  void load_module(ModuleId id);
  uint8_t at_entry(const trace::Block& block);
  static uint8_t at_entry_of(const symbols::Symbol& function, const NamedModule& named);

  const trace::BlockTable& table_;
  std::vector<Pattern> patterns_;
  int64_t started_;
  const CacheFolder notes_ = CacheFolder::of_user().inside("names");
  size_t looked_at_ = 0;  // blocks
  std::vector<NamedModule> modules_;
  ReservedArray<uint8_t> entries_{limits::kMaxBlocks};
  std::set<std::string> functions_;
};

}  // namespace shadowprof::sample
