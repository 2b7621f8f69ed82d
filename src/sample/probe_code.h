// SPDX-License-Identifier: MIT
//
// Which code the user's probes are about, and what is to be recorded of it: names of functions are
// looked up when code is translated, those of a module when code of it is first met.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/cache_folder.h"
#include "collect/probes/probe_match.h"
#include "symbols/module_symbols.h"
#include "trace/block_table.h"
#include "trace/capture_wishes.h"

namespace shadowprof::sample {

class ProbeCode final : public trace::CaptureWishes {
 public:
  // The table outlives it. `started`: as load_symbols has it.
  ProbeCode(const trace::BlockTable& table, std::vector<collect::Probe> probes, int64_t started);

  void meet(BlockId block) override;
  trace::CaptureWish wish(BlockId block, const decoder::Insn& insn, bool first) override;

  std::shared_ptr<const collect::ProbedCode> code() const { return code_; }

 private:
  struct NamedModule {
    std::unique_ptr<symbols::ModuleSymbols> symbols;  // null: it has no names
    uint16_t meant = 0;                               // probes, by the module's name
    std::vector<std::optional<uint16_t>> wanted;      // by the function's number
    uint32_t first_function = 0;
  };

  void load_module(ModuleId id);
  uint16_t wanting(NamedModule& module, uint64_t function);

  const trace::BlockTable& table_;
  const std::vector<collect::Probe> probes_;
  const int64_t started_;
  uint16_t named_ = 0;  // probes that name a function
  uint16_t of_entries_ = 0;
  uint32_t functions_ = 0;
  const CacheFolder notes_ = CacheFolder::of_user().inside("names");
  std::vector<NamedModule> modules_;
  std::vector<bool> met_;  // by block id
  std::shared_ptr<collect::ProbedCode> code_ = std::make_shared<collect::ProbedCode>();
};

}  // namespace shadowprof::sample
