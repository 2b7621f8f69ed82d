// SPDX-License-Identifier: MIT
//
// Folds a trace with address registers (trace::SlotKind::base, index) into counts of cache lines:
// how often each was read and written. An access counts for the line where it begins, a repeated
// string instruction once for each of its operands.
//
// Not known are addresses of thread-local data, and those that gather and scatter; they are
// counted.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collect/collector.h"

namespace shadowprof::collect {

class AddressCollector final : public Collector {
 public:
  // `executions`: how often each run was executed, complete before finish() is called. Without it
  // they are counted in the trace, which then has a record of each.
  explicit AddressCollector(const trace::BlockTable& table,
                            const std::vector<uint64_t>* executions = nullptr);
  ~AddressCollector() override;

  void consume(const trace::Chunk& chunk) override;
  // Adds to `into`: modules, the table of cache lines, what coverage says of accesses.
  void finish(profile::Profile& into) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shadowprof::collect
