// SPDX-License-Identifier: MIT
//
// Paths that are executed often, as an automaton: which runs came since a path began decides what
// it is, which calls it is in, and what the next run means for it. So a node is the beginning of a
// path, an edge goes from it to a longer one, or to the next path's first run where the next run
// ends it (path_collector.h says where that is); such an edge counts. Code does that
// (path_code.h), record by record, and nothing is added up, hashed or looked up.
//
// Paths are learned whole, when they have been executed some times; edges from the end of one to
// the beginning of others when they are first met. A record that leads nowhere is the collector's.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/paths/path_code.h"
#include "collect/paths/path_runs.h"

namespace shadowprof::collect {

class PathAutomaton {
 public:
  using Node = uint32_t;

  explicit PathAutomaton(const PathRuns& runs);

  bool works() const { return code_ && code_->works(); }
  bool full() const { return full_; }

  // A path that was executed: its runs, what function's call it began with (else 0), and its hash.
  void learn(uint64_t entered, std::span<const uint32_t> list, uint64_t hash);

  // Where a path begins whose first run this is, if any is known.
  std::optional<Node> begin(uint64_t entered, uint32_t first) const;
  // Follows records in [at, end), behind which are PathCode::kMostWords that are no runs' ids, up
  // to one that leads nowhere; returns that. `sites`: see PathCode.
  const trace::Word* follow(Node& node, const trace::Word* at, const trace::Word* end,
                            uint32_t*& sites);

  struct Prefix {
    uint64_t entered;
    std::vector<uint32_t> list;
    std::vector<uint64_t> callees;  // entered and not left
  };
  Prefix prefix(Node node) const;

  // Executions since the last time: use(hash, count, the node that the path is).
  template <typename Use>
  void take_counts(Use use) {
    for (size_t i = 0; i < paths_.size(); i++)
      if (const uint64_t count = std::exchange(counters_[i], 0))
        use(paths_[i].hash, count, paths_[i].node);
  }
  // All nodes. What was counted has been taken.
  void forget();

 private:
  // Where paths begin that no call of theirs began, so most of them.
  static constexpr Node kFirstRoot = 0;
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct NodeState {
    Node parent;  // kNone: a root, where a path begins that has no run yet
    uint32_t run;
    uint32_t path = kNone;  // index into paths_, when it is one
    uint32_t root;          // index into entered_
    uint8_t blocks;
    uint8_t depth;  // calls that it is in
  };
  struct Path {
    uint64_t hash;
    Node node;
  };
  // What a run means at a node.
  struct Transition {
    Node base;  // the run comes behind that: the node, or the root of the next path
    PathEdge edge;
    uint8_t blocks;
    uint8_t depth;
  };

  void make_first_root();
  std::optional<Node> root(uint64_t entered);
  bool has_room();
  bool is_root(Node node) const { return nodes_[node].parent == kNone; }
  std::optional<Node> child(Node base, uint32_t run) const;
  std::optional<Node> make_child(const Transition& to);
  std::optional<Node> learn_list(uint64_t entered, std::span<const uint32_t> list);
  std::optional<Node> known_root(uint64_t entered) const;
  // Back from a node, the first run that is deeper than the one before it began the innermost call,
  // which is as deep as the node, and so on.
  bool begins_call(const NodeState& n, uint32_t depth) const {
    return n.depth == depth && nodes_[n.parent].depth < depth;
  }
  bool is_in(Node node, uint64_t function) const;
  std::optional<Transition> transition(Node node, uint32_t run);
  uint32_t step(Node& node, uint32_t run, uint32_t*& sites);
  void add_code(Node node, const Transition& to, Node child);

  const PathRuns& runs_;
  ReservedArray<uint64_t> counters_{PathCode::kMostNodes};
  std::optional<PathCode> code_;
  std::vector<NodeState> nodes_;
  std::vector<Path> paths_;
  std::vector<uint64_t> entered_;
  std::unordered_map<uint64_t, Node> roots_;
  ReservedArray<Node> begins_{limits::kMaxRuns};  // children of kFirstRoot by their run; 0: none
  std::unordered_map<uint64_t, Node> children_;   // of the others
  bool full_ = false;
};

}  // namespace shadowprof::collect
