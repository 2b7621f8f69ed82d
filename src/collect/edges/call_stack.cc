// SPDX-License-Identifier: MIT
//
// The shadow stack of each thread, for inclusive instructions.
//
// We see no stack pointer. A return is matched by its address: normally it is the top frame's; if
// not, the nearest frame below that expects it (frames above were left behind, and end then).
// longjmp and exceptions arrive as a jump of code that has taken its stack pointer from elsewhere,
// as a jump to a return point, or as a return that nobody expects. If it is known whose code that
// place is (code_owners.h), the nearest activation of that function goes on; else it is found by
// the next call out of code whose owner is known, or by its return, and then the place is known,
// too.
//
// Programs that switch stacks can make activations end early or late, but a frame adds the
// instructions between two moments of its own thread once, and only the outermost of a callee adds:
// no figure can exceed what was executed.
#include <algorithm>
#include <utility>

#include "collect/edges/edge_state.h"
#include "collect/linkage_stub.h"

namespace shadowprof::collect {
namespace {

// Guest frames take at least 16 bytes of the guest's stack, so this is a stack of 16 MB.
constexpr size_t kMaxFrames = size_t{1} << 20;
constexpr size_t kMaxNestedSignals = 64;

// A mismatched return looks at this many frames for nothing; for more it spends credit, which calls
// earn. So a program whose returns never match cannot make us search without end.
constexpr size_t kFreeSearch = 16;
constexpr uint64_t kCreditPerCall = 4;
constexpr uint64_t kMaxCredit = uint64_t{1} << 24;

// Whoever has more of them has switched to another stack; the oldest is forgotten.
constexpr size_t kMostSuspicions = 16;
constexpr size_t kMostPlaces = 16;
constexpr size_t kNowhere = ~size_t{0};

// The nearest frame that is the one, from the top, as far as it may be looked for. kNowhere: there
// is none.
template <typename IsTheOne>
size_t find_frame(GuestThread& thread, const IsTheOne& is_the_one) {
  const std::vector<Frame>& frames = thread.frames;
  const size_t allowed = std::min(frames.size(), kFreeSearch + thread.search_credit);
  for (size_t looked = 1; looked <= allowed; looked++) {
    const size_t depth = frames.size() - looked;
    if (looked > kFreeSearch) thread.search_credit--;
    if (is_the_one(frames[depth])) return depth;
  }
  return kNowhere;
}

Event enter_at(uint64_t clock) {
  return {clock, kEnterRun, 0};
}

}  // namespace

// Jumps to an address that is called are tail jumps: those that were seen already, and (an empty
// list says so) those that will be.
void EdgeCollector::State::note_called(GuestAddr address) {
  const auto waiting = jumps.try_emplace(address.value).first;
  for (uint32_t run : waiting->second) {
    uint64_t& facts = cells.data()[run].facts;
    facts = Facts::with_follow(facts, Follow::tail_jump);
  }
  waiting->second.clear();
}

bool EdgeCollector::State::is_return_point(uint32_t block) {
  uint32_t& flags = entries.data()[block].flags;
  if ((flags & EntryState::kLookedAt) == 0) {
    flags |= EntryState::kLookedAt;
    if (owners.is_behind_call(table.block(BlockId(block)).start.value))
      flags |= EntryState::kReturnPoint;
  }
  return (flags & EntryState::kReturnPoint) != 0;
}

// What has executed since the stack last changed. An event that waited for a handler's end is older
// than what the handler has executed, which has its context.
inline void EdgeCollector::State::add_to_context(GuestThread& thread, uint32_t context,
                                                 uint64_t clock) {
  if (clock <= thread.context_clock) return;
  contexts.add_instructions(context, clock - thread.context_clock);
  thread.context_clock = clock;
}

// It was executed in the topmost activation.
void EdgeCollector::State::count_context(GuestThread& thread, uint64_t clock) {
  add_to_context(thread, thread.frames.empty() ? thread.outside : thread.frames.back().context,
                 clock);
}

inline void EdgeCollector::State::push(GuestThread& thread, uint32_t callee,
                                       uint64_t return_address, uint64_t clock, ArcId arc) {
  EntryState& entry = entries.data()[callee];
  if ((entry.flags & EntryState::kCalled) == 0) [[unlikely]] {
    entry.flags |= EntryState::kCalled;
    note_called(table.block(BlockId(callee)).start);
  }
  if (thread.frames.size() >= kMaxFrames) [[unlikely]]
    shed(thread, clock);
  // An activation that a handler has delayed begins after it.
  clock = std::max(clock, thread.resumed_at);
  const uint32_t outermost = entry.active == 0 ? Frame::kOutermost : 0;
  entry.active = 1;
  uint32_t context = 0;
  if (options.contexts) {
    count_context(thread, clock);
    context = contexts.called(
        thread.frames.empty() ? thread.outside : thread.frames.back().context, callee);
    if (arc != kNoArc) contexts.add_call(context);
  }
  thread.frames.push_back(
      {return_address, clock, callee | outermost, arc, context, CodeOwners::called(callee)});
}

// The sample's first function will return to its innermost caller.
void EdgeCollector::State::begin_stack(GuestThread& thread, const trace::SampleStart& start) {
  const bool is_whole = start.is_whole() || (!start.tells_stack() && !options.begins_anywhere);
  thread.outside = is_whole ? ContextTree::kRoot : ContextTree::kUnknown;
  if (start.tells_stack() && !start.is_whole()) stacks_cut++;
  uint32_t context = thread.outside;
  uint64_t returns_to = 0;
  for (size_t i = start.callers(); i-- > 0;) {
    const trace::SampleStart::Caller caller = start.caller(i);
    // A call may be the last instruction of its function.
    const uint64_t inside = caller.is_exact ? caller.address : caller.address - 1;
    context = contexts.on_stack(context, GuestAddr(inside));
    thread.frames.push_back(
        {returns_to, thread.clock, kStackBlock, kNoArc, context, owners.owner_at(caller.address)});
    returns_to = caller.address;
  }
  thread.first_return = returns_to;
}

// Ends an activation that is no longer on the stack.
inline void EdgeCollector::State::close(GuestThread& thread, const Frame& frame, uint64_t clock) {
  if (options.contexts) add_to_context(thread, frame.context, clock);
  if (!frame.outermost()) return;
  EntryState& entry = entries.data()[frame.block()];
  const uint64_t insns = clock - frame.clock;
  entry.active = 0;
  entry.inclusive += insns;
  if (frame.arc == kNoArc) return;
  if ((frame.arc & kPairArc) != 0)
    pairs.add_inclusive(frame.arc & ~kPairArc, insns);
  else
    sites.data()[frame.arc].inclusive += insns;
}

inline void EdgeCollector::State::pop(GuestThread& thread, uint64_t clock) {
  close(thread, thread.frames.back(), clock);
  thread.frames.pop_back();
  if (!thread.signals.empty()) [[unlikely]]
    pop_to(thread, thread.frames.size(), clock);
}

void EdgeCollector::State::pop_to(GuestThread& thread, size_t depth, uint64_t clock) {
  while (thread.frames.size() > depth) {
    close(thread, thread.frames.back(), clock);
    thread.frames.pop_back();
  }
  while (!thread.signals.empty() && thread.signals.back().depth > depth) thread.signals.pop_back();
  if (depth == 0 && options.contexts) count_context(thread, clock);
}

// A full stack is a deep recursion or full of frames that were left behind. What matters of both is
// at its ends: the outermost activations, and those that return next. The middle half goes.
void EdgeCollector::State::shed(GuestThread& thread, uint64_t clock) {
  if (options.contexts) count_context(thread, clock);
  const auto first = thread.frames.begin() + kMaxFrames / 4;
  const auto last = first + kMaxFrames / 2;
  for (auto frame = last; frame != first;) close(thread, *--frame, clock);
  calls_too_deep += static_cast<uint64_t>(last - first);
  thread.frames.erase(first, last);
  thread.signals.clear();
  thread.suspicions.clear();
}

// So many frames are right, and the activation of this function that is behind them: it goes on
// regularly, so what was not placed last is its.
void EdgeCollector::State::trust(GuestThread& thread, size_t depth, CodeOwners::Owner owner) {
  std::vector<Suspicion>& suspicions = thread.suspicions;
  if (suspicions.empty() || suspicions.back().depth <= depth) return;
  for (const CodeOwners::Place place : suspicions.back().places) owners.learn(place, owner);
  drop_suspicions(thread, depth);
}

void EdgeCollector::State::drop_suspicions(GuestThread& thread, size_t depth) {
  while (!thread.suspicions.empty() && thread.suspicions.back().depth > depth)
    thread.suspicions.pop_back();
}

// The nearest activation of this function, below so many frames.
size_t EdgeCollector::State::find_activation(GuestThread& thread, CodeOwners::Owner owner) {
  return find_frame(thread, [&](const Frame& f) { return owners.are_one(f.owner, owner); });
}

// Control comes to this address by no call, and by no return that was expected. Whatever was not
// placed before may be of another function than what follows.
void EdgeCollector::State::arrive(GuestThread& thread, uint64_t address, uint64_t clock) {
  if (thread.frames.empty()) return;
  const CodeOwners::Place place = owners.place(address);
  const CodeOwners::Owner owner = owners.owner(place);
  const bool is_known = owner != CodeOwners::kNobody;
  if (const size_t depth = is_known ? find_activation(thread, owner) : kNowhere;
      depth != kNowhere) {
    pop_to(thread, depth + 1, clock);
    return drop_suspicions(thread, depth);
  }
  std::vector<Suspicion>& suspicions = thread.suspicions;
  const size_t depth = thread.frames.size();
  drop_suspicions(thread, depth - 1);
  if (suspicions.size() == kMostSuspicions) suspicions.erase(suspicions.begin());
  suspicions.push_back({depth, {}});
  if (!is_known) suspicions.back().places.push_back(place);
}

void EdgeCollector::State::returned(GuestThread& thread, const Event& event) {
  const uint64_t target = table.block(BlockId(event.successor)).start.value;
  const std::vector<Frame>& frames = thread.frames;
  if (!frames.empty() && frames.back().return_address == target) [[likely]] {
    if (!thread.suspicions.empty()) [[unlikely]]
      trust(thread, frames.size() - 1, frames.back().owner);
    pop(thread, event.clock);
    return;
  }
  // A handler returns to code that calls rt_sigreturn(2); its activation ends with that.
  if (!thread.signals.empty() && thread.signals.back().depth + 1 == frames.size()) return;
  const size_t depth =
      find_frame(thread, [&](const Frame& f) { return f.return_address == target; });
  if (depth != kNowhere) {
    trust(thread, depth, frames[depth].owner);
    pop_to(thread, depth, event.clock);
    return;
  }
  returns_without_call++;
  // Out of the outermost function that was known, into one whose callers are not.
  if (frames.size() == 1 && frames[0].return_address == 0) {
    trust(thread, 0, frames[0].owner);
    thread.frames[0].owner = owners.owner_at(target);
    if (!options.contexts) return;
    count_context(thread, event.clock);
    thread.frames[0].context = contexts.called(thread.outside, event.successor);
    return;
  }
  arrive(thread, target, event.clock);
}

// The activation on top makes this call, if it is known which one that is.
void EdgeCollector::State::place_call(GuestThread& thread, CallSite& site, uint64_t clock) {
  if (!thread.suspicions.empty()) {
    Suspicion& last = thread.suspicions.back();
    const CodeOwners::Owner owner = owners.owner(site.place);
    const bool is_on_top = thread.frames.size() == last.depth;
    if (owner == CodeOwners::kNobody && is_on_top) {
      if (last.places.size() < kMostPlaces) last.places.push_back(site.place);
      return;
    }
    const size_t depth = owner == CodeOwners::kNobody ? kNowhere : find_activation(thread, owner);
    if (depth != kNowhere) {
      pop_to(thread, depth + 1, clock);
      trust(thread, depth, owner);
    } else if (is_on_top) {
      return;
    }
  }
  if (thread.frames.empty()) return;
  Frame& top = thread.frames.back();
  site.owner = top.owner = owners.learn(site.place, top.owner);
}

void EdgeCollector::State::called(GuestThread& thread, const Event& event, ArcId arc) {
  CallSite& site = sites.data()[event.run];
  thread.search_credit = std::min(thread.search_credit + kCreditPerCall, kMaxCredit);
  const bool is_known = !thread.frames.empty() && site.owner == thread.frames.back().owner;
  if (!is_known || !thread.suspicions.empty()) [[unlikely]]
    place_call(thread, site, event.clock);
  push(thread, event.successor, site.return_address, event.clock, arc);
}

// An indirect jump, or a direct one to code that is also called.
void EdgeCollector::State::jumped(GuestThread& thread, const Event& event, Follow follow) {
  if (thread.frames.empty()) return;
  const Frame top = thread.frames.back();
  if (top.block() == event.successor || top.return_address == 0) return;
  const uint64_t facts = cells.data()[event.run].facts;
  const bool through_stub =
      follow == Follow::indirect_jump && Facts::insns(facts) <= kMaxStubInsns &&
      Facts::block(facts) == top.block() && event.clock - top.clock == Facts::insns(facts);
  EntryState& entry = entries.data()[event.successor];
  if (!through_stub && (entry.flags & EntryState::kCalled) == 0) {
    if (is_return_point(event.successor))
      arrive(thread, table.block(BlockId(event.successor)).start.value, event.clock);
    else
      entry.other_invocations++;  // if it turns out to be called
    return;
  }
  pop_to(thread, thread.frames.size() - 1, event.clock);
  ArcId arc = kNoArc;
  if (through_stub && (top.arc & kPairArc) == 0) {
    // The call site's pair is the one with what the stub leads to. A direct call has no other
    // entries in the table of pairs; finish() subtracts them from those of the stub.
    const uint32_t slot = pairs.find(PairTable::key(top.arc, event.successor));
    pairs.add(slot, 1);
    arc = slot | kPairArc;
  } else {
    entry.other_invocations++;
  }
  push(thread, event.successor, top.return_address, event.clock, arc);
}

void EdgeCollector::State::follow_calls(GuestThread& thread, const Event* batch, size_t count) {
  // What the loop below touches first, for all events at once. Not everything is needed for each,
  // but to ask would cost more.
  for (size_t i = 0; i < count; i++) {
    __builtin_prefetch(&table.block(BlockId(batch[i].successor)));
    __builtin_prefetch(&entries.data()[batch[i].successor], 1);
    __builtin_prefetch(&sites.data()[batch[i].run]);
  }
  for (size_t i = 0; i < count; i++) {
    const Event& event = batch[i];
    switch (event_follows[i]) {
      case Follow::no:
        break;
      case Follow::call:
        called(thread, event, event.run);
        break;
      case Follow::indirect_call:
        called(thread, event, event_slots[i] | kPairArc);
        break;
      case Follow::ret:
        returned(thread, event);
        break;
      case Follow::indirect_jump:
      case Follow::tail_jump:
        jumped(thread, event, event_follows[i]);
        break;
      case Follow::stack_switch:
        arrive(thread, table.block(BlockId(event.successor)).start.value, event.clock);
        break;
      case Follow::enter:
        entries.data()[event.successor].other_invocations++;
        push(thread, event.successor, std::exchange(thread.first_return, 0), event.clock, kNoArc);
        // Perhaps in the middle of a function.
        thread.frames.back().owner =
            owners.owner_at(table.block(BlockId(event.successor)).start.value);
        break;
    }
  }
}

void EdgeCollector::State::move_arcs(const std::vector<uint32_t>& moved) {
  for (auto& [tid, thread] : threads)
    for (Frame& frame : thread.frames)
      if (frame.arc != kNoArc && (frame.arc & kPairArc) != 0)
        frame.arc = moved[frame.arc & ~kPairArc] | kPairArc;
}

// EntryState::active speaks of one thread's stack. Chunks are long and stacks are not, so it is
// cheaper to move the marks than to keep them per thread.
void EdgeCollector::State::make_current(GuestThread& thread) {
  if (current == &thread) return;
  if (current != nullptr)
    for (const Frame& frame : current->frames) entries.data()[frame.block()].active = 0;
  for (const Frame& frame : thread.frames)
    if (frame.outermost()) entries.data()[frame.block()].active = 1;
  current = &thread;
}

void EdgeCollector::State::end_activations(GuestThread& thread) {
  pop_to(thread, 0, thread.clock);
  thread.signals.clear();
  thread.suspicions.clear();
  thread.first_return = 0;
  thread.pending = enter_at(thread.clock);
  thread.has_pending = true;
}

void EdgeCollector::State::signal_delivered(GuestThread& thread) {
  // Handlers that leave by siglongjmp pile up in a program that does so for ever.
  if (thread.signals.size() >= kMaxNestedSignals)
    pop_to(thread, thread.signals.front().depth, thread.clock);
  thread.signals.push_back({thread.frames.size(), thread.pending, thread.has_pending});
  thread.pending = enter_at(thread.clock);
  thread.has_pending = true;
}

void EdgeCollector::State::signal_returned(GuestThread& thread) {
  thread.has_pending = false;
  if (thread.signals.empty()) return;
  const ActiveSignal signal = thread.signals.back();
  pop_to(thread, signal.depth, thread.clock);
  drop_suspicions(thread, signal.depth);
  thread.signals.pop_back();
  thread.pending = signal.pending;
  thread.has_pending = signal.has_pending;
  thread.resumed_at = thread.clock;
}

}  // namespace shadowprof::collect
