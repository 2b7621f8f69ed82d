// SPDX-License-Identifier: MIT
//
// The functions of one module by offset. Names come in three layers, each filling only what those
// before it leave open: symbols; linkage stubs ("name@plt", ".plt" for their common part);
// functions that only the unwind information knows ("function@0x1234", the offset of their first
// byte).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/range_index.h"

namespace shadowprof::symbols {

struct Symbol {
  uint64_t offset = 0;  // of its first byte, in the file
  uint64_t size = 0;
  std::string name;          // for people: demangled, valid UTF-8, no control characters
  std::string linkage_name;  // as the linker knows it; equal to `name` where nothing is mangled
  bool named = true;         // false: "function@0x1234", made up from the unwind information
};

// What a symbol table says, before aliases and sizes are sorted out.
struct SymbolCandidate {
  uint64_t offset = 0;
  uint64_t size = 0;   // 0: unknown, as assembly without .size leaves it
  uint64_t limit = 0;  // end of what it may extend to: its section or segment
  std::string_view name;
  bool exported = false;  // global or weak
  bool typed = false;     // declared a function
};

struct PltStub {
  uint64_t offset = 0;
  uint64_t size = 0;
  std::string_view name;  // of what it jumps to; empty: the common tail of lazy binding
};

struct FunctionBounds {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Everything known about a module's functions, in any order. `texts` owns the bytes that the views
// point to.
struct SymbolSources {
  std::vector<SymbolCandidate> candidates;
  std::vector<PltStub> plt_stubs;
  std::vector<FunctionBounds> bounds;
  std::vector<std::unique_ptr<std::string>> texts;
};

class SymbolTable {
 public:
  SymbolTable() = default;
  explicit SymbolTable(SymbolSources sources);

  std::optional<Symbol> find(uint64_t offset) const;
  // The number of the function at this offset, for those who ask often and want each name once;
  // below size().
  std::optional<size_t> index_of(uint64_t offset) const;
  Symbol at(size_t index) const { return describe(entries_[index]); }
  // All of them, sorted by offset. Demangles every name: for listings and patterns, not per sample.
  std::vector<Symbol> all() const;
  size_t size() const { return entries_.size(); }

 private:
  enum class Kind : uint8_t { named, plt_stub, unnamed };
  struct Entry {
    uint64_t offset = 0;
    uint64_t size = 0;
    std::string_view name;
    Kind kind = Kind::named;
  };

  void add_named(std::vector<SymbolCandidate> candidates,
                 const std::vector<FunctionBounds>& bounds);
  void fill_gaps(std::vector<Entry> additions);
  void index();
  static Symbol describe(const Entry& entry);

  std::vector<Entry> entries_;
  RangeIndex index_;
  std::vector<std::unique_ptr<std::string>> texts_;
};

}  // namespace shadowprof::symbols
