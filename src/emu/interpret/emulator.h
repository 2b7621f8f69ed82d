// SPDX-License-Identifier: MIT
//
// The second engine: an interpreter of x86-64 code that runs in our own process, on a private view
// of the guest's memory. Nothing executes in the guest and nothing is put into it.
//
//   guest code --Lowering--> ops (state.h), cached by address --execute()--> records in a buffer
//
// Hot integer instructions have handlers; every other instruction is a native cell (cells.h). The
// guest's own stores to code that has been lowered are seen, and drop it. Loads cannot be timed: an
// interpreted load has no latency of its own.
//
//   Emulator e(table, source);       what has been lowered outlives the samples
//   e.begin(memory);                 another process, or the same one later
//   e.load(registers, extended);     a thread's turn
//   Stopped s = e.run(buffer, n);
//   e.store(registers, extended);
#pragma once

#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "emu/interpret/lowering.h"
#include "machine/memory_view.h"
#include "machine/registers.h"
#include "trace/record.h"

namespace shadowprof::emu {

enum class StopReason : uint8_t {
  budget,  // executed what it was asked to, or a little more
  buffer_full,
  system_call,  // pc is the `syscall` instruction; its record is written
  fault,        // an instruction cannot be executed: pc is its address
  no_code,      // nothing executable is at pc
  unsupported,  // pc is an instruction that cannot be executed here: `detail`
  long_string,  // pc is a string instruction that needs too many pages; it has done a part
};

struct Stopped {
  StopReason reason = StopReason::budget;
  uint64_t instructions = 0;  // of the records that were written
  size_t words = 0;           // written
  GuestAddr address;          // fault: the memory that could not be accessed, if that is why
  const char* detail = nullptr;
};

struct EmulatorOptions {
  // Flags are right after every instruction, and not only where they are read.
  bool exact_flags = false;
};

class Emulator {
 public:
  Emulator(trace::BlockTable& table, CodeSource& source, EmulatorOptions options = {});
  ~Emulator();

  // What was lowered from memory that the former process had for itself is dropped.
  void begin(machine::MemoryView& memory, CapturePlan plan);
  // The guest's code there is, or may be, another one.
  void invalidate(GuestRange range);
  // Places in the view of memory have changed (MemoryView::forget, take_written, set_areas).
  void memory_changed();

  void load(const machine::Registers& registers, std::span<const uint8_t> extended);
  void store(machine::Registers& registers, std::vector<uint8_t>& extended) const;

  // Executes from the loaded context until at least `instructions` have been, or something stops
  // it; always at the end of a record, but for faults and long strings. The buffer must have room
  // for one. About `news` pages fetched and fragments made, each of which takes as long as hundreds
  // of instructions, are as good as all these instructions.
  Stopped run(std::span<trace::Word> buffer, uint64_t instructions, uint64_t news = UINT64_MAX);

  uint64_t fragments_made() const { return fragments_made_; }

 private:
  struct Fragment {
    GuestAddr start;
    Op* first = nullptr;
    std::vector<GuestAddr> insns;
    std::vector<GuestRange> ranges;
    const char* unsupported_reason = nullptr;
  };
  class ViewedCode;

  Fragment* fragment_at(GuestAddr pc);
  Fragment* make_fragment(GuestAddr pc);
  void keep_spare_chunk();
  Op* place_for(size_t count);
  void drop(Fragment& fragment);
  void drop_if_there(GuestAddr start);
  void drop_all();
  void code_written(GuestAddr page);
  bool has_code(GuestAddr address) const;
  bool execute_store_to_code(const Op* op);
  bool serve_miss();
  bool is_long_string(const Op* op, uint64_t most);
  uint64_t news() const { return memory_->fetched() + fragments_made_; }
  const Fragment& fragment_of(const Op* op) const;
  Stopped stopped_at_op(const Op* op, Stopped stopped, StopReason reason);
  void clear_tlb();
  void clear_targets();

  Cells cells_;
  std::unique_ptr<ViewedCode> code_;
  Lowering lowering_;
  machine::MemoryView* memory_ = nullptr;
  CapturePlan plan_;
  struct FreeState {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, FreeState> state_;
  struct FreeImage {
    void operator()(uint8_t* image) const;
  };
  std::unique_ptr<uint8_t, FreeImage> vectors_;
  size_t vector_bytes_ = 0;
  GuestAddr pc_;
  machine::Registers registers_{};  // what the interpreter does not keep itself

  std::unordered_map<GuestAddr, std::unique_ptr<Fragment>> fragments_;
  std::vector<GuestAddr> of_this_process_;  // starts of code that another one may have otherwise
  std::vector<std::unique_ptr<Fragment>> dropped_;
  std::map<const Op*, Fragment*> by_op_;  // dropped ones, too
  std::unordered_map<uint64_t, std::vector<GuestAddr>> fragments_of_page_;
  std::vector<std::unique_ptr<Op[]>> chunks_;
  size_t chunk_used_ = 0;
  std::unique_ptr<Op[]> spare_chunk_;
  uint64_t fragments_made_ = 0;
  struct Miss {
    const Op* op = nullptr;
    int64_t left = 0;  // of the instructions that were asked for
    bool operator==(const Miss&) const = default;
  };
  Miss missed_;  // the last one, and the news when its op had missed for the first time
  uint64_t news_at_miss_ = 0;
};

}  // namespace shadowprof::emu
