// SPDX-License-Identifier: MIT
//
// A part of the program in which samples are to begin (--only): a function or a module. Before a
// sample is taken, while the program stands still for it, somebody looks where its threads are.
//
//   plan: a sample is due ─▶ pause ─▶ is a thread in the part? ─ yes ─▶ fork, or burst
//                                                             └─ no ──▶ goes on; the next look is
//                                                                       soon (Plan::elsewhere)
//
// Symbols are looked up while the program runs, and only the places of its threads in the pause.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernel/proc.h"
#include "sample/named_functions.h"
#include "shadow/pause.h"
#include "trace/block_table.h"

namespace shadowprof::sample {

class WantedPart {
 public:
  // As rules of check name functions, perhaps behind the name of a module ("libz.so*!inflate");
  // with nothing behind the mark ("libz.so*!") all code of the module. `started`: as load_symbols
  // has it.
  WantedPart(const std::string& text, int64_t started);

  // What is mapped, if it may be otherwise than it was. To be called while the process runs.
  void learn_code(Tid process);
  void forget(Tid process) { processes_.erase(process); }
  // Does one of them execute it, or something that it has called? Of stacks the innermost
  // kStackWords are looked at, for return addresses.
  bool is_executed(Tid process, std::span<const shadow::PausedThread> threads);
  // How much of its time the program spends there. The looks that follow one which has not found it
  // there do not count: they come so soon that it is mostly where it was.
  double share_of_time() const {
    return first_looks_ == 0
               ? 1
               : static_cast<double>(found_at_first_) / static_cast<double>(first_looks_);
  }

 private:
  static constexpr size_t kStackWords = 512;

  struct Code {
    GuestRange range;
    ModuleId module;
  };
  struct Mapped {
    uint64_t pages = 0;      // of all that is mapped: another number, and it is read again
    std::vector<Code> code;  // by address
  };
  ModuleId module_of(const kernel::Mapping& mapping);
  bool is_there(Tid process, std::span<const shadow::PausedThread> threads);
  bool has(const Mapped& mapped, GuestAddr at);
  bool is_called_from(Tid process, const Mapped& mapped, GuestAddr stack);

  trace::BlockTable table_;  // of modules alone
  NamedFunctions named_;
  std::map<Tid, Mapped> processes_;
  uint64_t first_looks_ = 0;
  uint64_t found_at_first_ = 0;
  bool tries_again_ = false;
};

// While `stopped` lasts. ECANCELED: none of its threads is there. Null: anywhere will do.
Status check_part(WantedPart* part, shadow::Pause& stopped);

}  // namespace shadowprof::sample
