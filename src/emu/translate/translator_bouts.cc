// SPDX-License-Identifier: MIT
//
// Where code is executed in another translation now and then: the code that counts down to that.
//
// A bout is trace::kBoutExecutions executions in a row, and not a single one. The branch to it is
// foreseen wrongly at first, so the processor has begun with the loads of the untimed translation
// before it finds itself in the timed one, and some of its loads are there already. In the course
// of a bout the branch is foreseen, and the fences around a timed load (timed_load.h) let nothing
// begin early. Who reads the records leaves out the first ones of each bout
// (collect/loads/timed_bouts.h).
#include <algorithm>
#include <utility>

#include "emu/translate/translator.h"

namespace shadowprof::emu {
namespace {

using decoder::kRcx;

constexpr size_t kBoutRcx = offsetof(StatePage, spill_rcx);
constexpr size_t kBoutGap = offsetof(StatePage, bout_gap);
constexpr size_t kBoutLeft = offsetof(StatePage, bout_left);
constexpr size_t kBoutNumber = offsetof(StatePage, bout_number);
constexpr size_t kBoutGapTable = offsetof(StatePage, bout_gaps);

}  // namespace

// The other translation of what is being made, which comes before it; nothing: it has none. Only
// the fragment itself leads to it, and looks first whether its code is what it was.
std::optional<FragmentId> Translator::fragment_of_bouts(GuestAddr pc, const CodeRegion& region) {
  const auto has_load = [](const decoder::Insn* insn) {
    return insn->load != decoder::LoadKind::none;
  };
  if (!plan_of_bouts_ || std::ranges::none_of(insns_, has_load)) return std::nullopt;
  const decoder::InsnKind first = insns_[0]->kind;
  if (first == decoder::InsnKind::native || first == decoder::InsnKind::unsupported)
    return std::nullopt;
  // Code that is translated once more has it already.
  const Fragment* const known = cache_.find(pc);
  if (known != nullptr && known->in_bouts != 0) return FragmentId(known->in_bouts - 1);
  CodeRegion checked = region;
  checked.may_change = false;
  const CapturePlan usual = std::exchange(plan_, *plan_of_bouts_);
  const FragmentId made = write_fragment(pc, checked, std::nullopt);
  plan_ = usual;
  return made;
}

// First in a fragment.
void Translator::emit_bout_check(Emitter& e) {
  mark_point(e, 0);
  e.store_state(kBoutRcx, kRcx);
  e.load_state(kRcx, kBoutGap);
  const uint32_t in_bout = e.jrcxz_forward();
  e.add_imm_to_rcx(-1);
  e.store_state(kBoutGap, kRcx);
  e.load_state(kRcx, kBoutRcx);
  const uint32_t over = e.jmp_forward();

  e.land_rel8(in_bout);
  e.load_state(kRcx, kBoutLeft);
  e.add_imm_to_rcx(-1);
  const uint32_t at_end = e.jrcxz_forward();
  e.store_state(kBoutLeft, kRcx);
  const uint32_t to_body = e.jmp_forward();
  e.land_rel8(at_end);
  e.mov_imm(kRcx, trace::kBoutExecutions);
  e.store_state(kBoutLeft, kRcx);
  e.load_state(kRcx, kBoutNumber);
  e.add_imm_to_rcx(1);
  e.movzx_ecx_cl();
  e.store_state(kBoutNumber, kRcx);
  e.load_word_rcx(kBoutGapTable);
  e.store_state(kBoutGap, kRcx);
  e.land_rel32(to_body);
  e.load_state(kRcx, kBoutRcx);
  e.jmp_rel32(body_in_bouts_);
  e.land_rel32(over);
}

// First in a fragment of bouts.
void Translator::capture_bout(Emitter& e) {
  const uint32_t displacement = next_slot_displacement();
  mark_point(e, 0);
  e.store_state(kBoutRcx, kRcx);
  e.load_state(kRcx, kBoutLeft);
  e.store_cursor_reg(displacement, kRcx);
  e.load_state(kRcx, kBoutRcx);
  slots_.push_back({trace::SlotKind::bout, 0, 0});
}

}  // namespace shadowprof::emu
