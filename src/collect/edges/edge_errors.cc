// SPDX-License-Identifier: MIT
#include "collect/edges/edge_errors.h"

#include <algorithm>
#include <tuple>

#include "collect/table_builder.h"

namespace shadowprof::collect {

using profile::CallPair;
using profile::Edge;
using profile::ErrorSum;

namespace {

auto key(const Edge& e) {
  return std::tuple(e.from, e.to, e.kind);
}

auto key(const CallPair& c) {
  return std::tuple(c.site, c.callee, c.indirect);
}

// What one group has in each row, and the sums over groups.
template <typename Row>
class RowErrors {
 public:
  RowErrors(const std::vector<Row>& unsorted, std::vector<Row>& sorted)
      : unsorted_(unsorted), sorted_(sorted), sums_(sorted.size()), in_group_(sorted.size()) {}

  void add(size_t row, uint64_t count) {
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), unsorted_[row],
                                        [](const Row& a, const Row& b) { return key(a) < key(b); });
    if (found == sorted_.end() || key(*found) != key(unsorted_[row])) return;
    const auto i = static_cast<size_t>(found - sorted_.begin());
    if (in_group_[i] == 0) touched_.push_back(i);
    in_group_[i] += static_cast<double>(count);
    of_group_ += static_cast<double>(count);
  }
  void end_group(double by_time) {
    const profile::GroupSize group{of_group_, by_time};
    for (const size_t i : touched_) {
      sums_[i].add(in_group_[i], group);
      in_group_[i] = 0;
    }
    sizes_.add(group);
    of_group_ = 0;
    touched_.clear();
  }
  void finish(uint32_t groups) {
    if (sizes_.all() == 0) return;
    double all_counts = 0;
    for (const Row& row : sorted_) all_counts += static_cast<double>(row.count);
    for (size_t i = 0; i < sorted_.size(); i++)
      sorted_[i].error =
          sums_[i].error(groups, sizes_, static_cast<double>(sorted_[i].count) / all_counts);
  }

 private:
  const std::vector<Row>& unsorted_;
  std::vector<Row>& sorted_;
  std::vector<ErrorSum> sums_;
  std::vector<double> in_group_;
  std::vector<size_t> touched_;
  double of_group_ = 0;
  profile::GroupSizes sizes_;
};

}  // namespace

void EdgeErrors::begin(uint32_t source) {
  if (!wanted_) return;
  end();
  open_ = &rows_[source];
  *open_ = {tables_.edges.size(), 0, tables_.calls.size(), 0};
}

void EdgeErrors::end() {
  if (open_ == nullptr) return;
  open_->end_edge = tables_.edges.size();
  open_->end_call = tables_.calls.size();
  open_ = nullptr;
}

void EdgeErrors::keep_order() {
  if (!wanted_) return;
  edges_ = tables_.edges;
  calls_ = tables_.calls;
}

void EdgeErrors::fill(const std::vector<GroupCounts::Group>& groups, const trace::BlockTable& table,
                      const TableBuilder& builder, profile::Profile& out) const {
  if (!wanted_ || groups.size() < 2) return;
  RowErrors<Edge> edges(edges_, out.tables.edges);
  RowErrors<CallPair> calls(calls_, out.tables.calls);
  for (const GroupCounts::Group& group : groups) {
    profile::SampleGroup code;
    for (const auto& [source, count] : group.entries) {
      if (const auto rows = rows_.find(source); rows != rows_.end()) {
        for (size_t i = rows->second.first_edge; i < rows->second.end_edge; i++)
          edges.add(i, count);
        for (size_t i = rows->second.first_call; i < rows->second.end_call; i++)
          calls.add(i, count);
      }
      if (source % 2 != 0) continue;
      const trace::Run& run = table.run(RunId(source / 2));
      const auto blocks = table.blocks(run);
      for (size_t i = 0; i < blocks.size(); i++) {
        const trace::Block& b = table.block(blocks[i]);
        const uint64_t insns = i + 1 == blocks.size() ? run.last_block_insns : b.insns;
        code.code.push_back({builder.at(b), insns * count});
        code.instructions += insns * count;
      }
    }
    edges.end_group(group.by_time);
    calls.end_group(group.by_time);
    code.by_time = group.by_time;
    out.groups.push_back(std::move(code));
  }
  const uint32_t count = sizes_of(groups).worth();
  edges.finish(count);
  calls.finish(count);
  out.confidence.groups = count;
}

}  // namespace shadowprof::collect
