// SPDX-License-Identifier: MIT
//
// Stops of a thread in the code cache, by the registers and the siginfo that the kernel would give.
#include "cache/stop.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace shadowprof::cache {
namespace {

using emu::CachePosition;
using Kind = Stop::Kind;

constexpr uint64_t kBase = 0x7000'0000'0000;
constexpr uint64_t kSlot = 0x6000'0000'0000;
constexpr GuestAddr kGuest{0x401000};
constexpr GuestAddr kTarget{0x402000};
constexpr uint32_t kJumpField = 17;  // of the fragment's only exit: the int3 is right behind it
constexpr uint32_t kStaleTrap = 30;
constexpr size_t kCodeBytes = 40;

siginfo_t signal(int number, int code, uint64_t address = 0) {
  siginfo_t info{};
  info.si_signo = number;
  info.si_code = code;
  info.si_addr = reinterpret_cast<void*>(address);
  return info;
}

siginfo_t int3() {
  return signal(SIGTRAP, SI_KERNEL);
}

class Cache {
 public:
  explicit Cache(emu::Recording recording = emu::Recording::trace)
      : cache(std::move(*emu::CodeCache::create(size_t{1} << 20, recording))) {
    cache->place_at(kBase);
    slot.host = memory.data();
    slot.guest = kSlot;
    regs.orig_rax = machine::kNoSyscall;
  }

  // A fragment with points at its begin and at offset 8, and one exit.
  FragmentId add(emu::FragmentKind kind = emu::FragmentKind::translated, uint8_t recovery = 0) {
    emu::Fragment f;
    f.start = kGuest;
    f.end = kGuest + 7;
    f.kind = kind;
    f.insns = 2;
    f.stale_trap = cache->used() + kStaleTrap;
    const emu::Point points[] = {{}, {5, 8, 1, recovery, 0}};
    emu::Exit exit;
    exit.jump_field = cache->used() + kJumpField;
    exit.target = kTarget;
    const GuestRange range{f.start, f.end};
    std::memset(cache->room(kCodeBytes).data(), 0x90, kCodeBytes);
    return cache->commit(f, {&range, 1}, points, {&exit, 1}, kCodeBytes);
  }

  Stop at(uint64_t pc, const siginfo_t& info) {
    regs.rip = pc;
    return decode_stop(*cache, slot, buffer, regs, info);
  }
  Stop behind_int3(uint64_t place) { return at(place + 1, int3()); }

  // Where the gateway and its companions have such a place.
  uint64_t place_of(CachePosition::Kind kind) const {
    for (uint64_t pc = kBase; pc < kBase + cache->used(); pc++)
      if (cache->locate(pc).kind == kind) return pc;
    return 0;
  }

  std::unique_ptr<emu::CodeCache> cache;
  std::vector<uint8_t> memory = std::vector<uint8_t>(limits::kPageBytes);
  Slot slot;
  size_t buffer = 0;
  machine::Registers regs{};
};

TEST_CASE("an exit that is not linked is a miss of its target") {
  Cache c;
  const uint64_t body = c.cache->body_address(c.add());
  const Stop stop = c.behind_int3(body + kJumpField + 4);
  CHECK(stop.kind == Kind::miss);
  CHECK(stop.is_trap());
  CHECK(stop.pc == kTarget);
  CHECK(c.cache->exit(stop.at.exit).target == kTarget);
}

TEST_CASE("an indirect branch misses the target that its key says") {
  for (const emu::Recording recording : {emu::Recording::trace, emu::Recording::counts}) {
    Cache c(recording);
    const RunId site(recording == emu::Recording::trace ? 0 : 7);
    c.slot.state().site = site.value;
    c.regs.rcx = kTarget.value + static_cast<uint64_t>(int64_t{c.cache->site_number(site)});
    const Stop stop = c.behind_int3(c.cache->branch_miss_address());
    CHECK(stop.kind == Kind::branch_miss);
    CHECK(stop.pc == kTarget);
    CHECK(branching_site(*c.cache, c.slot) == site);
  }
}

TEST_CASE("a trace has no site, whatever the slot says") {
  Cache c;
  c.slot.state().site = 7;
  CHECK(branching_site(*c.cache, c.slot) == emu::kAnySite);
}

TEST_CASE("a full pair log is told when counting") {
  Cache c(emu::Recording::counts);
  const Stop stop = c.behind_int3(c.place_of(CachePosition::Kind::log_full));
  CHECK(stop.kind == Kind::log_full);
  CHECK(stop.pc == GuestAddr());
}

TEST_CASE("stale code is before the fragment's start") {
  Cache c;
  const FragmentId id = c.add();
  const Stop checked = c.behind_int3(c.cache->body_address(id) + kStaleTrap);
  CHECK(checked.kind == Kind::stale);
  CHECK(checked.at.fragment == id);
  CHECK(checked.pc == kGuest);
  c.cache->drop(id);
  const Stop dropped = c.behind_int3(c.cache->body_address(id));
  CHECK(dropped.kind == Kind::stale);
  CHECK(dropped.pc == kGuest);
}

TEST_CASE("a system call of the gateway is where the guest has it") {
  Cache c;
  c.slot.state().next_pc = kGuest.value + machine::kSyscallInsnBytes;
  const Stop stop = c.behind_int3(c.place_of(CachePosition::Kind::syscall_trap));
  CHECK(stop.kind == Kind::system_call);
  CHECK(stop.pc == kGuest);
}

TEST_CASE("an int3 at a point says why it is there") {
  struct Row {
    emu::FragmentKind fragment;
    uint8_t recovery;
    Kind kind;
  };
  const Row rows[] = {
      {emu::FragmentKind::translated, emu::kPointerStored, Kind::stored_pointer},
      {emu::FragmentKind::translated, emu::kSetsTrapFlag, Kind::sets_trap_flag},
      {emu::FragmentKind::native, emu::kAllInPlace, Kind::native_insn},
      {emu::FragmentKind::unsupported, emu::kAllInPlace, Kind::unsupported},
  };
  for (const Row& row : rows) {
    Cache c;
    const Stop stop = c.behind_int3(c.cache->body_address(c.add(row.fragment, row.recovery)) + 8);
    CHECK(stop.kind == row.kind);
    CHECK(stop.is_trap());
    CHECK(stop.pc == kGuest + 5);
    CHECK(stop.at.point.insn == 1);
  }
}

TEST_CASE("an int3 where we have none is a fault of the program's") {
  Cache c;
  const uint64_t body = c.cache->body_address(c.add());
  CHECK(c.behind_int3(body + 8).kind == Kind::fault);  // a point without one
  CHECK(c.behind_int3(body + 3).kind == Kind::fault);
  CHECK(c.behind_int3(kGuest.value).kind == Kind::fault);
}

TEST_CASE("a signal that somebody sends right behind an int3 of ours is not that int3") {
  Cache c;
  const uint64_t behind = c.cache->body_address(c.add()) + kJumpField + 5;
  for (const int code : {SI_USER, SI_TKILL, SI_QUEUE})
    CHECK(c.at(behind, signal(SIGTRAP, code)).kind == Kind::sent);
  c.regs.orig_rax = 129;  // forged, by the program to itself
  CHECK(c.at(behind, int3()).kind == Kind::sent);
}

TEST_CASE("steps and debug registers are told from an int3 at the same place") {
  Cache c;
  const uint64_t behind = c.cache->body_address(c.add()) + kJumpField + 5;
  CHECK(c.at(behind, signal(SIGTRAP, TRAP_TRACE)).kind == Kind::step);
  CHECK(c.at(behind, signal(SIGTRAP, TRAP_HWBKPT)).kind == Kind::watchpoint);
  CHECK(c.at(behind, int3()).kind == Kind::miss);
}

TEST_CASE("a store to the guard page of the buffer in use is a full buffer") {
  Cache c;
  const uint64_t between = c.cache->body_address(c.add()) + 3;
  for (c.buffer = 0; c.buffer < emu::kBufferCount; c.buffer++) {
    const uint64_t guard = c.slot.buffer_end(c.buffer);
    CHECK(c.at(between, signal(SIGSEGV, SEGV_ACCERR, guard)).kind == Kind::full_buffer);
    CHECK(c.at(between, signal(SIGSEGV, SEGV_ACCERR, guard + limits::kPageBytes - 1)).kind ==
          Kind::full_buffer);
    CHECK(c.at(between, signal(SIGSEGV, SEGV_ACCERR, guard - 1)).kind != Kind::full_buffer);
    CHECK(c.at(between, signal(SIGSEGV, SEGV_ACCERR, guard + limits::kPageBytes)).kind !=
          Kind::full_buffer);
    CHECK(c.at(between, signal(SIGSEGV, SI_USER, guard)).kind == Kind::sent);
    // Who has gone out of the cache touches it by itself.
    CHECK(c.at(kGuest.value, signal(SIGSEGV, SEGV_ACCERR, guard)).kind == Kind::fault);
  }
}

TEST_CASE("without buffers there is none to be full") {
  Cache c(emu::Recording::counts);
  const uint64_t between = c.cache->body_address(c.add()) + 3;
  CHECK(c.at(between, signal(SIGSEGV, SEGV_ACCERR, c.slot.buffer_end(0))).kind ==
        Kind::unreadable_code);
}

TEST_CASE("records may not be aligned where the program checks that") {
  Cache c;
  const uint64_t body = c.cache->body_address(c.add());
  CHECK(c.at(body + 8, signal(SIGBUS, BUS_ADRALN)).kind == Kind::fault);
  c.regs.eflags = machine::flags::kAlignmentCheck;
  CHECK(c.at(body + 3, signal(SIGBUS, BUS_ADRALN)).kind == Kind::unaligned);
  CHECK(c.at(body + 8, signal(SIGBUS, BUS_ADRALN)).kind == Kind::unaligned);
  CHECK(c.at(body + 8, signal(SIGBUS, BUS_ADRERR)).kind == Kind::fault);
}

TEST_CASE("a fault is the guest's at a point, and a self-check's elsewhere") {
  Cache c;
  const FragmentId id = c.add();
  const uint64_t body = c.cache->body_address(id);
  const Stop own = c.at(body + 8, signal(SIGSEGV, SEGV_MAPERR, 0x10));
  CHECK(own.kind == Kind::fault);
  CHECK(own.at.kind == CachePosition::Kind::point);
  const Stop check = c.at(body + 3, signal(SIGSEGV, SEGV_MAPERR, 0x10));
  CHECK(check.kind == Kind::unreadable_code);
  CHECK(check.at.fragment == id);
}

TEST_CASE("where we read what a store will overwrite, its own fault is another one") {
  Cache c;
  const uint64_t body =
      c.cache->body_address(c.add(emu::FragmentKind::translated, emu::kReadsAhead));
  const Stop stop = c.at(body + 8, signal(SIGSEGV, SEGV_MAPERR, 0x10));
  CHECK(stop.kind == Kind::read_ahead);
  CHECK(stop.at.point.insn == 1);
  CHECK(c.at(body, signal(SIGSEGV, SEGV_MAPERR, 0x10)).kind == Kind::fault);
}

TEST_CASE("in guest context nothing is ours") {
  machine::Registers regs{};
  regs.orig_rax = machine::kNoSyscall;
  CHECK(decode_guest_stop(regs, int3()).kind == Kind::fault);
  CHECK(decode_guest_stop(regs, signal(SIGSEGV, SEGV_MAPERR)).kind == Kind::fault);
  CHECK(decode_guest_stop(regs, signal(SIGTRAP, TRAP_TRACE)).kind == Kind::step);
  CHECK(decode_guest_stop(regs, signal(SIGTRAP, TRAP_HWBKPT)).kind == Kind::watchpoint);
  CHECK(decode_guest_stop(regs, signal(SIGUSR1, SI_USER)).kind == Kind::sent);
}

}  // namespace
}  // namespace shadowprof::cache
