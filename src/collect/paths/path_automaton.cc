// SPDX-License-Identifier: MIT
#include "collect/paths/path_automaton.h"

#include <algorithm>

namespace shadowprof::collect {
namespace {

uint64_t key_of(uint32_t node, uint32_t run) {
  return uint64_t{node} << 32 | run;
}

}  // namespace

PathAutomaton::PathAutomaton(const PathRuns& runs) : runs_(runs) {
  make_first_root();
}

void PathAutomaton::make_first_root() {
  code_.emplace(counters_.data());
  if (works()) (void)root(0);
}

void PathAutomaton::forget() {
  nodes_.clear();
  paths_.clear();
  entered_.clear();
  roots_.clear();
  begins_.release();
  children_.clear();
  full_ = false;
  make_first_root();
}

bool PathAutomaton::has_room() {
  full_ |= !code_->has_room();
  return !full_;
}

std::optional<PathAutomaton::Node> PathAutomaton::known_root(uint64_t entered) const {
  if (entered == 0 && !nodes_.empty()) return kFirstRoot;
  const auto known = roots_.find(entered);
  return known != roots_.end() ? std::optional(known->second) : std::nullopt;
}

std::optional<PathAutomaton::Node> PathAutomaton::root(uint64_t entered) {
  if (const auto known = known_root(entered)) return known;
  if (!has_room()) return {};
  const auto node = static_cast<Node>(nodes_.size());
  nodes_.push_back({kNone, 0, kNone, static_cast<uint32_t>(entered_.size()), 0, 0});
  entered_.push_back(entered);
  roots_.emplace(entered, node);
  code_->make_node();
  return node;
}

std::optional<PathAutomaton::Node> PathAutomaton::child(Node base, uint32_t run) const {
  if (base == kFirstRoot)
    return begins_[run] != 0 ? std::optional(begins_[run]) : std::nullopt;
  const auto known = children_.find(key_of(base, run));
  return known != children_.end() ? std::optional(known->second) : std::nullopt;
}

std::optional<PathAutomaton::Node> PathAutomaton::begin(uint64_t entered, uint32_t first) const {
  const auto root = known_root(entered);
  return root && child(*root, first) ? root : std::nullopt;
}

std::optional<PathAutomaton::Node> PathAutomaton::make_child(const Transition& to) {
  if (const auto known = child(to.base, to.edge.run)) return known;
  if (!has_room()) return {};
  const auto node = static_cast<Node>(nodes_.size());
  nodes_.push_back({to.base, to.edge.run, kNone, nodes_[to.base].root, to.blocks, to.depth});
  if (to.base == kFirstRoot) {
    begins_[to.edge.run] = node;
  } else {
    children_.emplace(key_of(to.base, to.edge.run), node);
  }
  code_->make_node();
  return node;
}

bool PathAutomaton::is_in(Node node, uint64_t function) const {
  uint32_t depth = nodes_[node].depth;
  for (; !is_root(node); node = nodes_[node].parent) {
    const NodeState& n = nodes_[node];
    if (!begins_call(n, depth)) continue;
    if (runs_[n.run].start == function) return true;
    depth--;
  }
  return entered_[nodes_[node].root] == function;
}

// Nothing, where the collector has to look: a path would be too long, or there is no room.
std::optional<PathAutomaton::Transition> PathAutomaton::transition(Node node, uint32_t run) {
  const PathRun& next = runs_[run];
  const NodeState n = nodes_[node];
  Transition to{node, {run, next.words}, next.blocks, 0};
  if (is_root(node)) return to;
  const PathRun& last = runs_[n.run];
  const Turn turn = runs_.turn(n.run, next.start, n.depth,
                               [&](uint64_t function) { return is_in(node, function); });
  if (last.step == Step::call) to.edge.site = last.site;
  to.edge.returns = last.step == Step::ret;
  switch (turn) {
    case Turn::end:
    case Turn::recursion:
    case Turn::ret_from_first: {
      const auto begin = root(turn == Turn::recursion ? next.start : 0);
      if (!begin) return {};
      to.base = *begin;
      to.edge.ends = n.path;
      return to;
    }
    case Turn::call: to.depth = static_cast<uint8_t>(n.depth + 1); break;
    case Turn::ret: to.depth = static_cast<uint8_t>(n.depth - 1); break;
    case Turn::on: to.depth = n.depth; break;
  }
  const uint32_t blocks = n.blocks + next.blocks - last.joins;
  if (blocks > kMaxPathBlocks) return {};
  to.blocks = static_cast<uint8_t>(blocks);
  return to;
}

void PathAutomaton::add_code(Node node, const Transition& to, Node child) {
  if (!is_root(node) && has_room()) code_->add(node, to.edge, child);
}

void PathAutomaton::learn(uint64_t entered, std::span<const uint32_t> list, uint64_t hash) {
  const auto end = learn_list(entered, list);
  code_->finish();
  if (!end || nodes_[*end].path != kNone) return;
  nodes_[*end].path = static_cast<uint32_t>(paths_.size());
  paths_.push_back({hash, *end});
}

std::optional<PathAutomaton::Node> PathAutomaton::learn_list(uint64_t entered,
                                                             std::span<const uint32_t> list) {
  std::optional<Node> node = root(entered);
  for (const uint32_t run : list) {
    if (!node || runs_[run].words > PathCode::kMostWords) return {};
    std::optional<Node> next = child(*node, run);
    if (!next) {
      const auto to = transition(*node, run);
      if (!to || to->edge.ends) return {};
      next = make_child(*to);
      if (next) add_code(*node, *to, *next);
    }
    node = next;
  }
  return node;
}

// By a record that the node's code does not know. Returns its words, or 0 when it leads nowhere.
uint32_t PathAutomaton::step(Node& node, uint32_t run, uint32_t*& sites) {
  if (run >= limits::kMaxRuns || runs_[run].words == 0 || runs_[run].words > PathCode::kMostWords)
    return 0;
  const auto to = transition(node, run);
  if (!to || (to->edge.ends && nodes_[node].path == kNone)) return 0;
  auto next = child(to->base, run);
  if (!next && to->edge.ends) next = make_child(*to);
  if (!next) return 0;
  add_code(node, *to, *next);
  code_->finish();
  if (to->edge.site != 0) *sites++ = to->edge.site;
  if (to->edge.returns) sites--;
  if (to->edge.ends) counters_[*to->edge.ends]++;
  node = *next;
  return to->edge.words;
}

const trace::Word* PathAutomaton::follow(Node& node, const trace::Word* at, const trace::Word* end,
                                         uint32_t*& sites) {
  while (true) {
    const PathCode::Progress now = code_->follow(node, at, sites);
    node = static_cast<Node>(now.node);
    at = now.at;
    if (at >= end) return at;
    const uint32_t words = step(node, *at, sites);
    if (words == 0) return at;
    at += words;
  }
}

PathAutomaton::Prefix PathAutomaton::prefix(Node node) const {
  Prefix prefix{entered_[nodes_[node].root], {}, {}};
  uint32_t depth = nodes_[node].depth;
  for (; !is_root(node); node = nodes_[node].parent) {
    const NodeState& n = nodes_[node];
    prefix.list.push_back(n.run);
    if (!begins_call(n, depth)) continue;
    prefix.callees.push_back(runs_[n.run].start);
    depth--;
  }
  std::ranges::reverse(prefix.list);
  std::ranges::reverse(prefix.callees);
  return prefix;
}

}  // namespace shadowprof::collect
