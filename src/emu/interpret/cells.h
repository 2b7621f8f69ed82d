// SPDX-License-Identifier: MIT
//
// Native cells: a guest instruction between code that loads the guest's registers and flags and
// stores what it wrote, to be called like a function (CellCode). Equal instructions share a cell.
//
// The guest's vector and x87 state is not loaded by the cell: it stays in the processor from one
// cell to the next (state.h). An instruction that faults is a cell that returns false: the first
// object of this class installs handlers for SIGSEGV, SIGBUS, SIGFPE and SIGILL in our process that
// know these places, and leave all others to whatever was there before.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/own_code.h"
#include "decoder/operation.h"
#include "emu/interpret/state.h"

namespace shadowprof::emu {

struct CellFaults;

class Cells {
 public:
  Cells();
  ~Cells();
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  // Null: there is no room for another, or the host gave none.
  const Cell* cell_for(const decoder::Insn& insn, const decoder::Operation& operation);

 private:
  CellCode write_code(const std::string& insn, const decoder::Operation& operation);

  CellFaults* const faults_;  // never freed
  Result<OwnCode> memory_;  // without it there are no cells
  size_t used_ = 0;
  std::unordered_map<std::string, std::unique_ptr<Cell>> by_bytes_;
};

}  // namespace shadowprof::emu
