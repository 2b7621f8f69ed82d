// SPDX-License-Identifier: MIT
#include "profile/thread_view.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/printable.h"

namespace shadowprof::profile {
namespace {

constexpr size_t kMostNames = 20;  // in a sentence

std::string names_of(const Profile& profile) {
  std::set<std::string> names;
  for (const ThreadRow& thread : profile.threads) names.insert(thread.name);
  std::string text;
  size_t listed = 0;
  for (const std::string& name : names) {
    if (listed == kMostNames) return text + fmt::format(" and {} more", names.size() - listed);
    text += (listed++ == 0 ? "" : ", ") + printable(name);
  }
  return text;
}

template <typename Row>
void keep_rows_of(const std::map<uint32_t, uint32_t>& kept, std::vector<Row>& rows) {
  std::erase_if(rows, [&](const Row& row) { return !kept.contains(row.thread); });
  for (Row& row : rows) row.thread = kept.at(row.thread);
}

Function* function_at(Profile& profile, CodeRef at) {
  const Function* f = find_function(profile.functions, at);
  return f == nullptr ? nullptr
                      : &profile.functions[static_cast<size_t>(f - profile.functions.data())];
}

// Code without a name is blocks of one instruction each.
void count_functions(Profile& p) {
  for (Function& f : p.functions) {
    f.self = f.self_error = f.inclusive = f.invocations = f.loop_iterations = 0;
    f.user_ns = f.kernel_ns = 0;
  }
  for (const ThreadCodeRow& row : p.tables.thread_code) {
    if (Function* f = function_at(p, row.at))
      f->self += row.instructions;
    else
      p.tables.blocks.push_back({row.at, 1, 1, row.instructions});
  }
  for (const TimeRow& row : p.tables.time) {
    Function* f = function_at(p, row.at);
    if (f == nullptr) continue;
    f->user_ns += row.user_ns;
    f->kernel_ns += row.kernel_ns;
  }
  std::erase_if(p.functions,
                [](const Function& f) { return f.self + f.user_ns + f.kernel_ns == 0; });
}

double part_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// `all_ticks`: of all threads.
void keep_time(Profile& p, uint64_t all_ticks) {
  if (!p.time.is_known()) return;
  uint64_t ticks = 0, user_ns = 0, kernel_ns = 0;
  for (const ThreadRow& thread : p.threads) {
    ticks += thread.ticks;
    user_ns += thread.user_ns;
    kernel_ns += thread.kernel_ns;
  }
  // Where ticks differ in weight, fewer say as much (ProcessorTime::ticks).
  const double worth = std::min(1.0, part_of(p.time.ticks, all_ticks));
  p.time.ticks = static_cast<uint64_t>(std::llround(worth * static_cast<double>(ticks)));
  p.time.user_s = 1e-9 * static_cast<double>(user_ns);
  p.time.kernel_s = 1e-9 * static_cast<double>(kernel_ns);
  p.time.waiting_s = p.time.queued_s = p.time.others_queued_s = 0;
}

ThreadPart describe_part(const Profile& p, const std::vector<uint32_t>& threads) {
  ThreadPart part;
  part.knows_code = !p.tables.thread_code.empty();
  uint64_t spent_ns = 0, error = 0;
  for (const uint32_t i : threads) {
    const ThreadRow& thread = p.threads[i];
    part.threads.push_back(thread);
    part.instructions += thread.instructions;
    error = added_error(error, thread.instructions_error);
    spent_ns += thread.user_ns + thread.kernel_ns;
  }
  part.instruction_share = part_of(part.instructions, p.coverage.attributed);
  ThreadRow all;
  all.instructions = part.instructions;
  all.instructions_error = error;
  part.instruction_error = thread_share_error(p, all);
  if (p.time.seconds() > 0)
    part.time_share = 1e-9 * static_cast<double>(spent_ns) / p.time.seconds();
  part.time_error = p.time.error_of(part.time_share);
  for_each_hotlist([&](const char* name, auto list, Stored, auto) {
    if (std::string_view(name) == "methods" || (p.hotlists.*list).empty()) return;
    part.unknown.emplace_back(name);
  });
  return part;
}

}  // namespace

Margin thread_share_error(const Profile& profile, const ThreadRow& thread) {
  if (profile.confidence.exact) return 0;
  if (profile.confidence.groups < 2 || profile.coverage.attributed == 0) return std::nullopt;
  const bool is_all = thread.instructions == profile.coverage.attributed;
  if (is_all && profile.threads.size() == 1) return 0;
  if (is_all || thread.instructions == 0) return unseen_share(profile.confidence.groups);
  return std::min(1.0, critical_value(profile.confidence.groups) *
                           part_of(thread.instructions_error, profile.coverage.attributed));
}

Result<std::vector<uint32_t>> find_threads(const Profile& profile, std::string_view wanted) {
  if (profile.threads.empty()) return fail("the profile does not know its threads");
  std::vector<uint32_t> found;
  int64_t tid = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), tid);
  const bool is_number = error == std::errc() && end == wanted.data() + wanted.size() && tid > 0;
  for (uint32_t i = 0; i < profile.threads.size(); i++)
    if (profile.threads[i].name == wanted) found.push_back(i);
  for (uint32_t i = 0; found.empty() && is_number && i < profile.threads.size(); i++)
    if (profile.threads[i].tid == tid) found.push_back(i);
  if (found.empty())
    return fail("no thread of the profile is \"{}\"; there are {}", printable(std::string(wanted)),
                names_of(profile));
  return found;
}

ThreadPart keep_threads(Profile& p, const std::vector<uint32_t>& threads, size_t limit) {
  ThreadPart part = describe_part(p, threads);
  std::map<uint32_t, uint32_t> kept;
  for (const uint32_t i : threads) kept.emplace(i, static_cast<uint32_t>(kept.size()));
  Tables tables;
  for_each_table_by_thread([&](const auto&, auto table) {
    tables.*table = std::move(p.tables.*table);
    keep_rows_of(kept, tables.*table);
  });
  p.tables = std::move(tables);
  uint64_t all_ticks = 0;
  for (const ThreadRow& thread : p.threads) all_ticks += thread.ticks;
  p.threads = part.threads;
  p.inlined.clear();
  count_functions(p);
  keep_time(p, all_ticks);
  Coverage& c = p.coverage;
  // For how long an instruction took.
  c.instructions_total = static_cast<uint64_t>(
      std::llround(part.instruction_share * static_cast<double>(c.instructions_total)));
  c.instructions_profiled = c.attributed = part.instructions;
  c.dropped.clear();
  p.confidence.groups = 0;
  p.hotlists = compute_hotlists(p, limit);
  return part;
}

}  // namespace shadowprof::profile
