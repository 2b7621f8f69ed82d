// SPDX-License-Identifier: MIT
#include "recording.h"

#include <array>
#include <optional>

#include "base/check.h"
#include "decoder/divisor.h"
#include "emu/translate/captured_registers.h"
#include "ptrace/launch.h"

namespace shadowprof::inject_test {

using decoder::Gpr;
using decoder::gpr_bit;
using decoder::GprMask;
using decoder::Insn;
using trace::Slot;
using trace::SlotKind;

EngineRun run_in_engine(trace::BlockTable& table, trace::TraceSink& sink, emu::CapturePlan plan,
                        std::vector<std::string> argv,
                        const std::optional<emu::CapturePlan>& in_bouts) {
  using ptrace::TraceOptions;
  ptrace::LaunchRequest launch;
  launch.path = argv[0];
  launch.argv = std::move(argv);
  launch.environment = {kEnvironment};
  launch.signals = ptrace::InheritedSignals::capture();
  launch.fixed_addresses = true;
  launch.options = TraceOptions::mark_syscall_stops | TraceOptions::follow_fork |
                   TraceOptions::follow_vfork | TraceOptions::follow_clone |
                   TraceOptions::report_exec | TraceOptions::report_exit | TraceOptions::exit_kill;
  const auto tracee = ptrace::launch(launch);
  SP_CHECK(tracee.has_value(), "{}", tracee.error().message);
  inject::EngineOptions options{.follow = false, .plan = plan, .trace = launch.options};
  options.space.in_bouts = in_bouts;
  options.space.share_of_bouts = 1.0 / 3;
  inject::Engine engine(table, sink, options);
  const Status adopted = engine.adopt(*tracee);
  SP_CHECK(adopted.has_value(), "{}", adopted.error().message);
  const auto end = engine.run([] {});
  SP_CHECK(end.has_value(), "{}", end.error().message);
  return {*end, engine.records().counts};
}

Recording record(const std::vector<std::string>& program, emu::CapturePlan plan) {
  Recording made;
  made.table = std::make_unique<trace::BlockTable>();
  made.run = run_in_engine(*made.table, made.sink, plan, program);
  return made;
}

namespace {

// The reference is stepped by the trap flag, which it has in memory where pushf was.
uint64_t without_stepping(uint64_t truth, uint64_t recorded) {
  constexpr uint64_t kTrapFlag = 0x100;
  return (truth ^ recorded) == kTrapFlag ? recorded : truth;
}

// Goes through a trace and the reference side by side.
class Checker {
 public:
  Checker(const Recording& recording, emu::CapturePlan plan, Reference& reference,
          GuestAddr values_from)
      : table_(*recording.table), plan_(plan), reference_(reference), values_from_(values_from) {
    for (const auto& chunk : recording.sink.chunks()) check_chunk(chunk);
    if (reference_.at(verdict.insns) != nullptr) {
      complain("the trace ends after {} instructions, the program goes on", verdict.insns);
    }
  }

  Verdict verdict;

 private:
  template <typename... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args) {
    if (verdict.complaints.size() < 10) {
      verdict.complaints.push_back(fmt::format(format, std::forward<Args>(args)...));
    }
  }

  void check_chunk(const std::vector<trace::Word>& words) {
    trace::Reader reader(table_, words);
    for (;;) {
      const auto next = reader.next();
      if (!next) return complain("{}", next.error().message);
      if (!*next) return;
      if (!verdict.complaints.empty()) return;  // one difference makes all that follows differ
      if ((*next)->special()) {
        verdict.gaps++;
      } else {
        check_record(**next);
      }
    }
  }

  void check_record(const trace::Record& record) {
    const trace::Run& run = table_.run(record.run());
    const auto slots = table_.slots(run);
    size_t next_slot = 0;
    uint16_t insn = 0;
    recorded_ = known_ = 0;
    const auto blocks = table_.blocks(run);
    for (size_t b = 0; b < blocks.size(); b++) {
      const trace::Block& block = table_.block(blocks[b]);
      const uint32_t count = b + 1 == blocks.size() ? run.last_block_insns : block.insns;
      GuestAddr pc = block.start;
      for (uint32_t i = 0; i < count; i++, insn++) {
        const size_t first = next_slot;
        while (next_slot < slots.size() && slots[next_slot].insn == insn) next_slot++;
        if (!check_insn(pc, record, slots, first, next_slot)) return;
        pc = reference_.insn(pc).next();
      }
      if (count == block.insns && pc != block.end) {
        complain("block {:#x}: ends at {:#x}, its instructions at {:#x}", block.start.value,
                 block.end.value, pc.value);
      }
    }
    if (insn != run.insns) complain("run of {} instructions, its blocks have {}", run.insns, insn);
    if (next_slot != slots.size()) complain("slots {}.. belong to no instruction", next_slot);
  }

  bool check_insn(GuestAddr pc, const trace::Record& record, std::span<const Slot> slots,
                  size_t first, size_t end) {
    const size_t number = verdict.insns++;
    // The later moment first: a model does not run backwards.
    const Moment* following = reference_.at(number + 1);
    const Moment after = following ? *following : Moment{};
    const Moment* now = reference_.at(number);
    if (!now || now->pc != pc) {
      complain("instruction {} at {:#x}, in truth at {:#x}", number, pc.value,
               now ? now->pc.value : 0);
      return false;
    }
    const Insn& insn = reference_.insn(pc);
    Seen seen;
    std::array<uint64_t, 16> results{};
    for (size_t s = first; s < end; s++) {
      const Slot& slot = slots[s];
      const uint64_t got = record.slot(s);
      verdict.slots++;
      switch (slot.kind) {
        case SlotKind::value:
          seen.results |= gpr_bit(slot.reg);
          results[slot.reg] = got;
          check_value(pc, "result", slot.reg, got, after.gpr[slot.reg]);
          break;
        case SlotKind::compared:
          check_value(pc, "compared register", slot.reg, got, now->gpr[slot.reg]);
          note_recorded(slot.reg, got);
          break;
        case SlotKind::memory:
          seen.memory = true;
          check_value(pc, "compared or stored memory, or divisor,", 0, got,
                      without_stepping(now->memory, got));
          break;
        case SlotKind::vector:
        case SlotKind::mask:
          seen.element = slot.kind;
          if (slot.reg != insn.element_result.reg) complain("element of register {}", slot.reg);
          check_value(pc, "element", slot.reg, got, after.element);
          break;
        case SlotKind::base:
        case SlotKind::index:
          check_value(pc, "address register", slot.reg, got, now->gpr[slot.reg]);
          note_recorded(slot.reg, got);
          break;
        case SlotKind::moment:
          verdict.moments++;
          if (got <= last_moment_) complain("a moment {} after {}", got, last_moment_);
          last_moment_ = got;
          break;
        case SlotKind::bout:
          break;
        case SlotKind::load_cycles:
        case SlotKind::stamps: {
          (slot.kind == SlotKind::stamps ? verdict.stamps : verdict.timed_loads)++;
          seen.cycles |= slot.kind == SlotKind::load_cycles;
          const uint32_t cycles = static_cast<uint32_t>(got >> 32) - static_cast<uint32_t>(got);
          if (cycles == 0 || cycles > 1'000'000'000) complain("{} cycles", cycles);
          break;
        }
      }
    }
    check_addresses(insn, *now);
    check_complete(insn, seen);
    tell_sum(insn);
    for (Gpr r = 0; r < 16; r++)
      if (seen.results & gpr_bit(r)) note_recorded(r, results[r]);
    return verdict.complaints.empty();
  }

  void check_value(GuestAddr pc, const char* what, unsigned reg, uint64_t got, uint64_t truth) {
    if (got == truth || pc < values_from_) return;
    complain("{} {} of instruction {} ({:#x} {}): recorded {:#x}, in truth {:#x}", what, reg,
             verdict.insns - 1, pc.value, decoder::disassemble(reference_.insn(pc).bytes, pc), got,
             truth);
  }

  struct Seen {
    GprMask results = 0;
    bool memory = false, cycles = false;
    std::optional<SlotKind> element;
  };

  void note_recorded(Gpr reg, uint64_t value) {
    recorded_ |= gpr_bit(reg);
    known_ |= gpr_bit(reg);
    values_[reg] = value;
  }

  // What the record tells of a register that it does not hold.
  void check_addresses(const Insn& insn, const Moment& now) {
    if (!plan_.addresses) return;
    for (uint8_t i = 0; i < insn.access_count; i++) {
      for (const Gpr r : {insn.accesses[i].base, insn.accesses[i].index}) {
        if (r < 16 && (known_ & gpr_bit(r)))
          check_value(insn.address, "told register", r, values_[r], now.gpr[r]);
      }
    }
  }
  void tell_sum(const Insn& insn) {
    recorded_ &= static_cast<GprMask>(~insn.writes);
    known_ = insn.known_after(known_);
    if (insn.sum.to < 16)
      values_[insn.sum.to] = values_[insn.sum.from] + static_cast<uint64_t>(insn.sum.addend);
  }

  // A plan's promise: every result, and every address register, compared one and divisor that the
  // record does not hold yet.
  void check_complete(const Insn& insn, const Seen& seen) {
    if (plan_.addresses) {
      for (uint8_t i = 0; i < insn.access_count; i++) {
        for (const Gpr r : {insn.accesses[i].base, insn.accesses[i].index}) {
          if (r < 16 && !(known_ & gpr_bit(r))) {
            complain("{:#x}: address register {} is not recorded", insn.address.value, r);
          }
        }
      }
    }
    bool reads_memory = false;
    for (const decoder::ComparedOperand& side : insn.compared) {
      const bool compares = plan_.values && insn.compared_bits != 0;
      reads_memory |= compares && side.kind == decoder::ComparedOperand::Kind::memory;
      if (compares && side.reg < 16 && !(recorded_ & gpr_bit(side.reg)))
        complain("{:#x}: compared register {} is not recorded", insn.address.value, side.reg);
    }
    const bool stores = plan_.stored && insn.stored.how != decoder::StoredOperand::How::none;
    reads_memory |= stores;
    if (stores && insn.stored.reg < 16 && !(recorded_ & gpr_bit(insn.stored.reg)))
      complain("{:#x}: stored register {} is not recorded", insn.address.value, insn.stored.reg);
    const auto divisor = plan_.values ? decoder::divisor_of(insn) : std::nullopt;
    reads_memory |= divisor && divisor->in_memory;
    if (divisor && divisor->reg < 16 && !(recorded_ & gpr_bit(divisor->reg)))
      complain("{:#x}: divisor {} is not recorded", insn.address.value, divisor->reg);
    if (seen.memory != reads_memory)
      complain("{:#x}: memory {}", insn.address.value, seen.memory ? "recorded" : "not recorded");
    const bool is_ordinary = insn.kind == decoder::InsnKind::ordinary;
    if (seen.element != (plan_.values && is_ordinary ? emu::element_slot(insn) : std::nullopt))
      complain("{:#x}: element {}", insn.address.value, seen.element ? "recorded" : "not recorded");
    GprMask results = 0;
    const bool load = plan_.load_cycles && insn.pure_load;
    if ((plan_.values || load) && is_ordinary) {
      if (insn.result < 16) results |= gpr_bit(insn.result);
      if (insn.second_result < 16) results |= gpr_bit(insn.second_result);
    }
    if (seen.results != results)
      complain("{:#x}: results {:#x}, expected {:#x}", insn.address.value, seen.results, results);
    if (seen.cycles != (plan_.load_cycles && insn.load != decoder::LoadKind::none)) {
      complain("{:#x}: load {}", insn.address.value, seen.cycles ? "timed" : "not timed");
    }
  }

  const trace::BlockTable& table_;
  emu::CapturePlan plan_;
  Reference& reference_;
  GuestAddr values_from_;
  uint64_t last_moment_ = 0;
  GprMask recorded_ = 0;  // registers whose present value the record holds
  GprMask known_ = 0;     // and those that it tells, and what
  std::array<uint64_t, 16> values_{};
};

}  // namespace

Verdict check(const Recording& recording, emu::CapturePlan plan, Reference& reference,
              GuestAddr values_from) {
  return Checker(recording, plan, reference, values_from).verdict;
}

}  // namespace shadowprof::inject_test
