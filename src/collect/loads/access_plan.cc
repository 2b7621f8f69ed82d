// SPDX-License-Identifier: MIT
#include "collect/loads/access_plan.h"

#include <algorithm>

namespace shadowprof::collect {

using decoder::Insn;
using decoder::MemoryAccess;

namespace {

// In the thread's control block, as System V's ABI and the C library have it.
bool is_set_for_good(const Insn& insn, const MemoryAccess& access) {
  constexpr int64_t kOwnAddress = 0, kSelf = 0x10, kStackGuard = 0x28, kPointerGuard = 0x30;
  if (!insn.has_segment || access.write || access.base < 16 || access.index < 16) return false;
  return access.displacement == kOwnAddress || access.displacement == kSelf ||
         access.displacement == kStackGuard || access.displacement == kPointerGuard;
}

// pop [rsp + n] finds its place with the stack pointer as it is afterwards.
bool pops_to_memory(const Insn& insn) {
  return insn.access_count == 2 && insn.sum.to == decoder::kRsp &&
         std::any_of(insn.accesses.begin(), insn.accesses.end(), [](const MemoryAccess& a) {
           return a.implicit && a.read && a.base == decoder::kRsp;
         });
}

bool leaves_trace(trace::RunExit exit) {
  return exit == trace::RunExit::syscall || exit == trace::RunExit::native ||
         exit == trace::RunExit::interrupted;
}

}  // namespace

AccessPlans::AccessPlans(const trace::BlockTable& table) : table_(table), runs_(limits::kMaxRuns) {
  runs_.prefer_huge_pages();
  sites_.emplace_back();
  values_.emplace_back();
}

void AccessPlans::plan(RunId id) {
  if (id.value >= table_.run_count()) return;
  const trace::Run& run = table_.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  PlannedRun& own = runs_[id.value];
  own.words = run.words;
  own.insns = run.insns;
  own.leaves = leaves_trace(run.exit);
  const auto slots = table_.slots(run);
  for (size_t i = 0; i < slots.size(); i++) {
    if (slots[i].kind != trace::SlotKind::moment) continue;
    (slots[i].reg == 0 ? own.begins_word : own.ends_word) = word_of_slot(i);
  }
  own.first_access = static_cast<uint32_t>(accesses_.size());
  own.first_site = static_cast<uint32_t>(run_sites_.size());
  uint32_t index = 0;
  const auto blocks = table_.blocks(run);
  size_t at_block = 0;
  for_each_insn(table_, run, [&](const trace::Block& block, const Insn& insn, RecordedWords& r) {
    while (&table_.block(blocks[at_block]) != &block) at_block++;
    const bool accesses = std::any_of(
        insn.accesses.begin(), insn.accesses.begin() + insn.access_count,
        [&](const MemoryAccess& a) { return (a.read || a.write) && !is_set_for_good(insn, a); });
    if (accesses) {
      PlannedAccess access;
      access.site = site_of(block, blocks[at_block], insn.address);
      access.insn = static_cast<uint16_t>(std::min(index, 0xffffu));
      run_sites_.push_back(access.site);
      plan_insn(insn, r, access, own);
    }
    r.leave(insn);
    index++;
  });
  const auto mine = run_sites_.begin() + own.first_site;
  std::sort(mine, run_sites_.end());
  run_sites_.erase(std::unique(mine, run_sites_.end()), run_sites_.end());
  own.sites = static_cast<uint16_t>(run_sites_.size() - own.first_site);
  own.accesses = static_cast<uint16_t>(accesses_.size() - own.first_access);
}

void AccessPlans::plan_insn(const Insn& insn, const RecordedWords& recorded, PlannedAccess access,
                            PlannedRun& run) {
  if (insn.load == decoder::LoadKind::atomic) {
    access.event = AccessEvent::drain;
    accesses_.push_back(access);
  }
  for (const bool stores : {false, true}) {
    for (const MemoryAccess& a : std::span(insn.accesses).first(insn.access_count)) {
      if (a.hint || !(stores ? a.write : a.read) || is_set_for_good(insn, a)) continue;
      const AddressPlan where = recorded.address(insn, a);
      const bool known = where.known && a.certain && a.size != 0 && a.size <= kMostAccessBytes &&
                         !pops_to_memory(insn);
      if (known) {
        access.event = stores ? AccessEvent::store : AccessEvent::load;
      } else {
        access.event = stores ? AccessEvent::unknown_store : AccessEvent::unknown_load;
        run.unknown++;
      }
      access.value = known && stores && !a.implicit ? plan_value(insn, recorded) : 0;
      access.fixed = where.fixed;
      access.base_word = where.base_word;
      access.index_word = where.index_word;
      access.scale = where.scale;
      access.bytes = a.size;
      access.on_stack = where.on_stack;
      accesses_.push_back(access);
    }
  }
}

uint32_t AccessPlans::plan_value(const Insn& insn, const RecordedWords& recorded) {
  const decoder::StoredOperand& stored = insn.stored;
  if (stored.how == decoder::StoredOperand::How::none || recorded.memory == kNoWord) return 0;
  PlannedValue value{.how = stored.how,
                     .shift = stored.shift,
                     .before_word = recorded.memory,
                     .constant = static_cast<uint64_t>(stored.immediate),
                     .mask = ~uint64_t{0} >> (64 - stored.bits)};
  if (stored.reg < 16) {
    const RecordedRegister& reg = recorded.registers[stored.reg];
    if (reg.word == kNoWord) return 0;
    value.word = reg.word;
    value.constant = reg.addend;
  }
  values_.push_back(value);
  return static_cast<uint32_t>(values_.size() - 1);
}

uint32_t AccessPlans::site_of(const trace::Block& block, BlockId id, GuestAddr address) {
  constexpr int kModuleShift = 48;
  const uint64_t place = address.value ^ uint64_t { block.module.value } << kModuleShift;
  const auto [found, is_new] = by_place_.try_emplace(place, static_cast<uint32_t>(sites_.size()));
  if (!is_new) return found->second;
  if (sites_.size() >= kMostSites) return found->second = 0;
  sites_.push_back({.address = address, .module = block.module, .block = id});
  return found->second;
}

void AccessPlans::gather_now() {
  for (const uint32_t r : touched_) {
    for (const uint32_t s : sites_of(runs_[r])) {
      if (sites_[s].now == 0) touched_sites_.push_back(s);
      sites_[s].now += runs_[r].now;
    }
    runs_[r].now = 0;
  }
  touched_.clear();
}

void AccessPlans::settle_now() {
  for (const uint32_t s : touched_sites_) {
    Site& site = sites_[s];
    site.squares += static_cast<double>(site.now) * static_cast<double>(site.now);
    site.observations++;
    site.now = 0;
  }
  touched_sites_.clear();
}

void AccessPlans::count_sites() {
  for (size_t r = 0; r < table_.run_count(); r++)
    for (const uint32_t s : sites_of(runs_[r])) sites_[s].executions += runs_[r].executions;
}

uint64_t AccessPlans::unknown_accesses() const {
  uint64_t sum = 0;
  for (size_t r = 0; r < table_.run_count(); r++) sum += runs_[r].executions * runs_[r].unknown;
  return sum;
}

std::string AccessPlans::text_of(const Site& site) const {
  const trace::Block& block = table_.block(site.block);
  const auto code = table_.code(block);
  const uint64_t offset = site.address.value - block.start.value;
  if (site.address < block.start || offset >= code.size()) return "";
  return decoder::disassemble(code.subspan(offset), site.address);
}

}  // namespace shadowprof::collect
