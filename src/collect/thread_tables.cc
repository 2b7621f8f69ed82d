// SPDX-License-Identifier: MIT
#include "collect/thread_tables.h"

#include <algorithm>
#include <utility>

namespace shadowprof::collect {
namespace {

// Shares each run's executions out: what is rounded adds up to all of them.
class Shares {
 public:
  Shares(std::span<const uint64_t> totals, std::span<const trace::ThreadCount> threads)
      : totals_(totals), counted_(totals.size()), up_to_(totals.size()), given_(totals.size()) {
    for (const trace::ThreadCount& thread : threads)
      for (const trace::RunCount& run : thread.runs)
        if (run.run.value < counted_.size()) counted_[run.run.value] += run.count;
  }

  // What the next thread has of it.
  uint64_t take(const trace::RunCount& run) {
    const uint32_t id = run.run.value;
    if (id >= totals_.size()) return 0;
    up_to_[id] += run.count;
    const long double part = static_cast<long double>(up_to_[id]) /
                             static_cast<long double>(counted_[id]) *
                             static_cast<long double>(totals_[id]);
    const uint64_t due = counted_[id] == totals_[id] ? up_to_[id]
                         : up_to_[id] == counted_[id]
                             ? totals_[id]
                             : std::min(totals_[id], static_cast<uint64_t>(part));
    return due - std::exchange(given_[id], due);
  }

 private:
  std::span<const uint64_t> totals_;
  std::vector<uint64_t> counted_;
  std::vector<uint64_t> up_to_;
  std::vector<uint64_t> given_;
};

}  // namespace

void add_thread_tables(const trace::BlockTable& table, const TableBuilder& builder,
                       std::span<const uint64_t> totals,
                       std::span<const trace::ThreadCount> threads, profile::Profile& out) {
  Shares shares(totals, threads);
  std::vector<uint64_t> executed(table.block_count());  // instructions, by block
  for (const trace::ThreadCount& counts : threads) {
    profile::ThreadRow thread{counts.thread.value, counts.process.value, counts.name};
    thread.samples = counts.samples;
    std::vector<BlockId> touched;
    for (const trace::RunCount& counted : counts.runs) {
      const uint64_t count = shares.take(counted);
      if (count == 0) continue;
      const trace::Run& run = table.run(counted.run);
      const auto blocks = table.blocks(run);
      for (size_t i = 0; i < blocks.size(); i++) {
        const uint64_t insns =
            i + 1 == blocks.size() ? run.last_block_insns : table.block(blocks[i]).insns;
        if (executed[blocks[i].value] == 0) touched.push_back(blocks[i]);
        executed[blocks[i].value] += insns * count;
      }
    }
    const auto index = static_cast<uint32_t>(out.threads.size());
    for (const BlockId block : touched) {
      const uint64_t insns = std::exchange(executed[block.value], 0);
      if (insns == 0) continue;
      thread.instructions += insns;
      out.tables.thread_code.push_back({builder.at(table.block(block)), index, insns});
    }
    out.threads.push_back(std::move(thread));
  }
}

}  // namespace shadowprof::collect
