// SPDX-License-Identifier: MIT
//
// Which code the user's probes are about, and what is to be recorded of it: looked up when the code
// is translated. Lines are looked up for those instructions alone that a probe of lines would match
// if they were the right ones.
#pragma once

#include <memory>
#include <vector>

#include "collect/probes/probe_match.h"
#include "sample/named_functions.h"
#include "trace/block_table.h"
#include "trace/capture_wishes.h"

namespace shadowprof::sample {

class ProbeCode final : public trace::CaptureWishes {
 public:
  // The table outlives it. `started`: as load_symbols has it.
  ProbeCode(const trace::BlockTable& table, std::vector<collect::Probe> probes, int64_t started);

  void meet(BlockId block) override;
  trace::CaptureWish wish(BlockId block, const decoder::Insn& insn, bool first) override;

  bool times_loads() const override;

  std::shared_ptr<const collect::ProbedCode> code() const { return code_; }

 private:
  void look_at_lines(BlockId id, const trace::Block& block);
  uint16_t of_line(const trace::Block& block, const decoder::Insn& insn, uint16_t probes) const;

  const trace::BlockTable& table_;
  const std::vector<collect::Probe> probes_;
  NamedFunctions named_;
  uint16_t of_entries_ = 0;
  std::vector<bool> met_;  // by block id
  std::shared_ptr<collect::ProbedCode> code_ = std::make_shared<collect::ProbedCode>();
};

}  // namespace shadowprof::sample
