// SPDX-License-Identifier: MIT
#include "symbols/symbol_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "symbols/demangle.h"
#include "symbols/elf_file.h"

namespace shadowprof::symbols {
namespace {

// Libraries give one function several names: the plain one for programs (write), reserved ones for
// themselves (__write, __libc_write). Mangled names start with an underscore too, but mean none.
bool reserved(std::string_view name) {
  return name.starts_with('_') && !name.starts_with("_Z") && !name.starts_with("_R");
}

// A total order, so that the choice among aliases does not depend on the order in the file.
auto preference(const SymbolCandidate& candidate) {
  return std::tuple(candidate.offset, !candidate.exported, !candidate.typed,
                    reserved(candidate.name), candidate.name.size(), candidate.name);
}

// Aliases become one, under the best name and with the largest size. Expects the preferred order.
void merge_aliases(std::vector<SymbolCandidate>& candidates) {
  size_t kept = 0;
  for (const SymbolCandidate& candidate : candidates) {
    if (kept > 0 && candidates[kept - 1].offset == candidate.offset) {
      SymbolCandidate& chosen = candidates[kept - 1];
      chosen.size = std::max(chosen.size, candidate.size);
      chosen.limit = std::max(chosen.limit, candidate.limit);
    } else {
      candidates[kept++] = candidate;
    }
  }
  candidates.resize(kept);
}

// First of `bounds` (sorted) that starts at or after `offset`.
auto first_bounds_from(const std::vector<FunctionBounds>& bounds, uint64_t offset) {
  return std::lower_bound(
      bounds.begin(), bounds.end(), offset,
      [](const FunctionBounds& b, uint64_t wanted) { return b.offset < wanted; });
}

}  // namespace

SymbolTable::SymbolTable(SymbolSources sources) : texts_(std::move(sources.texts)) {
  std::sort(sources.bounds.begin(), sources.bounds.end(),
            [](const FunctionBounds& a, const FunctionBounds& b) {
              return std::tie(a.offset, a.size) < std::tie(b.offset, b.size);
            });
  add_named(std::move(sources.candidates), sources.bounds);
  index();

  std::vector<Entry> stubs;
  for (const PltStub& stub : sources.plt_stubs) {
    stubs.push_back({stub.offset, stub.size, stub.name, Kind::plt_stub});
  }
  fill_gaps(std::move(stubs));
  std::vector<Entry> unnamed;
  for (const FunctionBounds& function : sources.bounds) {
    unnamed.push_back({function.offset, function.size, {}, Kind::unnamed});
  }
  fill_gaps(std::move(unnamed));
}

void SymbolTable::add_named(std::vector<SymbolCandidate> candidates,
                            const std::vector<FunctionBounds>& bounds) {
  std::sort(candidates.begin(), candidates.end(),
            [](const SymbolCandidate& a, const SymbolCandidate& b) {
              return preference(a) < preference(b);
            });
  merge_aliases(candidates);

  uint64_t sized_until = 0;  // end of the sized functions so far
  for (size_t i = 0; i < candidates.size(); ++i) {
    const SymbolCandidate& candidate = candidates[i];
    if (candidate.offset >= candidate.limit) continue;
    uint64_t size = std::min(candidate.size, candidate.limit - candidate.offset);
    if (size == 0) {
      // A label inside of a function that has a size is no function.
      if (candidate.offset < sized_until) continue;
      uint64_t end = candidate.limit;
      if (i + 1 < candidates.size()) end = std::min(end, candidates[i + 1].offset);
      auto bound = first_bounds_from(bounds, candidate.offset);
      if (bound != bounds.end() && bound->offset == candidate.offset) {
        end = std::min(end, bound->offset + bound->size);
      } else if (bound != bounds.end()) {
        end = std::min(end, bound->offset);
      }
      size = end - candidate.offset;
      if (size == 0) continue;
    } else {
      sized_until = std::max(sized_until, candidate.offset + size);
    }
    entries_.push_back({candidate.offset, size, candidate.name, Kind::named});
  }
}

void SymbolTable::fill_gaps(std::vector<Entry> additions) {
  const std::vector<IndexedRange>& pieces = index_.pieces();
  for (Entry& addition : additions) {
    if (addition.size == 0 || index_.find(addition.offset) != nullptr) continue;
    auto next = std::upper_bound(
        pieces.begin(), pieces.end(), addition.offset,
        [](uint64_t wanted, const IndexedRange& piece) { return wanted < piece.start; });
    if (next != pieces.end())
      addition.size = std::min(addition.size, next->start - addition.offset);
    entries_.push_back(addition);
  }
  index();
}

void SymbolTable::index() {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.offset < b.offset; });
  std::vector<IndexedRange> ranges;
  ranges.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    ranges.push_back(
        {entries_[i].offset, entries_[i].offset + entries_[i].size, static_cast<uint32_t>(i)});
  }
  index_ = RangeIndex::innermost_wins(std::move(ranges));
}

std::optional<Symbol> SymbolTable::find(uint64_t offset) const {
  const IndexedRange* piece = index_.find(offset);
  if (piece == nullptr) return std::nullopt;
  return describe(entries_[piece->index]);
}

std::optional<size_t> SymbolTable::index_of(uint64_t offset) const {
  const IndexedRange* piece = index_.find(offset);
  if (piece == nullptr) return std::nullopt;
  return piece->index;
}

std::vector<Symbol> SymbolTable::all() const {
  std::vector<Symbol> symbols;
  symbols.reserve(entries_.size());
  for (const Entry& entry : entries_) symbols.push_back(describe(entry));
  return symbols;
}

Symbol SymbolTable::describe(const Entry& entry) {
  Symbol symbol;
  symbol.offset = entry.offset;
  symbol.size = entry.size;
  if (entry.kind == Kind::unnamed) {
    symbol.named = false;
    symbol.linkage_name = fmt::format("function@0x{:x}", entry.offset);
    symbol.name = symbol.linkage_name;
    return symbol;
  }
  if (entry.kind == Kind::plt_stub && entry.name.empty()) {
    symbol.linkage_name = ".plt";
    symbol.name = symbol.linkage_name;
    return symbol;
  }
  std::string suffix = entry.name.size() < kMaxNameBytes ? "" : "…";
  if (entry.kind == Kind::plt_stub) suffix += "@plt";
  symbol.linkage_name = printable(entry.name) + suffix;
  symbol.name = demangle(entry.name) + suffix;
  return symbol;
}

}  // namespace shadowprof::symbols
