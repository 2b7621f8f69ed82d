// SPDX-License-Identifier: MIT
//
// See value_collector.h; value_state.h is what is kept while a trace is read.
#include "collect/values/value_collector.h"

#include "collect/values/value_state.h"

namespace shadowprof::collect {

using trace::Word;

namespace {

// xmm0, when a function that has written it returns: it may be passed on as it is.
constexpr ArgumentMask kReturnedDouble = 1u << profile::kIntegerArguments;

}  // namespace

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
      runs(limits::kMaxRuns),
      plans(limits::kMaxRuns),
      looks(limits::kMaxBlocks),
      first_insn_of_block(limits::kMaxBlocks),
      random(options.seed ^ 0x77696e646f7773),
      condition(options.condition),
      looks_at_all(options.by_call_site || condition.weight() == 1) {
  runs.prefer_huge_pages();
  if (looks_at_all || options.seen_enough != nullptr) return;
  open = false;
  next_window();
}

// The distance between windows is uniform from 0 to twice its mean, so no rhythm of the program can
// hide between them.
void ValueCollector::State::next_window() {
  const CaptureCondition& c = condition;
  open = !open;
  if (!open) end_window();
  until_change = open ? c.burst : 1 + random.next() % (2 * (c.every - c.burst));
}

// What was looked at up to now stays what it was: all of it, or a window.
void ValueCollector::State::hear_condition() {
  if (options.change == nullptr || !options.change->take(changes, condition)) return;
  if (options.by_call_site || options.seen_enough != nullptr) return;
  looks_at_all = condition.weight() == 1;
  open = true;
  until_change = ~0ull;
  if (looks_at_all) return end_window();
  next_window();
}

void ValueCollector::State::hear_answers() {
  answers.hear(*options.seen_enough, chunks, [&](RunId plain) {
    FragmentLooks& seen = looks[table.run(plain).first_block.value];
    seen.plain_run = std::max(seen.plain_run, plain.value);
  });
}

// Windows that the engine has opened while it filled a chunk are as long as one another.
size_t ValueCollector::State::words_of_window(const trace::Chunk& chunk) {
  if (options.seen_enough == nullptr || options.errors) return chunk.words.size();
  const uint64_t opened = options.seen_enough->windows();
  const uint64_t in_chunk = opened - std::exchange(windows_opened, opened);
  return chunk.words.size() / std::max<uint64_t>(in_chunk, 1);
}

// With a mailbox, windows are those that the engine captures in, and end with a chunk at the
// latest.
void ValueCollector::State::consume(const trace::Chunk& chunk) {
  chunks++;
  hear_condition();
  if (options.seen_enough != nullptr) hear_answers();
  read(chunk, words_of_window(chunk));
  if (options.seen_enough != nullptr && !options.errors) end_window();
}

void ValueCollector::State::read(const trace::Chunk& chunk, size_t window_words) {
  switch_to(chunk.thread);
  const Word* at = chunk.words.data();
  const Word* const end = at + chunk.words.size();
  const Word* window_ends = at + window_words;
  while (at < end) {
    if (at > window_ends) [[unlikely]] {
      end_window();
      window_ends += window_words;
    }
    if (current->known == 0 && current->call == nullptr) {
      at = pass_quickly(at, end);
      if (at == end) return;
    }
    const Word id = *at;
    if (trace::is_special(id)) {
      const std::span left(at, static_cast<size_t>(end - at));
      const size_t length = trace::take_special(left, [&](const auto& what) { on(what); });
      if (length == 0) {
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
    RunState& run = runs[id];
    if (run.words == 0) [[unlikely]] {
      start_run(RunId(id));
      if (run.words == 0) {
        corrupt_chunks++;
        return;
      }
    }
    if (run.words > static_cast<size_t>(end - at)) {
      corrupt_chunks++;
      return;
    }
    run.executions++;
    if (--until_change == 0) [[unlikely]]
      next_window();
    const Word* const words = at;
    // A branch, so that where the next record is can be guessed before this run's state is there.
    if (run.words == 1) [[likely]] {
      at++;
    } else {
      at += run.words;
    }
    if (const Look look = look_at(id, run); look != Look::none) {
      record(plans[id], words, look);
    } else if (current->known != 0 || current->call != nullptr) {
      pass(plans[id]);
    }
  }
}

// Counts records as long as there is nothing to be looked at, and no register of interest: most of
// what there is to read. Returns the first that it has not taken.
inline const Word* ValueCollector::State::pass_quickly(const Word* at, const Word* end) {
  constexpr ptrdiff_t kAhead = 16;
  const auto known_runs = static_cast<Word>(table.run_count());
  RunState* const all = runs.data();
  for (; at < end; at++) {
    const Word id = *at;
    if (id >= limits::kMaxRuns) break;
    const Word ahead = end - at > kAhead ? at[kAhead] : 0;
    __builtin_prefetch(all + (ahead < known_runs ? ahead : 0), 1);
    RunState& run = all[id];
    if (!run.passes) break;
    run.executions++;
  }
  return at;
}

inline ValueCollector::State::Look ValueCollector::State::look_at(uint32_t id,
                                                                  const RunState& run) {
  if (options.seen_enough != nullptr) return run.captures ? look_at_fragment(id) : Look::none;
  if (looks_at_all || run.executions <= condition.warm_up) return Look::at_all;
  return open ? Look::in_window : Look::none;
}

// The engine hears late, and translates code again that it had to forget: what is captured between
// enough and the first run that captures nothing was captured because it had not heard yet.
ValueCollector::State::Look ValueCollector::State::look_at_fragment(uint32_t id) {
  if (is_brief) return Look::at_all;  // the interpreter captures all
  FragmentLooks& seen = looks[plans[id].first_block];
  if (seen.plain_run > id) return Look::in_window;
  if (seen.told) return Look::none;
  if (++seen.looked >= condition.warm_up && !options.seen_enough->wants_all()) {
    seen.told = true;
    options.seen_enough->put({RunId(id), seen.is_called || options.executions == nullptr});
  }
  return Look::at_all;
}

inline ValueEntry& ValueCollector::State::in_window(ValueEntry& entry) {
  if (entry.window == nullptr) {
    entry.window = std::make_unique<WindowStream>();
    entry.window->stream.hotlist.follow_windows();
  }
  if (std::exchange(entry.window->latest, window) != window) windowed.push_back(&entry);
  return entry.window->stream;
}

// Where samples do not tell errors, each window is an observation.
void ValueCollector::State::end_window() {
  for (ValueEntry* entry : windowed) {
    ValueEntry& stream = entry->window->stream;
    options.errors ? sink.end(stream) : sink.end_sample(stream);
    stream.hotlist.end_window();
  }
  windowed.clear();
  window++;
}

// A record that is not looked at. Between windows nothing is known of registers; where the engine
// decides what is captured, what an earlier run has captured holds until it is overwritten.
void ValueCollector::State::pass(RunPlan& plan) {
  ThreadState& t = *current;
  if (options.seen_enough == nullptr) {
    t.known = 0;
    t.call = nullptr;
    return;
  }
  check_succession(t, plan);
  if (t.call != nullptr) meet_callee(t, plan);
  t.known &= ~unsigned{plan.clobbered};
  if (plan.exit == Exit::ret) t.known = t.live = 0;
  if (plan.exit == Exit::call) {
    t.call = &plan;
    t.call_seen = CallSeen::by_record;
  }
}

inline uint64_t compared(const ComparePlan& plan, const Word* words) {
  const uint64_t left = value_at(words, plan.left_word) >> plan.left_shift;
  const uint64_t right = plan.right_word == kNoWord
                             ? plan.immediate
                             : value_at(words, plan.right_word) >> plan.right_shift;
  const uint64_t result = plan.common_bits ? left & right : left - right;
  return result << plan.unused >> plan.unused;
}

void ValueCollector::State::record(RunPlan& plan, const Word* words, Look look) {
  ThreadState& t = *current;
  const bool is_window = look == Look::in_window;
  check_succession(t, plan);
  if (t.call != nullptr) [[unlikely]]
    meet_callee(t, plan);
  const SlotPlan* slot = slot_plans.data() + plan.first_slot;
  if (options.by_call_site) {
    t.sites.arrive(plan.start);
    slot = slots_in_context(plan, t);
    follow_calls(t, plan);
  }
  for (const SlotPlan* const last = slot + plan.slots; slot != last; slot++) {
    uint64_t raw;
    __builtin_memcpy(&raw, words + slot->word, sizeof(raw));
    ValueEntry& entry = is_window ? in_window(*slot->entry) : *slot->entry;
    sink.add(entry, raw << slot->left >> slot->right);
  }
  const ComparePlan* compare = compare_plans.data() + plan.first_compare;
  for (const ComparePlan* const last = compare + plan.compares; compare != last; compare++)
    sink.add(is_window ? in_window(*compare->entry) : *compare->entry, compared(*compare, words));
  const ArgumentWrite* write = argument_writes.data() + plan.first_write;
  for (const ArgumentWrite* const last = write + plan.writes; write != last; write++)
    __builtin_memcpy(&t.registers[write->argument], words + write->word, sizeof(uint64_t));
  t.in_window = is_window ? t.in_window | plan.written : t.in_window & ~unsigned{plan.written};
  t.known = (t.known & ~plan.clobbered) | plan.written;
  t.live |= plan.written;
  if (plan.exit == Exit::other) return;
  if (plan.exit == Exit::ret) {
    t.known &= plan.written & kReturnedDouble;
    t.live = t.known;
    return;
  }
  t.call = &plan;
  t.call_seen = is_window ? CallSeen::in_window : CallSeen::in_full;
}

void ValueCollector::State::follow_calls(ThreadState& t, const RunPlan& plan) const {
  if (plan.exit == Exit::ret) t.sites.ret();
  if (plan.exit == Exit::call) t.sites.call(plan.site + 1, sites[plan.site].returns_to.value);
}

// Where what is not captured is not recorded either, a record may have others before it that are
// missing: nothing is known of registers then. A call waits for a callee that is where it leads, or
// where that is not known, for the beginning of a function: those are recorded.
void ValueCollector::State::check_succession(ThreadState& t, const RunPlan& plan) {
  if (options.executions == nullptr) return;
  const uint64_t next = std::exchange(t.next, plan.target);
  if (next == plan.start) return;
  const FragmentLooks& seen = looks[plan.first_block];
  if (t.call != nullptr && next == 0 && (seen.is_called || !seen.told)) return;
  t.call = nullptr;
  t.known = t.live = 0;
}

void ValueCollector::State::meet_callee(ThreadState& t, const RunPlan& plan) {
  looks[plan.first_block].is_called = true;
  if (!plan.is_stub) take_arguments(t, plan.first_block);
}

void ValueCollector::State::take_arguments(ThreadState& t, uint32_t callee) {
  RunPlan& call = *std::exchange(t.call, nullptr);
  if (call.arguments == nullptr || call.callee != callee) {
    call.arguments = &arguments[uint64_t{call.site} << 32 | callee];
    call.callee = callee;
  }
  call.arguments->calls[static_cast<size_t>(t.call_seen)]++;
  for (unsigned left = t.known & t.live; left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    auto& entry = call.arguments->entries[i];
    if (entry == nullptr) entry = &entries.emplace_back();
    sink.add(t.in_window >> i & 1 ? in_window(*entry) : *entry, t.registers[i]);
  }
}

const SlotPlan* ValueCollector::State::slots_in_context(RunPlan& plan, const ThreadState& t) {
  const uint32_t context = t.sites.innermost();
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
  if (current != nullptr) sink.end_all();
  current = &t;
}

void ValueCollector::State::end_sample() {
  sink.end_samples();
  end_window();
  open_number = 0;
}

// A replica that lasts does not end with a sample of it: the next number begins another
// observation, as it does for counts (collect/weights/group_counts.h).
void ValueCollector::State::sample_began(uint64_t number) {
  is_brief = trace::is_brief(number);
  if (number == 0) return;  // another thread of the one before
  const bool is_other = open_number != 0 && is_brief != trace::is_brief(open_number);
  if (options.errors && open_number != 0 && (is_other || number > open_number)) end_sample();
  open_number = std::max(open_number, number);
}

void ValueCollector::State::on(const trace::SampleStart& start) {
  sample_began(start.number());
  sink.end_all();
  *current = {};
}

void ValueCollector::State::on(const trace::SampleEnd& end) {
  if (options.errors && end.ends_observation())
    end_sample();
  else
    sink.end_all();
  *current = {};
}

void ValueCollector::State::on(trace::GapReason reason) {
  current->known = current->live = 0;
  current->call = nullptr;
  switch (reason) {
    case trace::GapReason::signal_delivered:
      return current->sites.enter_handler();
    case trace::GapReason::signal_returned:
      return current->sites.leave_handler();
    case trace::GapReason::native:
    case trace::GapReason::lost:
      return current->sites.lose_track();
  }
}

}  // namespace shadowprof::collect
