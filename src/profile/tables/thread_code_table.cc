// SPDX-License-Identifier: MIT
#include "profile/tables/thread_code_table.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "profile/profile.h"
#include "profile/tables/table_rows.h"

namespace shadowprof::profile {
namespace {

void add_thread(ThreadRow& into, const ThreadRow& from) {
  into.user_ns += from.user_ns;
  into.kernel_ns += from.kernel_ns;
  into.ticks += from.ticks;
  into.instructions += from.instructions;
  into.instructions_error = added_error(into.instructions_error, from.instructions_error);
  into.samples += from.samples;
}

void renumber_threads(Profile& profile, const std::vector<uint32_t>& index) {
  for_each_table_by_thread([&](const auto& layout, auto table) {
    for (auto& row : profile.tables.*table) row.thread = index[row.thread];
    join_equal(layout, profile.tables.*table);
  });
}

bool is_same_thread(const ThreadRow& a, const ThreadRow& b) {
  const bool may_be_one = a.process == 0 || b.process == 0 || a.process == b.process;
  return a.tid != 0 && a.tid == b.tid && may_be_one;
}

}  // namespace

void attribute_to_functions(Profile& profile) {
  const auto attribute = [&](auto& table, const auto& layout) {
    std::map<uint32_t, CodeRef> unnamed;  // the first place that is in no function, by module
    for (auto& row : table) {
      const Function* f = find_function(profile.functions, row.at);
      row.at = f != nullptr ? f->at : unnamed.try_emplace(row.at.module, row.at).first->second;
    }
    join_equal(layout, table);
  };
  attribute(profile.tables.thread_code, kThreadCodeLayout);
  attribute(profile.tables.course, kCourseLayout);
}

void join_threads_by_name(Profile& profile) {
  std::map<std::string, ThreadRow> joined;
  for (const ThreadRow& thread : profile.threads) {
    ThreadRow& row = joined[thread.name];
    row.name = thread.name;
    add_thread(row, thread);
  }
  std::vector<uint32_t> index;
  for (const ThreadRow& thread : profile.threads) {
    const auto at = joined.find(thread.name);
    index.push_back(static_cast<uint32_t>(std::distance(joined.begin(), at)));
  }
  renumber_threads(profile, index);
  profile.threads.clear();
  for (auto& [name, row] : joined) profile.threads.push_back(std::move(row));
}

void join_threads_by_id(Profile& profile) {
  ThreadTable joined;
  std::multimap<int64_t, uint32_t> by_tid;
  std::vector<uint32_t> index;
  for (ThreadRow& thread : profile.threads) {
    const auto [first, last] = by_tid.equal_range(thread.tid);
    const auto known = std::find_if(first, last, [&](const auto& entry) {
      return is_same_thread(joined[entry.second], thread);
    });
    if (known == last) {
      index.push_back(static_cast<uint32_t>(joined.size()));
      by_tid.emplace(thread.tid, index.back());
      joined.push_back(std::move(thread));
      continue;
    }
    index.push_back(known->second);
    ThreadRow& row = joined[known->second];
    if (row.process == 0) row.process = thread.process;
    if (!thread.name.empty()) row.name = thread.name;
    add_thread(row, thread);
  }
  renumber_threads(profile, index);
  profile.threads = std::move(joined);
}

}  // namespace shadowprof::profile
