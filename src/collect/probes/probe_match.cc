// SPDX-License-Identifier: MIT
#include "collect/probes/probe_match.h"

#include <algorithm>

#include "decoder/divisor.h"
#include "decoder/operation.h"
#include "profile/compare/limit_rule.h"

namespace shadowprof::collect {
namespace {

using decoder::Insn;
using decoder::InsnKind;
using decoder::MemoryAccess;

std::string text_of(const Insn& insn) {
  return decoder::disassemble(std::span(insn.bytes).first(insn.length), insn.address);
}

// "lock cmpxchg [rdi], rsi": cmpxchg.
std::string mnemonic_of(const Insn& insn) {
  constexpr std::string_view kPrefixes[] = {"lock",  "rep", "repe",     "repne",    "repz",
                                            "repnz", "bnd", "xacquire", "xrelease", "notrack"};
  std::string_view rest;
  const std::string text = text_of(insn);
  for (rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (std::ranges::find(kPrefixes, word) == std::end(kPrefixes)) return std::string(word);
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return "";
}

bool names_vectors(const Insn& insn) {
  if (insn.element_result.is_vector()) return true;
  if (insn.kind != InsnKind::ordinary) return false;
  const std::string text = text_of(insn);
  return text.find("xmm") != std::string::npos || text.find("ymm") != std::string::npos ||
         text.find("zmm") != std::string::npos;
}

const MemoryAccess* access_of(const Insn& insn, bool writes) {
  if (insn.kind != InsnKind::ordinary) return nullptr;
  for (const MemoryAccess& a : std::span(insn.accesses).first(insn.access_count))
    if (!a.hint && (writes ? a.write : a.read)) return &a;
  return nullptr;
}

bool is_of(ProbeClass c, const Insn& insn) {
  switch (c) {
    case ProbeClass::load:
      return access_of(insn, false) != nullptr;
    case ProbeClass::store:
      return access_of(insn, true) != nullptr;
    case ProbeClass::call:
      return insn.kind == InsnKind::call || insn.kind == InsnKind::indirect_call;
    case ProbeClass::ret:
      return insn.kind == InsnKind::ret;
    case ProbeClass::branch:
      return insn.kind == InsnKind::conditional || insn.kind == InsnKind::counter_branch;
    case ProbeClass::jump:
      return insn.kind == InsnKind::jump || insn.kind == InsnKind::indirect_jump;
    case ProbeClass::atomic:
      return insn.load == decoder::LoadKind::atomic;
    case ProbeClass::div:
      return decoder::divisor_of(insn).has_value();
    case ProbeClass::vector:
      return names_vectors(insn);
    case ProbeClass::any:
      break;
  }
  return true;
}

bool has_result(const Insn& insn) {
  return insn.result < 16 || insn.element_result.kind != decoder::ElementResult::Register::none;
}

}  // namespace

uint16_t ProbedCode::within_at(BlockId block, uint64_t offset) const {
  const uint16_t there = within[block.value];
  if ((there & of_lines) == 0) return there;
  const Lines& known = lines[block.value];
  uint16_t here = 0;
  for (uint32_t i = known.first; i < known.first + known.count; i++)
    if (on_line[i].offset == offset) here = on_line[i].probes;
  return static_cast<uint16_t>(there & (~of_lines | here));
}

bool is_of_lines(const ProbePattern& pattern, std::string_view file, uint32_t line) {
  if (line < pattern.first_line || line > pattern.last_line) return false;
  for (;;) {
    if (profile::matches_glob(pattern.file, file)) return true;
    const size_t slash = file.find('/');
    if (slash == std::string_view::npos) return false;
    file.remove_prefix(slash + 1);
  }
}

bool matches(const ProbePattern& pattern, const Insn& insn) {
  for (unsigned c = 0; c < std::size(kProbeClassNames); c++)
    if ((pattern.classes >> c & 1) != 0 && !is_of(static_cast<ProbeClass>(c), insn)) return false;
  return pattern.mnemonic.empty() || profile::matches_glob(pattern.mnemonic, mnemonic_of(insn));
}

const MemoryAccess* probed_access(const ProbePattern& pattern, const Insn& insn) {
  const bool stores = pattern.has(ProbeClass::store) && !pattern.has(ProbeClass::load);
  const MemoryAccess* const access = access_of(insn, stores);
  return access != nullptr ? access : access_of(insn, !stores);
}

std::optional<StoredOperand> stored_operand(const Insn& insn) {
  if (has_result(insn) || access_of(insn, true) == nullptr) return std::nullopt;
  const decoder::Operation o = decoder::decode_operation(insn);
  const bool moves = o.code == decoder::Code::mov &&
                     o.operands[0].kind == decoder::Operand::Kind::memory;
  if (!moves && o.code != decoder::Code::push) return std::nullopt;
  const decoder::Operand& from = o.operands[moves ? 1 : 0];
  const uint8_t bits = moves ? o.operands[0].bits : from.bits;
  StoredOperand stored;
  if (bits != 0) stored.bits = bits;
  if (from.kind == decoder::Operand::Kind::immediate) {
    stored.constant = static_cast<uint64_t>(o.immediate);
  } else if (from.kind == decoder::Operand::Kind::reg) {
    stored.reg = from.reg;
    stored.shift = from.high ? 8 : 0;
  } else {
    return std::nullopt;
  }
  return stored;
}

trace::CaptureWish wish_of(const Probe& probe, const Insn& insn) {
  trace::CaptureWish wish;
  for (uint8_t reg = 0; reg < 16; reg++)
    if (probe.uses_fact(static_cast<ProbeFact>(reg))) wish.registers |= decoder::gpr_bit(reg);
  wish.addresses = probe.uses_fact(ProbeFact::address);
  wish.cycles = probe.uses_fact(ProbeFact::latency) && insn.load != decoder::LoadKind::none;
  if (probe.uses_fact(ProbeFact::value)) {
    wish.results = has_result(insn);
    const auto stored = stored_operand(insn);
    if (stored && stored->reg < 16) wish.registers |= decoder::gpr_bit(stored->reg);
  }
  if (!probe.uses_fact(ProbeFact::divisor)) return wish;
  const auto divisor = decoder::divisor_of(insn);
  if (divisor && divisor->in_memory) wish.divisor = true;
  if (divisor && !divisor->in_memory) wish.registers |= decoder::gpr_bit(divisor->reg);
  return wish;
}

}  // namespace shadowprof::collect
