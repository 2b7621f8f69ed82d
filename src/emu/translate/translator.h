// SPDX-License-Identifier: MIT
//
// Guest code in, code cache out.
//
// A fragment is up to kMaxFragmentBlocks blocks that follow one another: by falling through a
// conditional branch, and (TranslatorOptions) by a direct jump or call. Its instructions are copied
// as they are, but for
//   - those that name r15, which name the fragment's substitute instead (a register of r8-r11, r14
//     that the fragment does not use; parked at its first use, restored at every exit);
//   - rip-relative operands, whose displacement is recomputed, or, out of reach, whose address is
//     loaded into a register that the instruction does not use;
//   - branches, calls and returns (see code_cache.h for where they go);
//   - system calls, which go through the gateway.
// Inserted code writes a record at each exit, and the slots of the capture plan as it goes. It
// changes no flag and nothing below the guest's stack pointer. Between two points (Point) the
// thread's registers are not the guest's: who stops a thread there steps it on to the next point.
//
// Code that may change unseen (writable, or shared) is translated one block at a time, ends after
// every instruction that writes memory, and begins with a comparison of its bytes. So a change by
// this or another thread takes effect where hardware would make it take effect at the latest: at
// the next jump, or behind the store.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "decoder/insn.h"
#include "emu/address_table.h"
#include "emu/code_cache.h"
#include "emu/code_source.h"
#include "emu/guest_blocks.h"
#include "emu/translate/captured_registers.h"
#include "emu/translate/decoded_code.h"
#include "emu/translate/emitter.h"
#include "emu/translate/timed_load.h"
#include "trace/block_table.h"
#include "trace/capture_wishes.h"

namespace shadowprof::emu {

// What a translation records beside run ids.
struct CapturePlan {
  // Results in general-purpose registers, the first elements of those in vector registers
  // (element_slot), mask registers, and operands of compares.
  bool values = false;
  bool addresses = false;
  // Where a run begins: its first slot is `base` rsp of instruction 0.
  bool stack_pointer = false;
  bool load_cycles = false;  // of every load (decoder::LoadKind), and what moves got
  bool stored = false;       // what stores store and what was there (decoder::StoredOperand)
  bool moments = false;      // time stamps before and behind system calls
  trace::CaptureWishes* wishes = nullptr;  // of single instructions, besides
  bool records = true;       // false, where there are counters: nothing is recorded
  bool empty_records = true; // false, where there are counters: nor is what captures nothing
  bool of_bouts = false;     // what it makes is executed in bouts only (translator_bouts.cc)
  bool captures() const {
    return values || addresses || load_cycles || stored || moments || wishes != nullptr;
  }
  bool times_loads() const { return load_cycles || (wishes != nullptr && wishes->times_loads()); }
  bool operator==(const CapturePlan&) const = default;
};

struct TranslatorOptions {
  // Fragments go on through direct jumps and calls. Off for collectors that want to see each of
  // them at the end of a run.
  bool through_jumps = true;
  // cpuid stops at the tracer, which answers it.
  bool stop_at_cpuid = false;
  // So do rdtsc and rdtscp.
  bool stop_at_rdtsc = false;
  // Backward branches count down a thread's turn (state field turn_left), and stop at its end.
  bool count_turns = false;
};

class Translator {
 public:
  Translator(CodeCache& cache, trace::BlockTable& table, CodeSource& source,
             TranslatorOptions options = {})
      : cache_(cache),
        table_(table),
        source_(source),
        guest_blocks_(source, table),
        options_(options) {}

  enum class Outcome { translated, no_code, cache_full };
  struct Translation {
    Outcome outcome;
    FragmentId fragment;
  };
  // `site`: the indirect branch that leads to the address, if one does.
  Translation translate(GuestAddr pc, std::optional<RunId> site, CapturePlan plan);
  // From now on code with loads has another translation, by this plan, which is executed instead
  // while the thread has a bout.
  void capture_in_bouts(const CapturePlan& plan) { plan_of_bouts_ = plan; }

  // The program overwrites the flags that `inc` changes before it reads them again.
  bool inc_is_harmless_at(GuestAddr pc);
  // From now on (TranslatorOptions). What is translated already does not.
  void count_turns() { options_.count_turns = true; }
  bool counts_turns() const { return options_.count_turns; }
  // What is known of guest code that is not there any more.
  void forget_code() {
    harmless_.clear();
    decoded_.forget();
  }

  // The run for a fragment that was left after its first `insns` instructions by something that
  // is not one of its exits. Nothing when none was executed.
  std::optional<RunId> interrupted_run(const Fragment& fragment, uint32_t insns);

 private:
  struct PlannedBlock {
    BlockId id;
    uint32_t first_insn;
    uint32_t end_insn;
  };
  struct Stub {  // the taken side of a conditional inside the fragment
    uint32_t jcc_field;
    uint32_t blocks;
    uint32_t insns;
    GuestAddr target;
    size_t slots;
    bool substitute_active;
  };

  // Deciding what the fragment is.
  bool plan_fragment(GuestAddr pc, const CodeRegion& region);
  // Adds the block at `pc`; the address at which the fragment goes on, if it may.
  std::optional<GuestAddr> plan_block(GuestAddr pc, const CodeRegion& region);
  // Tables are asked about where it leads when the fragment is written.
  void expect_exit(const decoder::Insn& insn) const;
  bool can_follow(GuestAddr target, CodeRegion& region);
  bool continues_in_changing_code(GuestAddr pc, const CodeRegion& region);
  const decoder::Insn& fetch_insn(GuestAddr pc, const CodeRegion& region);
  decoder::Insn read_insn(GuestAddr pc, const CodeRegion& region);
  void add_block(uint32_t first_insn, const CodeRegion& region, trace::Terminator terminator);
  bool fits_substitute(const decoder::Insn& insn) const;
  void choose_substitute();

  // Writing it.
  FragmentId write_fragment(GuestAddr pc, const CodeRegion& region,
                            std::optional<FragmentId> in_bouts);
  void emit_fragment(Emitter& e, const CodeRegion& region);
  void emit_self_check(Emitter& e);
  void emit_insn(Emitter& e, uint32_t index);
  void emit_ordinary(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void emit_copy(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void emit_far_operand(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void emit_conditional(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void emit_counter_branch(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void emit_indirect(Emitter& e, const decoder::Insn& insn, uint32_t index);
  struct OperandLoad {
    decoder::Gpr reg;
    uint8_t bits;
    Recovery when_spilled;  // how its own value comes back
    Recovery always = kAllInPlace;
  };
  void emit_operand_load(Emitter& e, const decoder::Insn& insn, uint32_t index, OperandLoad to);
  void emit_ret(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void emit_syscall(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void emit_push_return(Emitter& e, GuestAddr return_address);
  void emit_jump_or_call(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void emit_stubs(Emitter& e);
  void emit_constants(Emitter& e);

  // Pieces of the above.
  void mark_point(Emitter& e, uint32_t index, uint8_t recovery = 0, decoder::Gpr reg = 0);
  void activate_substitute(Emitter& e);
  void restore_substitute(Emitter& e);
  void capture_addresses(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void capture_compared(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void capture_divisor(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void capture_wished(Emitter& e, const decoder::Insn& insn, uint32_t index);
  bool is_behind_system_call(GuestAddr pc);
  void capture_moment(Emitter& e, bool before_call, uint32_t index);
  void capture_stored(Emitter& e, const decoder::Insn& insn, uint32_t index);
  void capture_memory(Emitter& e, const decoder::Insn& insn, uint32_t index, uint8_t bits,
                      Recovery recovery = kAllInPlace);
  void capture_results(Emitter& e, const decoder::Insn& insn, uint32_t index);
  // The next load of memory that is emitted is timed, if that instruction is to be.
  void time_next_load(const decoder::Insn& insn, uint32_t index);
  void begin_timing(Emitter& e);
  void end_timing(Emitter& e);
  void capture_register(Emitter& e, trace::SlotKind kind, decoder::Gpr reg, uint32_t index);
  // A run's that has as many.
  bool is_recorded(size_t slots) const {
    return plan_.records && (plan_.empty_records || slots != 0);
  }
  // Behind the record of what was captured up to now.
  uint32_t record_end() const {
    return is_recorded(slots_.size()) ? next_slot_displacement() : 0;
  }
  uint32_t next_slot_displacement() const { return static_cast<uint32_t>(4 + 8 * slots_.size()); }
  RunId make_run(trace::RunExit exit, uint32_t blocks, uint32_t insns, size_t slots,
                 GuestAddr target);
  // What a run leaves behind: a record, or its counter one higher.
  void emit_record(Emitter& e, RunId run);
  void emit_trace_record(Emitter& e, RunId run);
  void emit_count(Emitter& e, RunId run);
  bool counting() const { return has_counts(cache_.recording()); }
  bool tracing() const { return has_trace(cache_.recording()); }
  void emit_direct_exit(Emitter& e, trace::RunExit exit, uint32_t blocks, uint32_t insns,
                        size_t slots, GuestAddr target);
  void emit_branch_dispatch(Emitter& e, RunId site);
  // translator_bouts.cc
  std::optional<FragmentId> fragment_of_bouts(GuestAddr pc, const CodeRegion& region);
  void emit_bout_check(Emitter& e);
  void capture_bout(Emitter& e);
  // translator_turns.cc
  struct TurnCheck {
    uint32_t at_end = 0;  // field of the jump for when the turn is over
    bool spilled = false;
  };
  bool goes_back(uint32_t blocks, GuestAddr target) const;
  TurnCheck emit_turn_check(Emitter& e, GuestAddr target);
  void emit_turn_end(Emitter& e, const TurnCheck& check, uint64_t goes_on_at);
  uint32_t emit_branch_turn_check(Emitter& e);
  void emit_branch_turn_end(Emitter& e, uint32_t at_end, uint64_t goes_on_at);
  decoder::Gpr stand_in(decoder::Gpr r) const { return r == decoder::kR15 ? substitute_ : r; }
  static std::array<uint8_t, decoder::kMaxInsnBytes> patched(const decoder::Insn& insn,
                                                             decoder::Gpr substitute);

  CodeCache& cache_;
  trace::BlockTable& table_;
  CodeSource& source_;
  GuestBlocks guest_blocks_;
  TranslatorOptions options_;
  std::unordered_map<uint64_t, RunId> interrupted_;
  std::optional<CapturePlan> plan_of_bouts_;
  AddressTable<std::optional<bool>> harmless_;  // what inc_is_harmless_at has found out

  DecodedCode decoded_;

  // The fragment being made.
  CapturePlan plan_;
  std::vector<const decoder::Insn*> insns_;  // in decoded_, which holds more than any fragment has
  std::vector<PlannedBlock> blocks_;
  std::vector<BlockId> block_ids_;
  std::vector<GuestRange> ranges_;
  std::vector<Point> points_;
  std::vector<Exit> exits_;
  std::vector<trace::Slot> slots_;
  std::vector<Stub> stubs_;
  std::vector<std::pair<uint32_t, uint64_t>> constants_;  // disp32 field -> 8 bytes it points to
  decoder::GprMask used_registers_ = 0;
  decoder::Gpr substitute_ = decoder::kNoGpr;
  bool substitute_active_ = false;
  std::vector<uint32_t> stale_jumps_;
  uint32_t stale_trap_ = 0;
  uint64_t body_in_bouts_ = 0;  // 0: it has no translation for them
  CapturedRegisters captured_;
  trace::CaptureWish wish_;  // of the instruction that is being emitted
  StampSlots stamps_;        // of the load that is to be timed, if one is
  RunId last_run_;
};

}  // namespace shadowprof::emu
