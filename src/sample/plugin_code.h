// SPDX-License-Identifier: MIT
//
// Names for plug-ins: of the functions that code lies in, looked up when it is translated.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "collect/plugins/named_code.h"
#include "sample/named_functions.h"
#include "trace/block_table.h"
#include "trace/capture_wishes.h"

namespace shadowprof::sample {

class PluginCode final : public trace::CaptureWishes {
 public:
  // The table and `also` outlive it. `started`: as load_symbols has it. `also`: who is to meet the
  // code, too, and whose wishes these are; null: nobody's.
  PluginCode(const trace::BlockTable& table, int64_t started, trace::CaptureWishes* also);

  void meet(BlockId block) override;
  trace::CaptureWish wish(BlockId block, const decoder::Insn& insn, bool first) override {
    return also_ == nullptr ? trace::CaptureWish() : also_->wish(block, insn, first);
  }

  bool times_loads() const override { return also_ != nullptr && also_->times_loads(); }

  std::shared_ptr<const collect::NamedCode> code() const { return code_; }

 private:
  const char* kept(const std::string& text) { return texts_.insert(text).first->c_str(); }

  const trace::BlockTable& table_;
  trace::CaptureWishes* const also_;
  NamedFunctions named_;
  std::vector<const char*> functions_;     // by their numbers; null: not looked at yet
  std::unordered_set<std::string> texts_;  // which stay where they are
  std::shared_ptr<collect::NamedCode> code_ = std::make_shared<collect::NamedCode>();
};

}  // namespace shadowprof::sample
