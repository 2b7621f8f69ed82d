// SPDX-License-Identifier: MIT
#include "profile/file/canonical.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>

#include "base/check.h"
#include "base/join_rows.h"

namespace shadowprof::profile {
namespace {

auto extent_key(const Piece& p) {
  return std::tuple(p.at.module, p.at.offset, p.size, p.insns, p.executed);
}

// Union-find over addresses, where each knows its distance in instructions from its parent.
class Distances {
 public:
  explicit Distances(size_t nodes) : parent_(nodes), from_parent_(nodes, 0) {
    std::iota(parent_.begin(), parent_.end(), 0u);
  }

  struct Position {
    uint32_t root;
    int64_t insns;  // from the root
  };

  Position position(uint32_t node) {
    uint32_t root = node;
    int64_t insns = 0;
    while (parent_[root] != root) {
      insns += from_parent_[root];
      root = parent_[root];
    }
    int64_t rest = insns;
    while (parent_[node] != root && node != root) {
      const uint32_t next = parent_[node];
      const int64_t step = from_parent_[node];
      parent_[node] = root;
      from_parent_[node] = rest;
      rest -= step;
      node = next;
    }
    return {root, insns};
  }

  // False when it contradicts what is known.
  bool set_distance(uint32_t from, uint32_t to, int64_t insns) {
    const Position a = position(from);
    const Position b = position(to);
    if (a.root == b.root) return b.insns - a.insns == insns;
    parent_[b.root] = a.root;
    from_parent_[b.root] = a.insns + insns - b.insns;
    return true;
  }

 private:
  std::vector<uint32_t> parent_;
  std::vector<int64_t> from_parent_;
};

// `count` executions of a block that stopped after `executed` instructions.
struct Row {
  CodeRef at;
  uint32_t size;
  uint32_t insns;
  uint32_t group;  // blocks of one group do not overlap
  uint32_t executed;
  uint64_t count;

  auto block() const { return std::tuple(at, size, insns, group); }
  auto key() const { return std::tuple(at, size, insns, group, executed); }
};

// Sorts by key and adds up the counts of equal keys.
template <typename T>
void add_up(std::vector<T>& rows) {
  std::sort(rows.begin(), rows.end(), [](const T& a, const T& b) { return a.key() < b.key(); });
  join_neighbours(rows, [](T& a, const T& b) { a.count += b.count; });
}

// One module's pieces, cut.
class Cutter {
 public:
  Cutter(std::span<const Piece> pieces, const std::vector<CodeRef>* leaders)
      : pieces_(pieces), leaders_(leaders), nodes_(addresses(pieces)), distances_(nodes_.size()) {}

  void run(std::vector<Row>& out) {
    std::vector<bool> consistent(pieces_.size());
    for (size_t i = 0; i < pieces_.size(); i++)
      consistent[i] =
          distances_.set_distance(node(start(pieces_[i])), node(end(pieces_[i])), pieces_[i].insns);
    for (size_t i = 0; i < pieces_.size(); i++) cut(pieces_[i], consistent[i]);
    add_up(rows_);
    if (leaders_ != nullptr) join();
    out.insert(out.end(), rows_.begin(), rows_.end());
  }

 private:
  static uint64_t start(const Piece& p) { return p.at.offset; }
  static uint64_t end(const Piece& p) { return p.at.offset + p.size; }

  static std::vector<uint64_t> addresses(std::span<const Piece> pieces) {
    std::vector<uint64_t> result;
    result.reserve(pieces.size() * 2);
    for (const Piece& p : pieces) {
      result.push_back(start(p));
      result.push_back(end(p));
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  uint32_t node(uint64_t address) const {
    return static_cast<uint32_t>(std::lower_bound(nodes_.begin(), nodes_.end(), address) -
                                 nodes_.begin());
  }

  // A row that contradicts its group gets a number that no group has.
  uint32_t group_of(uint32_t root, bool consistent) const {
    return consistent ? root : static_cast<uint32_t>(nodes_.size());
  }

  void cut(const Piece& p, bool consistent) {
    const uint32_t first = node(start(p));
    const auto begin = distances_.position(first);
    uint64_t from = start(p);
    uint32_t before = 0;  // instructions between the piece's start and `from`
    if (consistent) {
      for (uint32_t n = first + 1; nodes_[n] < end(p); n++) {
        const auto at = distances_.position(n);
        const int64_t insns = at.insns - begin.insns;
        // An address that no instruction of this stream begins at can lie anywhere.
        if (at.root != begin.root || insns <= before || insns >= p.insns) continue;
        add(p, from, nodes_[n], before, static_cast<uint32_t>(insns), begin.root);
        from = nodes_[n];
        before = static_cast<uint32_t>(insns);
      }
    }
    add(p, from, end(p), before, p.insns, group_of(begin.root, consistent));
  }

  // The part of `p` between two addresses, `first` and `last` instructions from its start.
  void add(const Piece& p, uint64_t from, uint64_t to, uint32_t first, uint32_t last,
           uint32_t group) {
    if (p.executed <= first) return;
    rows_.push_back({{p.at.module, from},
                     static_cast<uint32_t>(to - from),
                     last - first,
                     group,
                     std::min(p.executed, last) - first,
                     p.count});
  }

  bool is_leader(CodeRef at) const {
    return std::binary_search(leaders_->begin(), leaders_->end(), at) ||
           std::binary_search(branch_ends_.begin(), branch_ends_.end(), at.offset);
  }

  // Control enters `next` only by falling out of `block`: where it did so less often than `block`
  // was executed to its end, the others were interrupted in between. More often: something resumed
  // there, and the boundary stays.
  bool can_join(std::span<const Row> block, std::span<const Row> next) const {
    const Row& last = block.back();
    if (last.at.offset + last.size != next[0].at.offset || last.group != next[0].group)
      return false;
    if (last.executed != last.insns || is_leader(next[0].at)) return false;
    uint64_t entered = 0;
    for (const Row& r : next) entered += r.count;
    return entered <= last.count;
  }

  void join() {
    for (const Piece& p : pieces_)
      if (p.ends_in_branch) branch_ends_.push_back(end(p));
    std::sort(branch_ends_.begin(), branch_ends_.end());
    std::vector<Row> joined;
    size_t current = 0;  // joined[current..]: the block that may still grow
    for (size_t first = 0; first < rows_.size();) {
      size_t last = first;
      while (last < rows_.size() && rows_[last].block() == rows_[first].block()) last++;
      const auto next = std::span(rows_).subspan(first, last - first);
      if (joined.empty() || !can_join(std::span(joined).subspan(current), next)) {
        current = joined.size();
        joined.insert(joined.end(), next.begin(), next.end());
      } else {
        append(joined, current, next);
      }
      first = last;
    }
    rows_ = std::move(joined);
  }

  // Rows of a block are in order of `executed`, whole executions last.
  static void append(std::vector<Row>& joined, size_t current, std::span<const Row> next) {
    Row before = joined.back();
    joined.pop_back();
    for (const Row& r : next) before.count -= r.count;
    if (before.count != 0) joined.push_back(before);
    for (Row r : next) {
      r.at = before.at;
      r.executed += before.executed;
      joined.push_back(r);
    }
    for (size_t i = current; i < joined.size(); i++) {
      joined[i].size = before.size + next[0].size;
      joined[i].insns = before.insns + next[0].insns;
    }
  }

  std::span<const Piece> pieces_;
  const std::vector<CodeRef>* leaders_;
  std::vector<uint64_t> nodes_;
  Distances distances_;
  std::vector<Row> rows_;
  std::vector<uint64_t> branch_ends_;
};

}  // namespace

CanonicalBlocks canonical_blocks(std::vector<Piece> pieces, const std::vector<CodeRef>* leaders) {
  std::erase_if(pieces, [](const Piece& p) {
    return p.size == 0 || p.insns == 0 || p.executed == 0 || p.count == 0;
  });
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return extent_key(a) < extent_key(b); });
  std::vector<Piece> unique;
  unique.reserve(pieces.size());
  for (const Piece& p : pieces) {
    SP_CHECK(p.executed <= p.insns, "a block of {} instructions executed {}", p.insns, p.executed);
    if (!unique.empty() && extent_key(unique.back()) == extent_key(p)) {
      unique.back().count += p.count;
      unique.back().ends_in_branch |= p.ends_in_branch;
    } else {
      unique.push_back(p);
    }
  }
  std::vector<Row> rows;
  for (size_t first = 0; first < unique.size();) {
    size_t last = first;
    while (last < unique.size() && unique[last].at.module == unique[first].at.module) last++;
    Cutter(std::span(unique).subspan(first, last - first), leaders).run(rows);
    first = last;
  }
  // Blocks that differ only in their group are one block for everybody else.
  for (Row& r : rows) r.group = 0;
  add_up(rows);
  CanonicalBlocks result;
  for (size_t i = 0; i < rows.size(); i++) {
    const Row& r = rows[i];
    if (i == 0 || rows[i - 1].block() != r.block())
      result.blocks.push_back({r.at, r.size, r.insns, 0});
    result.blocks.back().count += r.count;
    if (r.executed != r.insns)
      result.interruptions.push_back(
          {static_cast<uint32_t>(result.blocks.size() - 1), r.executed, r.count});
  }
  return result;
}

std::vector<Piece> pieces_of(const BlockTable& blocks, const InterruptionTable& interruptions) {
  std::vector<Piece> pieces;
  pieces.reserve(blocks.size() + interruptions.size());
  for (const BlockCount& b : blocks)
    pieces.push_back({b.at, b.size, b.insns, b.insns, false, b.count});
  for (const Interruption& i : interruptions) {
    const BlockCount& b = blocks[i.block];
    pieces[i.block].count -= i.count;
    pieces.push_back({b.at, b.size, b.insns, i.executed, false, i.count});
  }
  return pieces;
}

}  // namespace shadowprof::profile
