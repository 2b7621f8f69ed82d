// SPDX-License-Identifier: MIT
//
// What the files of a module were found to say, kept between runs: answers of ModuleSymbols by
// what was asked. Reading a library's debug information takes tens of milliseconds, and most runs
// ask what an earlier one has asked.
//
// Notes are of one state of the module's files, of our own program and of the libraries that read
// them (`identity`). A file of notes that says anything else, or is not whole, is as good as none.
// What one process finds and another finds meanwhile is not put together: the later file stays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/cache_folder.h"
#include "base/packed_numbers.h"
#include "symbols/source_lines.h"
#include "symbols/symbol_table.h"

namespace shadowprof::symbols {

// Rows by key: those of the file, sorted, and those that came since.
template <typename Row>
class NoteTable {
 public:
  using Key = std::pair<uint64_t, uint64_t>;

  const Row* find(const Key& key) const {
    const auto known =
        std::lower_bound(known_.begin(), known_.end(), key,
                         [](const auto& row, const Key& wanted) { return row.first < wanted; });
    if (known != known_.end() && known->first == key) return &known->second;
    const auto fresh = fresh_.find(key);
    return fresh == fresh_.end() ? nullptr : &fresh->second;
  }
  void add(const Key& key, const Row& row) { fresh_.emplace(key, row); }
  // In ascending order; false where it is not.
  bool append(const Key& key, const Row& row) {
    if (!known_.empty() && !(known_.back().first < key)) return false;
    known_.emplace_back(key, row);
    return true;
  }
  size_t fresh() const { return fresh_.size(); }
  // All of them, in order.
  template <typename Use>
  void for_each(Use use) const {
    auto known = known_.begin();
    for (const auto& [key, row] : fresh_) {
      for (; known != known_.end() && known->first < key; ++known) use(known->first, known->second);
      use(key, row);
    }
    for (; known != known_.end(); ++known) use(known->first, known->second);
  }
  size_t size() const { return known_.size() + fresh_.size(); }

 private:
  std::vector<std::pair<Key, Row>> known_;
  std::map<Key, Row> fresh_;
};

class ModuleNotes {
 public:
  // `identity`: lines. The folder outlives this.
  ModuleNotes(const CacheFolder& folder, const std::string& build_id, const std::string& identity);

  // Which function is at an offset: the outer nothing is "not known", the inner one "none".
  std::optional<std::optional<size_t>> function_at(uint64_t offset) const;
  std::optional<Symbol> function(size_t index) const;
  std::optional<std::vector<SourceFrame>> lines(uint64_t offset) const;
  std::optional<std::vector<InlinedStretch>> inlined(uint64_t offset, uint64_t size) const;
  std::optional<InlinedCall> call(uint32_t number) const;
  // Where the calls are that have numbers: by number.
  std::vector<CallPlace> call_places() const;

  void add_function_at(uint64_t offset, std::optional<size_t> index);
  void add_function(size_t index, const Symbol& symbol);
  void add_lines(uint64_t offset, const std::vector<SourceFrame>& frames);
  void add_inlined(uint64_t offset, uint64_t size, const std::vector<InlinedStretch>& stretches);
  void add_call(uint32_t number, const InlinedCall& call);

  // Nothing more is worth noting.
  bool is_full() const { return fresh() > kMostRows; }
  // They are not true of these files only: none are kept.
  void distrust() { is_trusted_ = false; }
  // The file with what is new; `places` are those of all calls. Nothing new, or more than is worth
  // to be kept: it stays as it was, or goes.
  void keep(const std::vector<CallPlace>& places);

  // More rows than that are not kept, nor a larger file.
  static constexpr size_t kMostRows = size_t{1} << 16;
  static constexpr size_t kMostBytes = size_t{4} << 20;
  static constexpr size_t kMostFiles = 256;
  static constexpr size_t kMostBytesOfAll = size_t{64} << 20;

 private:
  using Text = uint32_t;  // by number
  struct Function {
    uint64_t offset, size;
    Text name, linkage_name;
    bool named;
  };
  struct Frame {
    Text function, linkage_name, file;
    uint32_t line, column, discriminator, function_line;
  };
  struct Part {  // of frames_ or stretches_
    uint32_t first, count;
  };
  struct Call {
    CallPlace place;
    bool is_known = false;
    Text function = 0, linkage_name = 0, file = 0, call_file = 0;
    uint32_t line = 0, call_line = 0, outer = kNoInlinedCall;
  };

  bool parse();
  bool parse_functions(NumberReader& from);
  bool parse_lines(NumberReader& from);
  bool parse_inlined(NumberReader& from);
  bool parse_calls(NumberReader& from);
  void forget();
  std::string written() const;
  void write_functions(NumberWriter& to) const;
  void write_lines(NumberWriter& to) const;
  void write_inlined(NumberWriter& to) const;
  void write_calls(NumberWriter& to) const;
  size_t fresh() const;

  Text number_of(const std::string& text);
  std::string text(Text number) const { return std::string(texts_[number]); }
  Call& call_at(uint32_t number);

  const CacheFolder& folder_;
  std::string name_;
  std::string head_;
  std::string body_;                   // what texts_ begins with points into it
  std::deque<std::string> new_texts_;  // and the rest into these
  std::vector<std::string_view> texts_{""};
  std::unordered_map<std::string_view, Text> numbers_;  // filled when the first is looked for
  NoteTable<uint32_t> places_;                          // offset -> 1 + index; 0: none
  NoteTable<Function> functions_;                       // index
  NoteTable<Part> lines_;                               // offset
  NoteTable<Part> inlined_;                             // offset, size
  std::vector<Frame> frames_;
  std::vector<InlinedStretch> stretches_;
  std::vector<Call> calls_;  // by number
  size_t fresh_calls_ = 0;
  bool is_trusted_ = true;
};

}  // namespace shadowprof::symbols
