// SPDX-License-Identifier: MIT
#include "collect/streams/hot_streams.h"

namespace shadowprof::collect {
namespace {

// A rule consists of hot ones that have so much of it, and occur so many times as often.
constexpr double kOfHotOnesShare = 0.9;
constexpr double kMoreOftenRatio = 1.5;

}  // namespace

const std::vector<HotStream>& HotStreams::find(const Sequitur& grammar, uint64_t least_heat) {
  streams_.clear();
  longer_ = 0;
  sort_rules(grammar);
  measure(grammar);
  for (const uint32_t rule : order_) visit(grammar, rule, least_heat);
  return streams_;
}

void HotStreams::sort_rules(const Sequitur& grammar) {
  facts_.assign(grammar.rule_end(), {});
  for (uint32_t rule = 0; rule < grammar.rule_end(); rule++)
    facts_[rule].pending = grammar.uses(rule);
  order_.assign(1, Sequitur::kStart);
  for (size_t i = 0; i < order_.size(); i++) {
    grammar.for_each_symbol(order_[i], [&](uint64_t symbol) {
      if (Sequitur::is_rule(symbol) && --facts_[Sequitur::rule_of(symbol)].pending == 0)
        order_.push_back(Sequitur::rule_of(symbol));
    });
  }
}

void HotStreams::measure(const Sequitur& grammar) {
  for (size_t i = order_.size(); i-- > 0;) {
    Facts& own = facts_[order_[i]];
    grammar.for_each_symbol(order_[i], [&](uint64_t symbol) {
      const bool is_rule = Sequitur::is_rule(symbol);
      own.length += is_rule ? facts_[Sequitur::rule_of(symbol)].length : 1;
      own.terminals += !is_rule;
    });
  }
  facts_[Sequitur::kStart].uses = facts_[Sequitur::kStart].cold = 1;
  for (const uint32_t rule : order_) {
    uint64_t before = 0;
    grammar.for_each_symbol(rule, [&](uint64_t symbol) {
      if (Sequitur::is_rule(symbol)) {
        Facts& used = facts_[Sequitur::rule_of(symbol)];
        used.uses += facts_[rule].uses;
        if (symbol == before) used.itself += facts_[rule].uses;
      }
      before = symbol;
    });
  }
}

void HotStreams::visit(const Sequitur& grammar, uint32_t rule, uint64_t least_heat) {
  const Facts own = facts_[rule];
  if (has_length(own) && own.cold * own.length >= least_heat &&
      !is_of_hot_ones(grammar, rule, least_heat)) {
    HotStream& stream = streams_.emplace_back();
    expand(grammar, rule, stream.references);
    stream.occurrences = own.cold;
    // A rule of twice the stream shows every second time that it follows itself.
    stream.is_cycle = own.itself * 4 >= own.uses;
    return;
  }
  const bool is_longer = rule != Sequitur::kStart && own.length > kMostLength;
  const uint64_t in_longer = is_longer ? own.cold : own.in_longer;
  longer_ += own.terminals * in_longer;
  grammar.for_each_symbol(rule, [&](uint64_t symbol) {
    if (!Sequitur::is_rule(symbol)) return;
    facts_[Sequitur::rule_of(symbol)].cold += own.cold;
    facts_[Sequitur::rule_of(symbol)].in_longer += in_longer;
  });
}

bool HotStreams::is_of_hot_ones(const Sequitur& grammar, uint32_t rule, uint64_t least_heat) const {
  uint64_t hot = 0;
  grammar.for_each_symbol(rule, [&](uint64_t symbol) {
    if (!Sequitur::is_rule(symbol)) return;
    const Facts& used = facts_[Sequitur::rule_of(symbol)];
    const bool by_itself =
        static_cast<double>(used.uses) >= kMoreOftenRatio * static_cast<double>(facts_[rule].uses);
    if (has_length(used) && by_itself && used.uses * used.length >= least_heat) hot += used.length;
  });
  return static_cast<double>(hot) >= kOfHotOnesShare * static_cast<double>(facts_[rule].length);
}

// No deeper than the rule is long.
void HotStreams::expand(const Sequitur& grammar, uint32_t rule, std::vector<uint64_t>& to) const {
  grammar.for_each_symbol(rule, [&](uint64_t symbol) {
    if (Sequitur::is_rule(symbol))
      expand(grammar, Sequitur::rule_of(symbol), to);
    else
      to.push_back(symbol);
  });
}

}  // namespace shadowprof::collect
