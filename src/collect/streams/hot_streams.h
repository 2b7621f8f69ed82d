// SPDX-License-Identifier: MIT
//
// The hot data streams of a grammar: expansions of rules with kLeastLength to kMostLength
// references whose heat, length times occurrences, is at least `least_heat`.
//
// Occurrences do not overlap, and no reference belongs to two streams: rules are visited from the
// outside in, and what a hot one is made of is not hot by being in it (Chilimbi and Hirzel, PLDI
// 2002). A rule that consists of hot ones which occur more often than it does is no stream of its
// own, since they are streams without it: twice around a list is that list, and two lists that
// follow one another by chance are two.
//
// A stream that is followed by itself mostly is a cycle, of which no reference is the first. Here
// it is some: the user may turn it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collect/streams/sequitur.h"

namespace shadowprof::collect {

struct HotStream {
  std::vector<uint64_t> references;  // terminals
  uint64_t occurrences = 0;
  bool is_cycle = false;
  uint64_t heat() const { return references.size() * occurrences; }
};

class HotStreams {
 public:
  static constexpr uint64_t kLeastLength = 2;
  static constexpr uint64_t kMostLength = 100;

  // Those of the whole grammar.
  const std::vector<HotStream>& find(const Sequitur& grammar, uint64_t least_heat);
  // After find(): references of no stream that recur within sequences longer than kMostLength.
  uint64_t longer() const { return longer_; }
  // After find(): calls use(terminal, count) for each place of a terminal in the grammar.
  template <typename Use>
  void for_each_terminal(const Sequitur& grammar, Use use) const {
    for (const uint32_t rule : order_)
      grammar.for_each_symbol(rule, [&](uint64_t symbol) {
        if (!Sequitur::is_rule(symbol)) use(symbol, facts_[rule].uses);
      });
  }

 private:
  struct Facts {
    uint64_t length = 0;
    uint64_t uses = 0;       // in the sequence
    uint64_t cold = 0;       // of these: in no hot stream
    uint64_t in_longer = 0;  // of the cold ones: in something longer that recurs
    uint64_t itself = 0;  // how often a use follows another directly, as far as one rule shows it
    uint64_t terminals = 0;  // of its own
    uint32_t pending = 0;
  };

  void sort_rules(const Sequitur& grammar);
  void measure(const Sequitur& grammar);
  void visit(const Sequitur& grammar, uint32_t rule, uint64_t least_heat);
  bool is_of_hot_ones(const Sequitur& grammar, uint32_t rule, uint64_t least_heat) const;
  void expand(const Sequitur& grammar, uint32_t rule, std::vector<uint64_t>& to) const;
  static bool has_length(const Facts& facts) {
    return facts.length >= kLeastLength && facts.length <= kMostLength;
  }

  std::vector<Facts> facts_;
  std::vector<uint32_t> order_;  // a rule comes before those that it uses
  std::vector<HotStream> streams_;
  uint64_t longer_ = 0;
};

}  // namespace shadowprof::collect
