// SPDX-License-Identifier: MIT
//
// Sequitur (Nevill-Manning and Witten, 1997): a grammar that generates one sequence, made while the
// sequence is read. What recurs in it becomes a rule. After each append() two things hold:
//
//   digram uniqueness  no two neighbours follow one another in two places of the grammar, but for
//                      overlapping ones (the middle of "aaa");
//   rule utility       each rule but the first is used at least twice, and has two symbols or more.
//
// append() takes constant time in the mean. Memory is bounded by `most_symbols`: a symbol is added
// by append() only, as what else is made replaces as many, and a rule has two, so there are never
// more than 1.5 nodes for each. All memory is taken at the beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/spread.h"

namespace shadowprof::collect {

class Sequitur {
 public:
  static constexpr uint64_t kRuleBit = uint64_t{1} << 63;
  static constexpr uint32_t kStart = 0;  // the rule that generates all

  // A terminal, which has no kRuleBit, or a rule.
  static constexpr bool is_rule(uint64_t symbol) { return (symbol & kRuleBit) != 0; }
  static constexpr uint32_t rule_of(uint64_t symbol) { return static_cast<uint32_t>(symbol); }

  explicit Sequitur(uint32_t most_symbols);

  // Not if is_full().
  void append(uint64_t terminal);
  bool is_full() const { return symbols_ >= most_symbols_; }
  void clear();

  uint32_t symbols() const { return symbols_; }  // of all rules
  size_t bytes() const;                          // that are in use or will be

  // Rules have numbers below rule_end(); uses(): 0 of those that are no longer there.
  uint32_t rule_end() const { return static_cast<uint32_t>(rules_.size()); }
  uint32_t uses(uint32_t rule) const { return rule == kStart ? 1 : rules_[rule].uses; }
  // The symbols of a rule in order.
  template <typename Use>
  void for_each_symbol(uint32_t rule, Use use) const {
    const uint32_t guard = rules_[rule].guard;
    for (uint32_t n = nodes_[guard].next; n != guard; n = nodes_[n].next) use(nodes_[n].value);
  }

 private:
  // A rule is a ring of nodes; its guard stands between its last symbol and its first. Node 0 is
  // none.
  struct Node {
    uint64_t value;
    uint32_t next;
    uint32_t prev;
    uint32_t chain;  // the next one of its bucket
    bool is_indexed;
    bool is_guard;
  };
  struct Rule {
    uint32_t guard = 0;
    uint32_t uses = 0;
  };

  uint32_t make_node(uint64_t value);
  void free_node(uint32_t node);
  uint32_t make_rule();
  void free_rule(uint32_t rule);
  uint32_t make_symbol(uint64_t value);
  void remove_symbol(uint32_t node);

  void join(uint32_t left, uint32_t right);
  void insert_after(uint32_t node, uint32_t added);
  bool check(uint32_t node);
  void match(uint32_t node, uint32_t earlier);
  void lengthen(uint32_t node, uint32_t earlier);
  void substitute(uint32_t node, uint32_t rule);
  void expand_if_single(uint32_t node);

  bool begins_digram(uint32_t node) const {
    return !nodes_[node].is_guard && !nodes_[nodes_[node].next].is_guard;
  }
  size_t bucket(uint32_t node) const {
    const uint64_t a = nodes_[node].value, b = nodes_[nodes_[node].next].value;
    const uint64_t mixed =
        (spread(a) ^ (b << 29 | b >> 35)) * 0xD6E8'FEB8'6659'FD93ull;
    return mixed >> bucket_shift_;
  }
  uint32_t find(uint32_t node) const;
  void index(uint32_t node);
  void index_instead(uint32_t node);
  void forget_index(uint32_t node);

  const uint32_t most_symbols_;
  int bucket_shift_ = 0;
  std::vector<Node> nodes_;
  std::vector<uint32_t> buckets_;  // of digrams, by their first node
  std::vector<Rule> rules_;
  std::vector<uint32_t> free_rules_;
  uint32_t free_nodes_ = 0;  // linked by `next`
  uint32_t used_nodes_ = 1;  // that were ever used
  uint32_t symbols_ = 0;
};

}  // namespace shadowprof::collect
