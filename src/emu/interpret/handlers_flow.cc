// SPDX-License-Identifier: MIT
//
// Branches, the exits of fragments, and the loop that executes ops.
#include "emu/interpret/access.h"
#include "emu/interpret/handlers.h"

namespace shadowprof::emu {
namespace {

constexpr uint8_t kRspSlot = 4;
constexpr uint8_t kRcxOffset = 8;

[[gnu::always_inline]] inline bool push_return(State& state, const Op* op) {
  const uint64_t sp = state.gpr[kRspSlot] - 8;
  if (!store(state, sp, static_cast<uint64_t>(op->immediate))) return false;
  state.gpr[kRspSlot] = sp;
  return true;
}

const Op* call_direct(State& state, const Op* op) {
  return push_return(state, op) ? go_on(state, op + 1) : op;
}

// `displacement`: bytes that the callee's arguments take.
const Op* ret(State& state, const Op* op) {
  const uint64_t sp = state.gpr[kRspSlot];
  if (!load(state, sp, state.target)) return op;
  state.gpr[kRspSlot] = sp + 8 + static_cast<uint64_t>(op->displacement);
  return go_on(state, op + 1);
}

const Op* target_reg(State& state, const Op* op) {
  state.target = get<uint64_t>(state, op->use.src);
  return go_on(state, op + 1);
}

const Op* target_mem(State& state, const Op* op) {
  if (!load(state, address_of(state, op), state.target)) return op;
  return go_on(state, op + 1);
}

const Op* call_reg(State& state, const Op* op) {
  state.target = get<uint64_t>(state, op->use.src);
  return push_return(state, op) ? go_on(state, op + 1) : op;
}

const Op* call_mem(State& state, const Op* op) {
  if (!load(state, address_of(state, op), state.target)) return op;
  return push_return(state, op) ? go_on(state, op + 1) : op;
}

const Op* zero_eax(State& state, const Op* op) {
  state.gpr[0] = 0;
  return go_on(state, op + 1);
}

const Op* counter_branch(State& state, const Op* op) {
  const bool wide = op->use.dst == 8;
  uint64_t counter = wide ? get<uint64_t>(state, kRcxOffset) : get<uint32_t>(state, kRcxOffset);
  bool taken = false;
  if (op->use.extra == 3) {
    taken = counter == 0;
  } else {
    counter--;
    if (!wide) counter = static_cast<uint32_t>(counter);
    put(state, kRcxOffset, counter);
    const bool zero = (state.flags & kZeroBit) != 0;
    taken = counter != 0 && (op->use.extra == 2 || zero == (op->use.extra == 1));
  }
  return go_on(state, taken ? op->link : op + 1);
}

// True: there is room for another record, and budget.
[[gnu::always_inline]] inline bool write_record(State& state, const Op* op) {
  *state.cursor = op->leave.run;
  state.cursor += op->leave.words;
  state.left -= op->leave.insns;
  return state.cursor < state.limit && state.left > 0;
}

const Op* exit_direct(State& state, const Op* op) {
  const bool room = write_record(state, op);
  if (__builtin_expect(!room || !op->link, 0)) {
    return stop_at(state, op, room ? Stop::unlinked : Stop::full);
  }
  return go_on(state, op->link);
}

const Op* exit_indirect(State& state, const Op* op) {
  const bool room = write_record(state, op);
  const Target& known = state.targets[target_index(state.target)];
  if (__builtin_expect(!room || known.pc != state.target, 0)) {
    return stop_at(state, op, room ? Stop::indirect : Stop::full);
  }
  return go_on(state, known.op);
}

// The call is made where the op stops; its record is written before, as by the translator.
const Op* exit_system_call(State& state, const Op* op) {
  (void)write_record(state, op);
  return stop_at(state, op, Stop::system_call);
}

// What a dropped fragment leaves in its place, and where a fragment is cut: no record.
const Op* forward(State& state, const Op* op) {
  return op->link ? go_on(state, op->link) : stop_at(state, op, Stop::unlinked);
}

const Op* pause(State& state, const Op* op) {
  return stop_at(state, op, Stop::pause);
}

const Op* unsupported(State& state, const Op* op) {
  return stop_at(state, op, Stop::unsupported);
}

}  // namespace

const Handler kRet = ret, kTargetReg = target_reg, kTargetMem = target_mem, kCallReg = call_reg,
              kCallMem = call_mem, kPushReturn = call_direct, kZeroEax = zero_eax,
              kCounterBranch = counter_branch, kExitDirect = exit_direct,
              kExitIndirect = exit_indirect, kExitSystemCall = exit_system_call, kForward = forward,
              kPause = pause, kUnsupported = unsupported;

namespace {

void load_vectors(State& state) {
  asm volatile("xrstor64 %0"
               :
               : "m"(*state.vectors), "a"(static_cast<uint32_t>(state.vector_mask)),
                 "d"(static_cast<uint32_t>(state.vector_mask >> 32))
               : "memory");
  state.vectors_loaded = true;
}

// And gives the processor the control words that our own code expects.
void save_vectors(State& state) {
  constexpr uint32_t kDefaultControl = 0x1f80;
  asm volatile("xsave64 %0"
               : "+m"(*state.vectors)
               : "a"(static_cast<uint32_t>(state.vector_mask)),
                 "d"(static_cast<uint32_t>(state.vector_mask >> 32))
               : "memory");
  asm volatile("fninit\n\tldmxcsr %0" : : "m"(kDefaultControl));
  state.vectors_loaded = false;
}

}  // namespace

const Op* execute(State& state, const Op* op) {
  for (;;) {
    state.stop = Stop::none;
    do {
      op = op->handler(state, op);
    } while (state.stop == Stop::none);
    if (state.stop == Stop::vectors) {
      load_vectors(state);
      continue;
    }
    if (state.vectors_loaded) save_vectors(state);
    return op;
  }
}

}  // namespace shadowprof::emu
