// SPDX-License-Identifier: MIT
#include <cpuid.h>
#include <elf.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "../e2e/step_once.h"
#include "base/check.h"
#include "decoder/divisor.h"
#include "reference.h"

namespace shadowprof::inject_test {
namespace {

// A child that stands right behind its execve.
pid_t start(const std::vector<std::string>& program) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::personality(ADDR_NO_RANDOMIZE);
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    std::vector<char*> argv;
    for (const std::string& word : program) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    char* const environment[] = {const_cast<char*>(kEnvironment), nullptr};
    ::execve(argv[0], argv.data(), environment);
    ::_exit(127);
  }
  return child;
}

class Hardware : public Reference {
 public:
  explicit Hardware(const std::vector<std::string>& program) { record(program); }

  const Moment* at(size_t n) override { return n < moments_.size() ? &moments_[n] : nullptr; }
  const decoder::Insn& insn(GuestAddr pc) override {
    const auto it = insns_.find(pc);
    SP_CHECK(it != insns_.end(), "the processor never was at {:#x}", pc.value);
    return it->second;
  }

 private:
  static bool is_repeated(const decoder::Insn& insn) {
    return insn.length > 1 && (insn.bytes[0] == 0xf2 || insn.bytes[0] == 0xf3);
  }

  // Code is written once, before it is first executed: bytes of the first visit stay right.
  const decoder::Insn& read_insn(pid_t child, GuestAddr pc) {
    const auto [it, is_new] = insns_.try_emplace(pc);
    if (is_new) {
      std::array<uint8_t, decoder::kMaxInsnBytes> bytes{};
      const iovec own{bytes.data(), bytes.size()};
      const iovec theirs{reinterpret_cast<void*>(pc.value), bytes.size()};
      SP_CHECK(::process_vm_readv(child, &own, 1, &theirs, 1, 0) > 0, "no code at {:#x}", pc.value);
      it->second = decoder::decode(bytes, pc);
    }
    return it->second;
  }

  static uint32_t xsave_offset(unsigned component) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    SP_CHECK(__get_cpuid_count(0xd, component, &eax, &ebx, &ecx, &edx), "no XSAVE area");
    return ebx;
  }
  // Low 64 bits: of fxsave's registers, of the upper sixteen of AVX-512, or of the masks.
  static uint64_t read_element(pid_t child, const decoder::ElementResult& result) {
    std::array<uint8_t, 8192> area{};
    iovec whole{area.data(), area.size()};
    SP_CHECK(::ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &whole) == 0,
             "cannot read vector registers");
    constexpr size_t kFirstXmm = 160;
    size_t at = kFirstXmm + 16u * result.reg;
    if (result.is_mask()) at = xsave_offset(5) + 8u * result.reg;
    if (result.is_vector() && result.reg >= 16) at = xsave_offset(7) + 64u * (result.reg - 16u);
    uint64_t value = 0;
    std::memcpy(&value, &area[at], sizeof value);
    return value;
  }

  // What a moment has beside the general-purpose registers.
  void read_beside(pid_t child, const user_regs_struct& r, Moment& now) {
    if (moments_.size() > 1) {
      const decoder::Insn& made_by = insn(moments_[moments_.size() - 2].pc);
      if (made_by.element_result.kind != decoder::ElementResult::Register::none)
        now.element = read_element(child, made_by.element_result);
    }
    const decoder::Insn& next = read_insn(child, now.pc);
    const auto divisor = decoder::divisor_of(next).value_or(decoder::Divisor{});
    const auto bytes =
        static_cast<size_t>(std::max({next.compared_bits, next.stored.bits, divisor.bits})) / 8;
    if (bytes == 0 || next.access_count == 0) return;
    const decoder::MemoryAccess& a = next.accesses[0];
    uint64_t address = static_cast<uint64_t>(a.displacement);
    if (a.base < 16) address += now.gpr[a.base];
    if (a.base == decoder::kRip) address = next.rip_target.value;
    if (a.index < 16) address += now.gpr[a.index] * a.scale;
    if (std::ranges::find(next.bytes, 0x67) < next.bytes.begin() + 4) address &= 0xffff'ffff;
    if (next.has_segment) address += r.fs_base;
    const iovec own{&now.memory, bytes};
    const iovec theirs{reinterpret_cast<void*>(address), bytes};
    ::process_vm_readv(child, &own, 1, &theirs, 1, 0);
  }

  void record(const std::vector<std::string>& program) {
    const pid_t child = start(program);
    int status = 0;
    SP_CHECK(::waitpid(child, &status, 0) == child, "{} does not start", program[0]);
    while (WIFSTOPPED(status)) {
      user_regs_struct r;
      SP_CHECK(::ptrace(PTRACE_GETREGS, child, nullptr, &r) == 0, "cannot read registers");
      SP_CHECK(WSTOPSIG(status) == SIGTRAP, "signal {} at {:#x}", WSTOPSIG(status), +r.rip);
      const GuestAddr pc(r.rip);
      const bool goes_on =
          !moments_.empty() && moments_.back().pc == pc && is_repeated(read_insn(child, pc));
      if (!goes_on) {
        const std::array<uint64_t, 16> gpr{r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi,
                                           r.r8,  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15};
        moments_.push_back({pc, gpr});
        read_beside(child, r, moments_.back());
      }
      SP_CHECK(step_once(child, r.rip, 0, &status), "cannot step: {}", ::strerror(errno));
    }
    SP_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the program failed: {:#x}", status);
  }

  std::vector<Moment> moments_;
  std::unordered_map<GuestAddr, decoder::Insn> insns_;
};

}  // namespace

uint64_t first_stack_pointer(const std::string& program) {
  const pid_t child = start({program});
  int status = 0;
  user_regs_struct r;
  SP_CHECK(::waitpid(child, &status, 0) == child && WIFSTOPPED(status), "{} does not start",
           program);
  SP_CHECK(::ptrace(PTRACE_GETREGS, child, nullptr, &r) == 0, "cannot read registers");
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return r.rsp;
}

std::unique_ptr<Reference> step_on_hardware(const std::vector<std::string>& program) {
  return std::make_unique<Hardware>(program);
}

}  // namespace shadowprof::inject_test
