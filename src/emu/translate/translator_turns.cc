// SPDX-License-Identifier: MIT
//
// Where threads take turns: the code that counts down a thread's turn, and stops when it is over.
//
// Every loop passes such a place: an indirect branch, or a direct exit that leads back, below the
// end of some of what its fragment has executed. (The starts of fragments that follow one another
// by other exits only ascend.) What is counted follows from what the guest executes, and from how
// its code is cut into fragments, which follows from the code; so turns end at the same branches in
// each run.
#include <algorithm>

#include "emu/translate/translator.h"

namespace shadowprof::emu {
namespace {

using decoder::kRcx;
using decoder::kRdx;

constexpr size_t kLeft = offsetof(StatePage, turn_left);
constexpr size_t kBack = offsetof(StatePage, turn_back);
constexpr uint8_t kZero = 4;  // condition of jz

}  // namespace

bool Translator::goes_back(uint32_t blocks, GuestAddr target) const {
  return std::any_of(blocks_.begin(), blocks_.begin() + blocks, [&](const PlannedBlock& block) {
    return target < insns_[block.end_insn - 1]->next();
  });
}

// Before the jump of a direct exit.
Translator::TurnCheck Translator::emit_turn_check(Emitter& e, GuestAddr target) {
  TurnCheck check;
  if (inc_is_harmless_at(target)) {  // and so is dec
    e.dec_state(kLeft);
    check.at_end = e.jcc_forward(kZero);
    return check;
  }
  e.spill_rcx();
  e.load_state(kRcx, kLeft);
  e.add_imm_to_rcx(-1);
  e.store_state(kLeft, kRcx);
  check.at_end = e.jrcxz_forward();
  check.spilled = true;
  e.restore_rcx();
  return check;
}

// Out of the way of what is executed often.
void Translator::emit_turn_end(Emitter& e, const TurnCheck& check, uint64_t goes_on_at) {
  if (check.spilled) {
    e.land_rel8(check.at_end);
  } else {
    e.land_rel32(check.at_end);
    e.spill_rcx();
  }
  e.lea_rcx_rip(goes_on_at);
  e.store_state(kBack, kRcx);
  e.restore_rcx();
  e.jmp_rel32(cache_.turn_over_address());
}

// rcx is the target of an indirect branch, and rdx is free.
uint32_t Translator::emit_branch_turn_check(Emitter& e) {
  e.mov(kRdx, kRcx);
  e.load_state(kRcx, kLeft);
  e.add_imm_to_rcx(-1);
  e.store_state(kLeft, kRcx);
  const uint32_t at_end = e.jrcxz_forward();
  e.mov(kRcx, kRdx);
  return at_end;
}

void Translator::emit_branch_turn_end(Emitter& e, uint32_t at_end, uint64_t goes_on_at) {
  e.land_rel8(at_end);
  e.lea_rcx_rip(goes_on_at);
  e.store_state(kBack, kRcx);
  e.mov(kRcx, kRdx);
  e.jmp_rel32(cache_.turn_over_address());
}

}  // namespace shadowprof::emu
