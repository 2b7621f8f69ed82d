// SPDX-License-Identifier: MIT
#include <map>
#include <utility>
#include <vector>

#include "report/html_data.h"
#include "report/stacks.h"
#include "report/time_stacks.h"

namespace shadowprof::report {

using profile::ContextRow;
using profile::Profile;

namespace {

// What is narrower cannot be seen, and not clicked.
constexpr double kLeastVisibleShare = 0.0005;
constexpr size_t kMostRows = 8000;
constexpr size_t kNoParent = ~size_t{0};

// Those of the nodes, each behind its parent, that a page can show.
class Rows {
 public:
  explicit Rows(uint64_t all) : all_(all) {}

  // What is worth a row; with what is below it a node has no less than any below it.
  bool shows(size_t parent, uint64_t total) const {
    const bool orphan = parent != kNoParent && place_[parent] < 0;
    const double share = static_cast<double>(total) / static_cast<double>(all_ + 1);
    return !orphan && share >= kLeastVisibleShare && rows_.size() < kMostRows;
  }
  void add(size_t parent, const std::string& name, uint64_t total, uint64_t own, uint64_t calls) {
    const auto [entry, added] = index_.try_emplace(name, names_.size());
    if (added) names_.push_back({page_name(name), page_text(name)});
    const int above = parent == kNoParent ? -1 : place_[parent];
    place_.push_back(static_cast<int>(rows_.size()));
    rows_.push_back({above, entry->second, total, own, calls});
  }
  void leave_out(uint64_t total) {
    cut_ = cut_ || total != 0;
    place_.push_back(-1);
  }
  HtmlJson done() && {
    return {{"names", std::move(names_)}, {"rows", std::move(rows_)}, {"all", all_}, {"cut", cut_}};
  }

 private:
  uint64_t all_;
  std::map<std::string, size_t> index_;
  HtmlJson names_ = HtmlJson::array(), rows_ = HtmlJson::array();
  std::vector<int> place_;  // of each node among the rows
  bool cut_ = false;
};

// Frames of stacks as a tree.
struct TimeNode {
  size_t parent = kNoParent;
  std::string name;
  uint64_t total = 0;  // nanoseconds
  uint64_t own = 0;
};

class TimeTree {
 public:
  void add(const ThreadStack& stack) {
    size_t at = kNoParent;
    for (const Caller& caller : stack.callers) at = below(at, caller.frame.name, stack.amount);
    for (const StackFrame& frame : stack.frames) at = below(at, frame.name, stack.amount);
    if (stack.kernel) at = below(at, kKernelFrame, stack.amount);
    nodes_[at].own += stack.amount;
    all_ += stack.amount;
  }
  const std::vector<TimeNode>& nodes() const { return nodes_; }
  uint64_t all() const { return all_; }

 private:
  size_t below(size_t parent, const std::string& name, uint64_t amount) {
    const auto [entry, added] = index_.try_emplace({parent, name}, nodes_.size());
    if (added) nodes_.push_back({parent, name});
    nodes_[entry->second].total += amount;
    return entry->second;
  }

  std::map<std::pair<size_t, std::string>, size_t> index_;
  std::vector<TimeNode> nodes_;
  uint64_t all_ = 0;
};

}  // namespace

HtmlJson page_contexts(const Profile& profile) {
  const profile::ContextTable& contexts = profile.tables.contexts;
  const std::vector<uint64_t> totals = context_totals(contexts);
  uint64_t all = 0;
  for (const ContextRow& row : contexts) all += row.self;
  Rows rows(all);
  for (size_t i = 0; i < contexts.size(); i++) {
    const ContextRow& row = contexts[i];
    const size_t parent = row.parent == profile::kNoContext ? kNoParent : row.parent;
    if (!rows.shows(parent, totals[i])) {
      rows.leave_out(totals[i]);
      continue;
    }
    const std::string name =
        row.kind == profile::ContextKind::code
            ? function_frame(profile, find_function(profile.functions, row.at), row.at).name
            : profile::context_label(row.kind);
    rows.add(parent, name, totals[i], row.self, row.calls);
  }
  return std::move(rows).done();
}

HtmlJson page_time_contexts(const Profile& profile, const symbols::ModuleSet& modules) {
  TimeTree tree;
  // Without calling contexts these are functions side by side, and no flame graph.
  if (!profile.tables.contexts.empty())
    for (const ThreadStack& stack : time_stacks(profile, modules)) tree.add(stack);
  Rows rows(tree.all());
  for (const TimeNode& node : tree.nodes()) {
    if (rows.shows(node.parent, node.total))
      rows.add(node.parent, node.name, node.total, node.own, 0);
    else
      rows.leave_out(node.total);
  }
  return std::move(rows).done();
}

}  // namespace shadowprof::report
