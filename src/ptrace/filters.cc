// SPDX-License-Identifier: MIT
#include "ptrace/filters.h"

#include <linux/audit.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "kernel/proc.h"

namespace shadowprof::ptrace {
namespace {

constexpr int kNoFilter = 0;

// A filter as it runs: the accumulator, the index register, the scratch memory.
struct Machine {
  uint32_t a = 0;
  uint32_t x = 0;
  std::array<uint32_t, BPF_MEMWORDS> memory{};
};

// The result of an arithmetic instruction. Nothing: a division by zero, or no such operation.
std::optional<uint32_t> compute(uint16_t operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case BPF_ADD:
      return a + b;
    case BPF_SUB:
      return a - b;
    case BPF_MUL:
      return a * b;
    case BPF_DIV:
      return b == 0 ? std::nullopt : std::optional(a / b);
    case BPF_AND:
      return a & b;
    case BPF_OR:
      return a | b;
    case BPF_XOR:
      return a ^ b;
    case BPF_LSH:
      return b < 32 ? a << b : 0;
    case BPF_RSH:
      return b < 32 ? a >> b : 0;
    case BPF_NEG:
      return ~a + 1;
    default:
      return std::nullopt;
  }
}

std::optional<bool> compare(uint16_t operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case BPF_JEQ:
      return a == b;
    case BPF_JGT:
      return a > b;
    case BPF_JGE:
      return a >= b;
    case BPF_JSET:
      return (a & b) != 0;
    default:
      return std::nullopt;
  }
}

// What BPF_LD and BPF_LDX load.
std::optional<uint32_t> loaded(const sock_filter& insn, const Machine& machine,
                               const seccomp_data& call) {
  uint32_t word = 0;
  switch (BPF_MODE(insn.code)) {
    case BPF_IMM:
      return insn.k;
    case BPF_LEN:
      return static_cast<uint32_t>(sizeof call);
    case BPF_MEM:
      if (insn.k >= BPF_MEMWORDS) return std::nullopt;
      return machine.memory[insn.k];
    case BPF_ABS:
      if (insn.k % sizeof word != 0 || insn.k >= sizeof call) return std::nullopt;
      std::memcpy(&word, reinterpret_cast<const char*>(&call) + insn.k, sizeof word);
      return word;
    default:
      return std::nullopt;
  }
}

// All but jumps and the end. False: the kernel knows no such instruction in a filter.
bool execute(const sock_filter& insn, Machine& machine, const seccomp_data& call) {
  std::optional<uint32_t> value;
  switch (BPF_CLASS(insn.code)) {
    case BPF_LD:
    case BPF_LDX:
      value = loaded(insn, machine, call);
      if (value) (BPF_CLASS(insn.code) == BPF_LD ? machine.a : machine.x) = *value;
      return value.has_value();
    case BPF_ST:
    case BPF_STX:
      if (insn.k >= BPF_MEMWORDS) return false;
      machine.memory[insn.k] = BPF_CLASS(insn.code) == BPF_ST ? machine.a : machine.x;
      return true;
    case BPF_ALU:
      value =
          compute(BPF_OP(insn.code), machine.a, BPF_SRC(insn.code) == BPF_X ? machine.x : insn.k);
      if (value) machine.a = *value;
      return value.has_value();
    case BPF_MISC:
      if (BPF_MISCOP(insn.code) == BPF_TAX)
        machine.x = machine.a;
      else
        machine.a = machine.x;
      return true;
    default:
      return false;
  }
}

bool lets_through(uint32_t verdict) {
  const uint32_t action = verdict & SECCOMP_RET_ACTION_FULL;
  return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

// How many filters we are below ourselves; they do not become fewer.
std::optional<uint32_t> filters_of_ours() {
  static const std::optional<uint32_t> count = [] {
    const auto status = kernel::read_status(Tid(::getpid()));
    return status ? status->filters : std::nullopt;
  }();
  return count;
}

// It came of us, with our filters, and none was added since.
bool has_only_ours(const kernel::ProcessStatus& status) {
  constexpr int kFilters = 2;
  const auto ours = filters_of_ours();
  return status.seccomp == kFilters && status.parent == Tid(::getpid()) && ours && *ours != 0 &&
         status.filters == ours;
}

}  // namespace

Status permit_calls(Tid thread) {
  const auto status = kernel::read_status(thread);
  if (!status) return thread_is_gone(thread);
  if (status->seccomp.value_or(kNoFilter) == kNoFilter || has_only_ours(*status)) return {};
  return tl::unexpected(Error{
      "the program has seccomp filters, which judge our system calls in it; to suspend them needs "
      "root (CAP_SYS_ADMIN), and no filter on shadowprof itself",
      EPERM});
}

std::optional<uint32_t> judge(std::span<const sock_filter> filter, const seccomp_data& call) {
  Machine machine;
  for (size_t at = 0; at < filter.size(); at++) {
    const sock_filter& insn = filter[at];
    if (BPF_CLASS(insn.code) == BPF_RET) return BPF_RVAL(insn.code) == BPF_A ? machine.a : insn.k;
    if (BPF_CLASS(insn.code) != BPF_JMP) {
      if (!execute(insn, machine, call)) return std::nullopt;
      continue;
    }
    if (BPF_OP(insn.code) == BPF_JA) {
      at += insn.k;
      continue;
    }
    const auto holds =
        compare(BPF_OP(insn.code), machine.a, BPF_SRC(insn.code) == BPF_X ? machine.x : insn.k);
    if (!holds) return std::nullopt;
    at += *holds ? insn.jt : insn.jf;
  }
  return std::nullopt;
}

bool lets_restart(Tracee thread, const Registers& registers) {
  const auto status = kernel::read_status(thread.tid());
  if (!status || status->seccomp.value_or(kNoFilter) == kNoFilter || has_only_ours(*status))
    return true;
  seccomp_data call{};
  call.nr = SYS_restart_syscall;
  call.arch = AUDIT_ARCH_X86_64;
  call.instruction_pointer = registers.rip;
  for (size_t i = 0; i < std::size(call.args); i++) call.args[i] = registers.syscall_argument(i);
  std::vector<sock_filter> filter;
  for (size_t i = 0;; i++) {
    const auto known = thread.read_filter(i, filter);
    if (!known) return false;
    if (!*known) return i != 0;
    const auto verdict = judge(filter, call);
    if (!verdict || !lets_through(*verdict)) return false;
  }
}

}  // namespace shadowprof::ptrace
