// SPDX-License-Identifier: MIT
#include "collect/streams/sequitur.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace shadowprof::collect {
namespace {

// One append() may have so many symbols more before it has removed what they replace.
constexpr uint32_t kUnderWay = 8;

}  // namespace

Sequitur::Sequitur(uint32_t most_symbols) : most_symbols_(most_symbols) {
  const size_t most = size_t{most_symbols} + kUnderWay;
  nodes_.resize(most + most / 2 + 2);
  const size_t buckets = std::bit_ceil(2 * most);
  buckets_.resize(buckets);
  bucket_shift_ = 64 - std::countr_zero(buckets);
  rules_.reserve(most / 2 + 2);
  free_rules_.reserve(most / 2 + 2);
  clear();
}

size_t Sequitur::bytes() const {
  return nodes_.size() * sizeof(Node) + buckets_.size() * sizeof(uint32_t) +
         rules_.capacity() * sizeof(Rule) + free_rules_.capacity() * sizeof(uint32_t);
}

void Sequitur::clear() {
  std::fill(buckets_.begin(), buckets_.end(), 0);
  rules_.clear();
  free_rules_.clear();
  free_nodes_ = 0;
  used_nodes_ = 1;
  symbols_ = 0;
  make_rule();
}

void Sequitur::append(uint64_t terminal) {
  const uint32_t last = nodes_[rules_[kStart].guard].prev;
  insert_after(last, make_symbol(terminal));
  check(last);
}

uint32_t Sequitur::make_node(uint64_t value) {
  uint32_t node = free_nodes_;
  if (node != 0)
    free_nodes_ = nodes_[node].next;
  else
    node = used_nodes_++;
  SP_CHECK(node < nodes_.size(), "a grammar of {} symbols has no node left", symbols_);
  nodes_[node] = {value, 0, 0, 0, false, false};
  return node;
}

void Sequitur::free_node(uint32_t node) {
  nodes_[node].next = free_nodes_;
  free_nodes_ = node;
}

uint32_t Sequitur::make_rule() {
  uint32_t rule = rule_end();
  if (free_rules_.empty()) {
    rules_.emplace_back();
  } else {
    rule = free_rules_.back();
    free_rules_.pop_back();
  }
  const uint32_t guard = make_node(rule);
  nodes_[guard].is_guard = true;
  nodes_[guard].next = nodes_[guard].prev = guard;
  rules_[rule] = {guard, 0};
  return rule;
}

void Sequitur::free_rule(uint32_t rule) {
  free_node(rules_[rule].guard);
  rules_[rule] = {};
  free_rules_.push_back(rule);
}

uint32_t Sequitur::make_symbol(uint64_t value) {
  if (is_rule(value)) rules_[rule_of(value)].uses++;
  symbols_++;
  return make_node(value);
}

void Sequitur::remove_symbol(uint32_t node) {
  join(nodes_[node].prev, nodes_[node].next);
  forget_index(node);
  if (is_rule(nodes_[node].value)) rules_[rule_of(nodes_[node].value)].uses--;
  symbols_--;
  free_node(node);
}

// The digram that `left` begins goes. Of the overlapping ones in "aaa" one is indexed: where that
// goes, another one has to be.
void Sequitur::join(uint32_t left, uint32_t right) {
  if (nodes_[left].next != 0) {
    forget_index(left);
    const auto is_middle = [&](uint32_t node) {
      const Node& n = nodes_[node];
      if (n.is_guard || n.prev == 0 || n.next == 0) return false;
      const Node &before = nodes_[n.prev], &after = nodes_[n.next];
      return !before.is_guard && !after.is_guard && before.value == n.value &&
             after.value == n.value;
    };
    if (is_middle(right)) index_instead(right);
    if (is_middle(left)) index_instead(nodes_[left].prev);
  }
  nodes_[left].next = right;
  nodes_[right].prev = left;
}

void Sequitur::insert_after(uint32_t node, uint32_t added) {
  join(added, nodes_[node].next);
  join(node, added);
}

// Replaces the digram that `node` begins if there is another one like it.
bool Sequitur::check(uint32_t node) {
  if (!begins_digram(node)) return false;
  const uint32_t earlier = find(node);
  if (earlier == 0) {
    index(node);
    return false;
  }
  if (nodes_[earlier].next != node && nodes_[node].next != earlier) match(node, earlier);
  return true;
}

void Sequitur::match(uint32_t node, uint32_t earlier) {
  const Node& before = nodes_[nodes_[earlier].prev];
  uint32_t rule;
  if (before.is_guard && nodes_[nodes_[nodes_[earlier].next].next].is_guard) {
    rule = rule_of(before.value);
    substitute(node, rule);
  } else {
    const uint64_t first = nodes_[node].value, second = nodes_[nodes_[node].next].value;
    if (is_rule(first) && rules_[rule_of(first)].uses == 2) return lengthen(node, earlier);
    rule = make_rule();
    const uint32_t guard = rules_[rule].guard;
    insert_after(guard, make_symbol(first));
    insert_after(nodes_[guard].prev, make_symbol(second));
    substitute(earlier, rule);
    substitute(node, rule);
    index_instead(nodes_[guard].next);
  }
  expand_if_single(nodes_[rules_[rule].guard].next);
  expand_if_single(nodes_[rules_[rule].guard].prev);
}

// Both uses of a rule are followed by the same symbol, which becomes its last. A rule of both would
// have been made, and the old one expanded in it: this is less work, of which a sequence that
// recurs makes some at each of its symbols.
void Sequitur::lengthen(uint32_t node, uint32_t earlier) {
  const uint32_t rule = rule_of(nodes_[node].value);
  const uint64_t symbol = nodes_[nodes_[node].next].value;
  const uint32_t last = nodes_[rules_[rule].guard].prev;
  insert_after(last, make_symbol(symbol));
  remove_symbol(nodes_[earlier].next);
  remove_symbol(nodes_[node].next);
  if (find(last) == 0) index(last);
  expand_if_single(nodes_[rules_[rule].guard].prev);
  check(earlier);  // is the first of its kind, as the other use is not indexed: nothing is replaced
  check(node);
}

// A use of the rule instead of the digram that `node` begins.
void Sequitur::substitute(uint32_t node, uint32_t rule) {
  const uint32_t before = nodes_[node].prev;
  remove_symbol(nodes_[before].next);
  remove_symbol(nodes_[before].next);
  insert_after(before, make_symbol(kRuleBit | rule));
  if (!check(before)) check(nodes_[before].next);
}

// A rule that is used here only becomes what it has.
void Sequitur::expand_if_single(uint32_t node) {
  const uint64_t value = nodes_[node].value;
  if (nodes_[node].is_guard || !is_rule(value) || rules_[rule_of(value)].uses != 1) return;
  const uint32_t rule = rule_of(value), guard = rules_[rule].guard;
  const uint32_t left = nodes_[node].prev, right = nodes_[node].next;
  const uint32_t first = nodes_[guard].next, last = nodes_[guard].prev;
  forget_index(node);
  join(left, first);
  join(last, right);
  free_rule(rule);
  symbols_--;
  free_node(node);
  if (begins_digram(left) && find(left) == 0) index(left);
  if (begins_digram(last) && find(last) == 0) index(last);
}

uint32_t Sequitur::find(uint32_t node) const {
  const uint64_t first = nodes_[node].value, second = nodes_[nodes_[node].next].value;
  uint32_t n = buckets_[bucket(node)];
  while (n != 0 && (nodes_[n].value != first || nodes_[nodes_[n].next].value != second))
    n = nodes_[n].chain;
  return n;
}

void Sequitur::index(uint32_t node) {
  uint32_t& head = buckets_[bucket(node)];
  nodes_[node].chain = head;
  nodes_[node].is_indexed = true;
  head = node;
}

void Sequitur::index_instead(uint32_t node) {
  const uint32_t other = find(node);
  if (other == node) return;
  if (other != 0) forget_index(other);
  index(node);
}

void Sequitur::forget_index(uint32_t node) {
  if (!nodes_[node].is_indexed) return;
  uint32_t* at = &buckets_[bucket(node)];
  while (*at != node) at = &nodes_[*at].chain;
  *at = nodes_[node].chain;
  nodes_[node].is_indexed = false;
}

}  // namespace shadowprof::collect
