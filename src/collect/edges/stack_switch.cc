// SPDX-License-Identifier: MIT
#include "collect/edges/stack_switch.h"

#include "decoder/insn.h"

namespace shadowprof::collect {
namespace {

using decoder::Insn;
using decoder::kRbp;
using decoder::kRsp;

bool is_copied_to_stack_pointer(const Insn& insn) {
  if (insn.sum.to == kRsp) return insn.sum.from != kRsp && insn.sum.from != kRbp;
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
