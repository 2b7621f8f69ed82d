// SPDX-License-Identifier: MIT
//
// What of a module's counts belongs to functions that were inlined
// (profile/tables/inlined_table.h), in three steps, because each of them needs what is known at its
// time only:
//
//   count        while the module's file is open: each block's instructions by inlined call
//   fill_errors  before attribute_functions, which drops the groups of samples
//   rows         when functions and call pairs have all their figures
//
// A block that lies in one inlined call costs a look-up. Only those that several share are decoded,
// by the bytes of the file; where these are not what was executed (code that changed), nothing is
// known of the block.
#pragma once

#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "profile/profile.h"
#include "symbols/module_symbols.h"

namespace shadowprof::sample {

class InlinedCode {
 public:
  // `symbols` must outlive this.
  InlinedCode(const symbols::ModuleSymbols& symbols, uint32_t module)
      : symbols_(symbols), module_(module) {}

  // Rows [first, end) of the table of blocks, which are this module's. `file` is open for reading.
  void count(const profile::Profile& profile, size_t first, size_t end, int file);
  // Instructions of code of which it is known what was inlined.
  uint64_t known() const { return known_; }

  // By module; null where nothing is known. A group's blocks are taken to be apportioned as the row
  // that they begin in.
  static void fill_errors(const profile::Profile& profile, std::span<InlinedCode* const> modules);

  profile::InlinedTable rows(const profile::Profile& profile);

 private:
  struct Call {
    bool resolved = false;
    uint32_t function = 0;  // index into functions_
    uint32_t outer = symbols::kNoInlinedCall;
    std::string file;
    uint32_t line = 0;
  };
  struct Part {  // of a block
    uint32_t block;
    uint32_t call;
    uint64_t instructions;
  };

  const Call& call(uint32_t number);
  // The innermost call at a place.
  uint32_t call_at(profile::CodeRef at) const;
  void count_shared(const profile::Profile& profile, size_t block,
                    std::span<const symbols::InlinedStretch> stretches, int file);
  void add_part(size_t block, uint32_t call, uint64_t instructions);
  std::span<const Part> parts_of(size_t block) const;

  const symbols::ModuleSymbols& symbols_;
  uint32_t module_;
  uint64_t known_ = 0;
  std::vector<Part> parts_;  // by block
  std::vector<Call> calls_;  // by the numbers of `symbols`
  std::vector<profile::InlinedFunction> functions_;
  std::map<std::tuple<std::string, std::string, uint32_t>, uint32_t> index_;
};

}  // namespace shadowprof::sample
