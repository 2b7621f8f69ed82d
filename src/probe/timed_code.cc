// SPDX-License-Identifier: MIT
#include "probe/timed_code.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/limits.h"
#include "emu/translate/timed_load.h"

namespace shadowprof::probe {
namespace {

using emu::Emitter;
using profile::LoadKind;

constexpr emu::StampSlots kSlots{.load = 4, .empty = 12};

// In all of them rdi is the address, and what they change a function may change.
void emit_load(Emitter& e, LoadKind kind) {
  switch (kind) {
    case LoadKind::move:
    case LoadKind::branch: e.bytes({0x48, 0x8b, 0x07}); break;              // mov rax, [rdi]
    case LoadKind::operand: e.bytes({0x48, 0x3b, 0x07}); break;             // cmp rax, [rdi]
    case LoadKind::vector: e.bytes({0x0f, 0x10, 0x07}); break;              // movups xmm0, [rdi]
    case LoadKind::arithmetic: e.bytes({0xf2, 0x0f, 0x58, 0x07}); break;    // addsd xmm0, [rdi]
    case LoadKind::gather:                                // vpgatherdd ymm0, [rdi+ymm1*4], ymm2
      e.bytes({0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8f});
      break;
    case LoadKind::atomic: e.bytes({0xf0, 0x48, 0x0f, 0xc1, 0x07}); break;  // lock xadd [rdi], rax
    case LoadKind::stack: e.byte(0x58); break;                              // pop rax
  }
}

void emit_function(Emitter& e, LoadKind kind) {
  e.bytes({0x41, 0x57});        // push r15
  e.bytes({0x49, 0x89, 0xf7});  // mov r15, rsi
  if (kind == LoadKind::stack) e.byte(0x57);  // push rdi
  if (kind == LoadKind::gather) {
    e.bytes({0xc5, 0xf1, 0xef, 0xc9});  // vpxor xmm1, xmm1, xmm1
    e.bytes({0xc5, 0xed, 0x76, 0xd2});  // vpcmpeqd ymm2, ymm2, ymm2
  }
  emu::emit_first_stamp(e, kSlots);
  emit_load(e, kind);
  emu::emit_second_stamp(e, kSlots);
  if (kind == LoadKind::gather) e.bytes({0xc5, 0xf8, 0x77});  // vzeroupper
  e.bytes({0x41, 0x5f});  // pop r15
  e.byte(0xc3);           // ret
}

}  // namespace

Result<TimedCode> TimedCode::create() {
  SP_ASSIGN(OwnCode memory, OwnCode::create("shadowprof-times", limits::kPageBytes));
  TimedCode code(std::move(memory));
  Emitter e({code.code_.writable(), code.code_.size()},
            reinterpret_cast<uintptr_t>(code.code_.executable()), emu::Recording::trace);
  for (size_t i = 0; i < code.entries_.size(); i++) {
    while (e.offset() % 64 != 0) e.int3();
    code.entries_[i] = e.offset();
    emit_function(e, static_cast<LoadKind>(i));
  }
  void* state = ::mmap(nullptr, sizeof(emu::StatePage), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (state == MAP_FAILED) return fail_errno(errno, "cannot time loads of our own");
  ::syscall(SYS_arch_prctl, ARCH_GET_GS, &code.gs_base_before_);
  if (::syscall(SYS_arch_prctl, ARCH_SET_GS, state) != 0) {
    ::munmap(state, sizeof(emu::StatePage));
    return fail_errno(errno, "cannot time loads of our own");
  }
  code.state_ = state;
  return code;
}

TimedCode::TimedCode(TimedCode&& other) noexcept
    : code_(std::move(other.code_)),
      entries_(other.entries_),
      state_(std::exchange(other.state_, nullptr)),
      gs_base_before_(other.gs_base_before_) {}

TimedCode::~TimedCode() {
  if (!state_) return;
  ::syscall(SYS_arch_prctl, ARCH_SET_GS, gs_base_before_);
  ::munmap(state_, sizeof(emu::StatePage));
}

bool TimedCode::has_gather() {
  return __builtin_cpu_supports("avx2");
}

double seconds_of_timed_load() {
  constexpr int kTimedRounds = 8;
  constexpr int kLoads = 100;
  auto code = TimedCode::create();
  if (!code) return 0;
  const uint64_t line = 0;
  double least = 1;
  for (int round = 0; round < kTimedRounds; round++) {
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kLoads; i++) (void)code->time_load(&line);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    least = std::min(least, took.count() / kLoads);
  }
  return least;
}

}  // namespace shadowprof::probe
