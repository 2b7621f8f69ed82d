// SPDX-License-Identifier: MIT
#include "trace/thread_counts.h"

#include <map>
#include <set>
#include <utility>

#include "trace/join_equal.h"

namespace shadowprof::trace {
namespace {

// Runs that are noted before they are joined.
constexpr size_t kNoted = 4096;

void add_thread(ThreadCount& into, ThreadCount from) {
  into.thread = {};
  into.samples += from.samples;
  into.runs.insert(into.runs.end(), from.runs.begin(), from.runs.end());
  join_equal(into.runs);
}

}  // namespace

void ThreadCounts::seen(Tid thread, Tid process, std::string name) {
  if (!row_of_.contains(thread)) {
    if (rows_.size() + 1 >= kMostThreads) make_room();
    if (rows_.size() + 1 < kMostThreads) {
      row_of_[thread] = rows_.size();
      rows_.push_back({{thread, process, {}}});
    } else {
      if (rows_.size() < kMostThreads) rows_.push_back({{{}, {}, kOtherThreads}});
      row_of_[thread] = rows_.size() - 1;
    }
  }
  ThreadCount& row = rows_[row_of_[thread]].of;
  if (row.thread == thread && !name.empty()) row.name = std::move(name);
}

// Those that have ended become one for each process and name.
void ThreadCounts::make_room() {
  std::set<size_t> alive;
  for (const auto& [thread, row] : row_of_) alive.insert(row);
  std::vector<Row> kept;
  std::vector<size_t> moved(rows_.size());
  std::map<std::pair<int32_t, std::string>, size_t> by_name;
  for (size_t i = 0; i < rows_.size(); i++) {
    ThreadCount& of = rows_[i].of;
    moved[i] = kept.size();
    if (!alive.contains(i)) {
      const auto [at, is_first] = by_name.try_emplace({of.process.value, of.name}, kept.size());
      if (!is_first) {
        add_thread(kept[at->second].of, std::move(of));
        continue;
      }
    }
    kept.push_back(std::move(rows_[i]));
  }
  rows_ = std::move(kept);
  for (auto& [thread, row] : row_of_) row = moved[row];
}

void ThreadCounts::add(Tid thread, RunId run, uint64_t count) {
  const auto known = row_of_.find(thread);
  if (known == row_of_.end()) return;
  Row& row = rows_[known->second];
  row.of.runs.push_back({run, count});
  join_if_many(row.of.runs, row.different, kNoted);
}

void ThreadCounts::add_sample(Tid thread) {
  const auto known = row_of_.find(thread);
  if (known != row_of_.end()) rows_[known->second].of.samples++;
}

std::vector<ThreadCount> ThreadCounts::counts() const {
  std::vector<ThreadCount> counts;
  for (const Row& row : rows_) {
    counts.push_back(row.of);
    join_equal(counts.back().runs);
  }
  return counts;
}

}  // namespace shadowprof::trace
