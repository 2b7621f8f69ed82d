// SPDX-License-Identifier: MIT
#include "inject/restartable.h"

#include <algorithm>
#include <array>

namespace shadowprof::inject {
namespace {

using decoder::InsnKind;

struct Descriptor {  // struct rseq_cs
  uint32_t version;
  uint32_t flags;
  uint64_t start;
  uint64_t length;
  uint64_t abort;
};

// It is meant to take less time than a thread has on its processor.
constexpr uint64_t kMostBytes = 4096;

bool goes_on_or_jumps(const decoder::Insn& insn) {
  return insn.length != 0 &&
         (insn.kind == InsnKind::ordinary || insn.kind == InsnKind::conditional ||
          insn.kind == InsnKind::counter_branch || insn.kind == InsnKind::jump);
}

}  // namespace

std::optional<RestartableSequence> announced_sequence(ptrace::RemoteMemory& memory,
                                                      GuestAddr rseq) {
  const auto address = memory.read_value<uint64_t>(sequence_pointer(rseq));
  if (!address || *address == 0) return std::nullopt;
  const auto found = memory.read_value<Descriptor>(GuestAddr(*address));
  if (!found) return std::nullopt;
  const GuestAddr start(found->start);
  return RestartableSequence{{start, start + found->length}, GuestAddr(found->abort)};
}

std::optional<std::vector<GuestAddr>> ways_out(ptrace::RemoteMemory& memory,
                                               const RestartableSequence& sequence) {
  const GuestRange& code = sequence.code;
  if (code.size() > kMostBytes) return std::nullopt;
  std::vector<uint8_t> bytes(code.size());
  if (memory.read_some(code.start, bytes) != bytes.size()) return std::nullopt;
  std::vector<GuestAddr> found = {code.end, sequence.abort};
  for (GuestAddr pc = code.start; pc < code.end;) {
    const auto rest = std::span<const uint8_t>(bytes).subspan(pc.value - code.start.value);
    const decoder::Insn insn = decoder::decode(rest, pc);
    if (!goes_on_or_jumps(insn)) return std::nullopt;
    const bool leaves = insn.kind != InsnKind::ordinary && !code.contains(insn.branch_target);
    if (leaves && std::ranges::count(found, insn.branch_target) == 0)
      found.push_back(insn.branch_target);
    pc = insn.next();
  }
  return found;
}

bool is_plain_store(const decoder::Insn& insn) {
  return insn.kind == InsnKind::ordinary && insn.writes == 0 && insn.access_count == 1 &&
         insn.accesses[0].write && !insn.accesses[0].read && !insn.accesses[0].implicit &&
         insn.accesses[0].size == sizeof(uint64_t);
}

}  // namespace shadowprof::inject
