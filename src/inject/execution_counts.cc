// SPDX-License-Identifier: MIT
#include "inject/execution_counts.h"

#include <unordered_map>

#include "inject/fixed/guest_clock.h"
#include "trace/join_equal.h"

namespace shadowprof::inject {

void ExecutionCounts::retire(RunId run) {
  if (clock_ != nullptr) clock_->retire(table_.run(run).insns);
}

void ExecutionCounts::ran(const GuestThread& t, RunId run) {
  threads_.add(t.tracee.tid(), run, 1);
  retire(run);
  if (run.value >= runs_.size()) runs_.resize(table_.run_count());
  runs_[run.value]++;
}

void ExecutionCounts::branched(const GuestThread& t, RunId site, BlockId to) {
  threads_.add(t.tracee.tid(), site, 1);
  retire(site);
  add_pair({site, to, 1});
}

void ExecutionCounts::take(cache::AddressSpace& space, const Guests& guests) {
  std::unordered_map<const cache::Slot*, Tid> thread_of;
  for (const auto& [tid, t] : guests.threads)
    if (t->slot) thread_of[t->slot] = tid;
  for (const auto& slot : space.slots())
    if (clock_ != nullptr && slot->opened) clock_->retire(space.newly_retired(*slot));
  space.take_counts([&](const cache::Slot& slot, const emu::CounterOwner& owner, uint64_t count) {
    const auto thread = thread_of.find(&slot);
    add(thread == thread_of.end() ? Tid() : thread->second, owner, count);
  });
}

void ExecutionCounts::take(GuestThread& t) {
  if (clock_ != nullptr) catch_up(*clock_, t);
  t.process->space->take_counts(
      *t.slot, [&](const cache::Slot&, const emu::CounterOwner& owner, uint64_t count) {
        add(t.tracee.tid(), owner, count);
      });
}

ExecutionCounts::Pairs ExecutionCounts::take_log(GuestThread& t) {
  Pairs logged;
  const emu::LoggedPair* log = t.slot->pair_log();
  if (clock_ != nullptr) catch_up(*clock_, t);
  uint64_t& left = t.slot->state().log_left;
  for (uint64_t i = emu::kLogEntries; i > left; i--) {
    logged[{RunId(log[i].site), BlockId(log[i].block)}]++;
  }
  left = emu::kLogEntries;
  if (clock_ != nullptr) (void)t.process->space->newly_retired(*t.slot);  // they are, already
  for (const auto& [pair, count] : logged) {
    const auto [site, block] = pair;
    if (site == emu::kAnySite) continue;
    threads_.add(t.tracee.tid(), site, count);
    add_pair({site, block, count});
  }
  return logged;
}

void ExecutionCounts::add(Tid thread, const emu::CounterOwner& owner, uint64_t count) {
  threads_.add(thread, owner.run, count);
  if (owner.pair) {
    add_pair({owner.run, owner.successor, count});
  } else {
    if (owner.run.value >= runs_.size()) runs_.resize(table_.run_count());
    runs_[owner.run.value] += count;
  }
}

// Each thread that ends brings its own: equal ones are added up before they are twice as many.
void ExecutionCounts::add_pair(const trace::PairCount& pair) {
  constexpr size_t kNoted = 65536;
  pairs_.push_back(pair);
  trace::join_if_many(pairs_, different_pairs_, kNoted);
}

uint64_t ExecutionCounts::instructions() const {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < runs_.size(); i++) {
    if (runs_[i] != 0) sum += runs_[i] * table_.run(RunId(i)).insns;
  }
  for (const trace::PairCount& pair : pairs_) sum += pair.count * table_.run(pair.run).insns;
  return sum;
}

}  // namespace shadowprof::inject
