// SPDX-License-Identifier: MIT
#include "emu/interpret/cells.h"

#include <cpuid.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

#include "base/check.h"
#include "base/code_writer.h"
#include "base/reserved_array.h"

namespace shadowprof::emu {

namespace {

constexpr size_t kAreaBytes = size_t{16} << 20;
constexpr size_t kMostCellBytes = 512;
constexpr size_t kCellAlignment = 16;

}  // namespace

// What the signal handlers look at: where instructions of cells are, ascending, and where each goes
// on when it has faulted. Written by the owner's thread while it executes no cell. Handlers of
// others may walk it meanwhile, and find nothing: their instructions are not in it. So it is in a
// list that only grows, and the next owner gets it when this one is gone.
struct CellFaults {
  struct Place {
    uint64_t insn;
    uint64_t fault;
  };
  ReservedArray<Place> places{kAreaBytes / kCellAlignment};
  std::atomic<bool> is_owned{true};
  CellFaults* next = nullptr;
};

namespace {

using decoder::Gpr;
using decoder::gpr_bit;
using decoder::GprMask;
using decoder::kRax;
using decoder::kRbp;
using decoder::kRbx;
using decoder::kRdi;
using decoder::kRsi;
using decoder::kRsp;

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

std::atomic<CellFaults*> g_fault_places{nullptr};
std::array<struct sigaction, NSIG> g_former;

CellFaults* own_fault_places() {
  for (CellFaults* known = g_fault_places.load(); known != nullptr; known = known->next) {
    bool is_owned = false;
    if (known->is_owned.compare_exchange_strong(is_owned, true)) return known;
  }
  auto* fresh = new CellFaults;
  fresh->next = g_fault_places.load();
  while (!g_fault_places.compare_exchange_weak(fresh->next, fresh)) continue;
  return fresh;
}

void give_back(CellFaults& faults) {
  faults.places.release();
  faults.is_owned.store(false);
}

uint64_t fault_place_of(uint64_t rip) {
  for (const CellFaults* all = g_fault_places.load(); all != nullptr; all = all->next) {
    const std::span<const CellFaults::Place> places = all->places.span();
    const auto it = std::ranges::lower_bound(places, rip, {}, &CellFaults::Place::insn);
    if (it != places.end() && it->insn == rip) return it->fault;
  }
  return 0;
}

void on_signal(int signal, siginfo_t*, void* context) {
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const uint64_t fault = fault_place_of(static_cast<uint64_t>(registers[REG_RIP]));
  if (fault != 0) {
    registers[REG_RIP] = static_cast<greg_t>(fault);
    return;
  }
  // Not ours: the instruction faults again, for whoever was there before.
  ::sigaction(signal, &g_former[static_cast<size_t>(signal)], nullptr);
}

void install_handlers() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int signal : kSignals)
      ::sigaction(signal, &action, &g_former[static_cast<size_t>(signal)]);
    return true;
  }();
  (void)once;
}

// The few instructions around a guest's.
class Writer : public CodeWriter {
 public:
  using CodeWriter::CodeWriter;
  void push(Gpr r) { with_low_register(0x50, r); }
  void pop(Gpr r) { with_low_register(0x58, r); }
  void mov(Gpr to, Gpr from) { bytes({rex(from, to), 0x89, modrm(3, from, to)}); }
  // mov to, [base + offset]
  void load(Gpr to, Gpr base, size_t offset) { with_state(0x8b, to, base, offset); }
  void store(Gpr from, Gpr base, size_t offset) { with_state(0x89, from, base, offset); }

 private:
  static uint8_t rex(Gpr reg, Gpr rm) {
    return static_cast<uint8_t>(0x48 | (reg >> 3) << 2 | (rm >> 3));
  }
  static uint8_t modrm(uint8_t mod, Gpr reg, Gpr rm) {
    return static_cast<uint8_t>(mod << 6 | (reg & 7) << 3 | (rm & 7));
  }
  void with_low_register(uint8_t opcode, Gpr r) {
    if (r >= 8) byte(0x41);
    byte(static_cast<uint8_t>(opcode | (r & 7)));
  }
  void with_state(uint8_t opcode, Gpr reg, Gpr base, size_t offset) {
    bytes({rex(reg, base), opcode, modrm(2, reg, base)});
    if ((base & 7) == 4) byte(0x24);  // r12 needs a SIB byte
    u32(static_cast<uint32_t>(offset));
  }
};

Gpr choose(std::initializer_list<Gpr> candidates, GprMask taken) {
  for (Gpr r : candidates) {
    if (!(taken & gpr_bit(r))) return r;
  }
  SP_CHECK(false, "no register is free around an instruction");
  return decoder::kNoGpr;
}

constexpr GprMask kCalleeSaved = gpr_bit(kRbx) | gpr_bit(kRbp) | 0xf000;

size_t gpr_offset(Gpr r) {
  return offsetof(State, gpr) + 8u * r;
}

struct CellRegisters {
  Gpr memory;
  Gpr state;
};

CellRegisters registers_for(const decoder::Operation& operation) {
  CellRegisters r{};
  const GprMask taken = operation.loads;
  r.memory = choose({kRsi, decoder::kRdx, decoder::kRcx, kRax, kRbx}, taken);
  r.state = choose({kRdi, 8, 9, 10, 11, 12, 13, 14, 15, kRbp},
                   static_cast<GprMask>(taken | gpr_bit(r.memory)));
  return r;
}

uint32_t xsave_bytes() {
  static const uint32_t bytes = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    __get_cpuid_count(0xd, 0, &eax, &ebx, &ecx, &edx);
    return ebx;
  }();
  return bytes;
}

}  // namespace

Cells::Cells()
    : faults_(own_fault_places()), memory_(OwnCode::create("shadowprof-cells", kAreaBytes)) {
  install_handlers();
}

Cells::~Cells() {
  give_back(*faults_);
}

const Cell* Cells::cell_for(const decoder::Insn& insn, const decoder::Operation& operation) {
  const CellRegisters r = registers_for(operation);
  const std::string bytes = decoder::encode_cell(insn, r.memory);
  auto& cell = by_bytes_[bytes];
  if (cell) return cell.get();
  if (!memory_ || used_ + kMostCellBytes > kAreaBytes) return nullptr;
  cell = std::make_unique<Cell>();
  cell->code = write_code(bytes, operation);
  cell->has_memory = operation.has_memory;
  cell->memory_bytes = operation.memory_bytes != 0 ? operation.memory_bytes : xsave_bytes();
  cell->reads = operation.reads_memory;
  cell->writes = operation.writes_memory;
  cell->uses_vectors = operation.uses_vectors;
  SP_CHECK(cell->memory_bytes <= kBounceBytes, "a memory operand of {} bytes", cell->memory_bytes);
  return cell.get();
}

CellCode Cells::write_code(const std::string& insn, const decoder::Operation& operation) {
  const CellRegisters r = registers_for(operation);
  const bool has_rsp = (operation.loads & gpr_bit(kRsp)) != 0;
  const auto named = static_cast<GprMask>(operation.loads & ~gpr_bit(kRsp));
  const auto saved =
      static_cast<GprMask>((operation.loads | gpr_bit(r.memory) | gpr_bit(r.state)) & kCalleeSaved);
  const auto for_each = [](GprMask mask, auto&& use) {
    for (Gpr g = 0; g < 16; g++) {
      if (mask & gpr_bit(g)) use(g);
    }
  };
  const auto leave = [&](Writer& w) {
    for (int g = 15; g >= 0; g--) {
      if (saved & gpr_bit(static_cast<Gpr>(g))) w.pop(static_cast<Gpr>(g));
    }
    w.bytes({0xc3});  // ret
  };

  Writer w({memory_->writable() + used_, kMostCellBytes});
  for_each(saved, [&](Gpr g) { w.push(g); });
  if (r.state != kRdi) w.mov(r.state, kRdi);
  if (operation.uses_flags) {
    w.load(kRax, r.state, offsetof(State, flags));
    w.bytes({0x04, 0x7f, 0x9e});  // add al, 0x7f; sahf
  }
  if (r.memory != kRsi) w.mov(r.memory, kRsi);
  for_each(named, [&](Gpr g) { w.load(g, r.state, gpr_offset(g)); });
  if (has_rsp) {
    w.store(kRsp, r.state, offsetof(State, host_rsp));
    w.load(kRsp, r.state, gpr_offset(kRsp));
  }
  const size_t insn_at = used_ + w.offset();
  w.copy({reinterpret_cast<const uint8_t*>(insn.data()), insn.size()});
  for_each(operation.stores, [&](Gpr g) { w.store(g, r.state, gpr_offset(g)); });
  if (has_rsp) w.load(kRsp, r.state, offsetof(State, host_rsp));
  if (operation.uses_flags) {
    w.bytes({0x9f, 0x0f, 0x90, 0xc0});  // lahf; seto al
    w.bytes({0x0f, 0xb7, 0xc0});        // movzx eax, ax
    w.store(kRax, r.state, offsetof(State, flags));
  }
  w.bytes({0xb8, 1, 0, 0, 0});  // mov eax, 1
  leave(w);
  const size_t fault_at = used_ + w.offset();
  if (has_rsp) w.load(kRsp, r.state, offsetof(State, host_rsp));
  w.bytes({0x31, 0xc0});  // xor eax, eax
  leave(w);

  const uint64_t base = reinterpret_cast<uint64_t>(memory_->executable());
  faults_->places.push_back({base + insn_at, base + fault_at});
  const auto code = reinterpret_cast<CellCode>(base + used_);
  used_ += (w.offset() + kCellAlignment - 1) & ~(kCellAlignment - 1);
  return code;
}

}  // namespace shadowprof::emu
