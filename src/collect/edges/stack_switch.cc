// SPDX-License-Identifier: MIT
#include "collect/edges/stack_switch.h"

#include "decoder/insn.h"

namespace shadowprof::collect {
namespace {

using decoder::Insn;
using decoder::kRbp;
using decoder::kRbx;
using decoder::kRsp;

bool is_copied_to_stack_pointer(const Insn& insn) {
  // Where a function aligns its stack it keeps the old one in rbp or rbx, or goes back by r10,
  // which is where its arguments are.
  const auto is_own = [&](decoder::Gpr r) {
    return r == kRsp || r == kRbp || r == kRbx || (r == decoder::kR10 && insn.sum.addend == -8);
  };
  if (insn.sum.to == kRsp) return !is_own(insn.sum.from);
  return insn.pure_load && insn.result == kRsp;
}

}  // namespace

bool switches_stack(const trace::BlockTable& table, const trace::Block& block) {
  std::span<const uint8_t> code = table.code(block);
  GuestAddr address = block.start;
  while (!code.empty()) {
    const Insn insn = decoder::decode(code, address);
    if (insn.length == 0 || insn.length > code.size()) return false;
    if (is_copied_to_stack_pointer(insn)) return true;
    code = code.subspan(insn.length);
    address = insn.next();
  }
  return false;
}

}  // namespace shadowprof::collect
