// SPDX-License-Identifier: MIT
//
// See value_collector.h; value_state.h is what is kept while a trace is read.
#include "collect/value_collector.h"

#include "collect/value_state.h"

namespace shadowprof::collect {

using trace::Word;

ValueCollector::ValueCollector(const trace::BlockTable& table, ValueCollectorOptions options)
    : state_(std::make_unique<State>(table, options)) {}
ValueCollector::~ValueCollector() = default;
void ValueCollector::consume(const trace::Chunk& chunk) {
  state_->consume(chunk);
}
void ValueCollector::finish(profile::Profile& into) {
  state_->finish(into);
}

ValueCollector::State::State(const trace::BlockTable& block_table,
                             ValueCollectorOptions collector_options)
    : table(block_table),
      options(collector_options),
      sink(options.hotlist, options.capacity, options.seed),
      plans(limits::kMaxRuns),
      first_insn_of_block(limits::kMaxBlocks),
      random(options.seed ^ 0x77696e646f7773) {
  const ValueCondition& c = options.condition;
  if (options.by_call_site || c.all() || c.burst == 0) return;
  weight = static_cast<uint32_t>(c.every / c.burst);
  open = false;
  next_window();
}

// The distance between windows is uniform from 0 to twice its mean, so no rhythm of the program can
// hide between them.
void ValueCollector::State::next_window() {
  const ValueCondition& c = options.condition;
  open = !open;
  until_change = open ? c.burst : 1 + random.next() % (2 * (c.every - c.burst));
}

void ValueCollector::State::consume(const trace::Chunk& chunk) {
  switch_to(chunk.thread);
  const Word* at = chunk.words.data();
  const Word* const end = at + chunk.words.size();
  while (at < end) {
    const Word id = *at;
    if (trace::is_special(id)) {
      const size_t length = trace::special_length(id);
      if (length == 0 || length > static_cast<size_t>(end - at) || !special({at, length})) {
        corrupt_chunks++;
        return;
      }
      at += length;
      continue;
    }
    if (id >= limits::kMaxRuns) {
      corrupt_chunks++;
      return;
    }
    RunPlan& plan = plans[id];
    if (plan.words == 0) [[unlikely]] {
      start_run(RunId(id));
      if (plan.words == 0) {
        corrupt_chunks++;
        return;
      }
    }
    if (plan.words > static_cast<size_t>(end - at)) {
      corrupt_chunks++;
      return;
    }
    plan.executions++;
    if (--until_change == 0) [[unlikely]]
      next_window();
    if (open || plan.executions <= options.condition.warm_up) {
      record(plan, at);
    } else {
      current->known = 0;
      current->call = nullptr;
    }
    at += plan.words;
  }
}

void ValueCollector::State::record(RunPlan& plan, const Word* words) {
  ThreadState& t = *current;
  if (t.call != nullptr) [[unlikely]]
    take_arguments(t, plan.first_block);
  const SlotPlan* slot = slot_plans.data() + plan.first_slot;
  if (options.by_call_site) slot = slots_in_context(plan, t);
  const uint32_t stands_for = plan.executions <= options.condition.warm_up ? 1 : weight;
  for (const SlotPlan* const last = slot + plan.slots; slot != last; slot++) {
    uint64_t raw;
    __builtin_memcpy(&raw, words + slot->word, sizeof(raw));
    sink.add(*slot->entry, raw << slot->left >> slot->right, stands_for);
  }
  const ArgumentWrite* write = argument_writes.data() + plan.first_write;
  for (const ArgumentWrite* const last = write + plan.writes; write != last; write++)
    __builtin_memcpy(&t.registers[write->argument], words + write->word, sizeof(uint64_t));
  t.known = (t.known & ~plan.clobbered) | plan.written;
  t.live |= plan.written;
  if (plan.exit == Exit::other) return;
  if (plan.exit == Exit::ret) {
    t.live = 0;
    if (!t.sites.empty()) t.sites.pop_back();
    return;
  }
  t.call = &plan;
  if (options.by_call_site && t.sites.size() < kMaxDepth) t.sites.push_back(plan.site + 1);
}

void ValueCollector::State::take_arguments(ThreadState& t, uint32_t callee) {
  RunPlan& call = *std::exchange(t.call, nullptr);
  const unsigned valid = t.known & t.live;
  if (valid == 0) return;
  if (call.arguments == nullptr || call.callee != callee) {
    call.arguments = &arguments[uint64_t{call.site} << 32 | callee];
    call.callee = callee;
  }
  for (unsigned left = valid; left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    auto& entry = call.arguments->entries[i];
    if (entry == nullptr) entry = &entries.emplace_back();
    sink.add(*entry, t.registers[i], call.executions <= options.condition.warm_up ? 1 : weight);
  }
}

const SlotPlan* ValueCollector::State::slots_in_context(RunPlan& plan, const ThreadState& t) {
  const uint32_t context = t.sites.empty() ? 0 : t.sites.back();
  if (plan.context_slots != kNone && plan.context == context)
    return slot_plans.data() + plan.context_slots;
  const auto id = static_cast<uint64_t>(&plan - plans.data());
  const auto [known, is_new] = slots_by_context.try_emplace(id << 32 | context, 0);
  if (is_new) {
    known->second = static_cast<uint32_t>(slot_plans.size());
    for (uint32_t i = 0; i < plan.slots; i++) {
      SlotPlan slot = slot_plans[plan.first_slot + i];
      slot.entry = entry_in_context(slot.entry, context);
      slot_plans.push_back(slot);
    }
  }
  plan.context = context;
  plan.context_slots = known->second;
  return slot_plans.data() + known->second;
}

ValueEntry* ValueCollector::State::entry_in_context(ValueEntry* base, uint32_t context) {
  ValueEntry*& entry = context_entries[{base, context}];
  if (entry == nullptr) entry = &entries.emplace_back();
  return entry;
}

void ValueCollector::State::switch_to(Tid tid) {
  ThreadState& t = threads[tid];
  if (&t == current) return;
  if (current != nullptr) end_streams();
  current = &t;
}

void ValueCollector::State::end_streams() {
  for (ValueEntry& entry : entries) sink.end(entry);
}

bool ValueCollector::State::special(std::span<const Word> record) {
  switch (trace::special_kind(record[0])) {
    case trace::SpecialKind::sample_start:
    case trace::SpecialKind::sample_end:
      end_streams();
      *current = {};
      return true;
    case trace::SpecialKind::thread_switch:
      if (record.size() < 2) return false;
      switch_to(Tid(static_cast<int32_t>(record[1])));
      return true;
    case trace::SpecialKind::gap:
      current->known = current->live = 0;
      current->call = nullptr;
      return record.size() >= 2;
  }
  return false;
}

}  // namespace shadowprof::collect
