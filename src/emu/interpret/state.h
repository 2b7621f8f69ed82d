// SPDX-License-Identifier: MIT
//
// What the interpreter's handlers work on. Included by code that may use general-purpose registers
// only: while handlers run, the guest's vector and x87 state may be in the processor's registers.
//
// A fragment is an array of Ops. A handler does its op and goes on to the next one; where it
// cannot, it sets State::stop and returns the op to begin with when that has been dealt with. It
// has changed nothing then that it would change twice (a repeated string instruction has done a
// part of its repetitions), so the op is simply executed again.
//
// Arithmetic flags are those of the host: a handler executes the host's own instruction and keeps
// what `lahf` and `seto al` say, so they are bit-exact where the manuals call them undefined, too.
// Where the guest overwrites flags before it reads them, the handler without flags is chosen.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shadowprof::emu {

struct State;
struct Op;
using Handler = const Op* (*)(State&, const Op*);

// State::gpr behind the sixteen registers.
inline constexpr uint8_t kZeroSlot = 16;  // for addresses without base or index
inline constexpr uint8_t kFsSlot = 17;
inline constexpr uint8_t kGsSlot = 18;
inline constexpr uint8_t kScratchSlot = 19;
inline constexpr size_t kGprSlots = 20;

// Machine code: rdi the State, rsi where the memory operand is. False (in al): it has faulted, and
// nothing has changed.
using CellCode = bool (*)(State*, void*);

struct Cell {
  CellCode code = nullptr;
  uint32_t memory_bytes = 0;
  bool has_memory = false;
  bool reads = false;
  bool writes = false;
  bool uses_vectors = false;
};

// Registers as byte offsets into State::gpr, addresses as slot numbers.
struct Operands {
  uint8_t dst;
  uint8_t src;
  uint8_t base;
  uint8_t index;
  uint8_t scale;  // a shift count
  uint8_t extra;
  uint16_t insn;  // index within the fragment
};

// What an exit records.
struct Departure {
  uint32_t run;
  uint16_t words;
  uint16_t insns;
};

struct Op {
  Handler handler = nullptr;
  union {
    Operands use;
    Departure leave;
  };
  int64_t displacement = 0;  // of exits: the guest address they lead to
  union {
    int64_t immediate;
    const Op* link;  // of exits: the target's first op; of branches: the other exit
    const Cell* cell;
  };
};
static_assert(sizeof(Op) == 32);

enum class Stop : uint32_t {
  none,
  miss,      // no translation of miss_address for reading (or writing)
  unlinked,  // a direct exit without link: goes to its displacement
  indirect,  // an indirect exit: goes to `target`
  full,      // the trace buffer, or the budget: the op that follows is a fragment's first
  system_call,
  cell_fault,
  unsupported,
  pause,    // an op was to be executed by itself
  vectors,  // a cell needs the guest's vector state; execute() sees to it
};

struct TlbEntry {
  uint64_t page = 1;    // no page has this address
  uint64_t addend = 0;  // host minus guest
};

inline constexpr uint64_t kPageMask = 4095;
inline constexpr size_t kTlbEntries = 4096;
inline constexpr size_t kTargetEntries = 4096;
inline constexpr size_t kBounceBytes = 16384;

constexpr size_t target_index(uint64_t pc) {
  return (pc ^ (pc >> 12)) & (kTargetEntries - 1);
}

// In entries that hold nothing. The one where it would be looked up holds the next address.
inline constexpr uint64_t kNoTarget = 1;
static_assert(target_index(kNoTarget) != target_index(kNoTarget + 1));

struct Target {
  uint64_t pc = kNoTarget;
  const Op* op = nullptr;
};

struct State {
  uint64_t gpr[kGprSlots] = {};
  uint64_t flags = 0;        // ah: SF ZF AF PF CF as lahf stores them; al: OF
  uint64_t backwards = 0;    // the direction flag
  uint64_t other_flags = 0;  // of rflags, neither arithmetic nor direction
  uint64_t host_rsp = 0;     // while a cell has the guest's

  uint64_t target = 0;  // of an indirect branch
  uint32_t* cursor = nullptr;
  uint32_t* limit = nullptr;  // no record is begun behind it
  int64_t left = 0;           // instructions of the budget

  // The guest's vector and x87 state in XSAVE layout, 64-byte aligned, unless a cell has loaded it.
  uint8_t* vectors = nullptr;
  uint64_t vector_mask = 0;  // components that are loaded and saved

  Stop stop = Stop::none;
  bool vectors_loaded = false;
  bool miss_writes = false;
  uint64_t miss_address = 0;

  TlbEntry read_tlb[kTlbEntries];
  TlbEntry write_tlb[kTlbEntries];
  Target targets[kTargetEntries];
  alignas(64) uint8_t bounce[kBounceBytes + 64];
};

// Executes from `op` on until something stops it; returns where to go on. The processor's vector
// and x87 state is ours again then.
const Op* execute(State& state, const Op* op);

}  // namespace shadowprof::emu
