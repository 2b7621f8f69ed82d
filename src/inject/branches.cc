// SPDX-License-Identifier: MIT
#include "inject/branches.h"

#include <array>
#include <cstring>
#include <span>

#include "decoder/insn.h"

namespace shadowprof::inject {

void Branches::met(GuestThread& t, RunId site, FragmentId fragment, GuestAddr target) {
  cache::AddressSpace& space = *t.process->space;
  const BlockId block = first_block_of(space.cache().fragment(fragment));
  (void)space.cache().add_entry(fragment,
                                {site, block, space.translator().inc_is_harmless_at(target)});
  if (site != emu::kAnySite) records_.executions.branched(t, site, block);
  space.cache().add_open_entry(fragment, block);
}

void Branches::undo(GuestThread& t, ptrace::Registers& regs, RunId site) {
  if (records_.tracing() && !take_back_record(t, site)) {
    if (records_.counting()) records_.executions.ran(t, site);
    return;
  }
  const trace::Run run = table_.run(site);
  const trace::Block block = table_.block(table_.blocks(run).back());
  const emu::CodeCache& cache = t.process->space->cache();
  const emu::Fragment* f = cache.find(table_.block(run.first_block).start);
  if (run.exit == trace::RunExit::indirect_call) regs.rsp += sizeof(uint64_t);
  if (run.exit == trace::RunExit::ret) {
    std::array<uint8_t, decoder::kMaxInsnBytes> bytes{};
    const size_t size = t.process->space->code().memory().read_some(block.last_insn, bytes);
    const decoder::Insn insn = decoder::decode(std::span(bytes).first(size), block.last_insn);
    regs.rsp -= sizeof(uint64_t) + insn.ret_pop_bytes;
  }
  regs.rip = block.last_insn.value;
  if (f == nullptr || f->longest_run != site) return;
  const auto before = t.process->space->translator().interrupted_run(*f, run.insns - 1);
  if (!before) return;
  records_.ran(t, *before);
  if (records_.tracing()) t.cursor += sizeof(trace::Word) * (table_.run(*before).words - 1);
}

// The record of the branch is the last one. False: it was drained, or (without counters, where
// records have slots) nobody knows how long it is. Without counters only the record tells which
// branch it was.
bool Branches::take_back_record(GuestThread& t, RunId& site) const {
  const uint64_t used = t.cursor - t.slot->buffer_guest(t.buffer);
  if (!records_.counting()) {
    const bool have_slots = options_.plan != emu::CapturePlan{} || options_.space.in_bouts;
    if (have_slots || used == 0) return false;
    const uint64_t last = t.cursor - t.slot->guest - sizeof(trace::Word);
    std::memcpy(&site.value, t.slot->host + last, sizeof site.value);
  }
  const trace::Run& run = table_.run(site);
  const uint64_t bytes = run.recorded ? sizeof(trace::Word) * run.words : 0;
  if (used < bytes) return false;
  t.cursor -= bytes;
  return true;
}

void Branches::take_log(GuestThread& t) {
  emu::CodeCache& cache = t.process->space->cache();
  emu::Translator& translator = t.process->space->translator();
  for (const auto& [pair, count] : records_.take_log(t)) {
    const auto [site, block] = pair;
    const GuestAddr start = table_.block(block).start;
    const emu::Fragment* f = cache.find(start);
    // Other code may lie there by now.
    if (f != nullptr && first_block_of(*f) == block) {
      (void)cache.add_entry(cache.id_of(*f), {site, block, translator.inc_is_harmless_at(start)});
    }
  }
}

}  // namespace shadowprof::inject
