// SPDX-License-Identifier: MIT
//
// Folds a trace with address registers (trace::SlotKind::base, index) into counts of cache lines:
// how often each was read and written. An access counts for the line where it begins, a repeated
// string instruction once for each of its operands. Each access remembers its latest line, and only
// when it goes to another one the table is looked at: most stay where they are.
//
// Not known are addresses of thread-local data, and those that gather and scatter; they are
// counted.
#pragma once

#include <memory>

#include "collect/collector.h"

namespace shadowprof::collect {

class AddressCollector final : public Collector {
 public:
  explicit AddressCollector(const trace::BlockTable& table);
  ~AddressCollector() override;

  void consume(const trace::Chunk& chunk) override;
  // Adds to `into`: modules, the table of cache lines, what coverage says of accesses.
  void finish(profile::Profile& into) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shadowprof::collect
