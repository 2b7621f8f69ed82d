// SPDX-License-Identifier: MIT
//
// The traces that two engines have written of the same stretch of execution, compared instruction
// by instruction.
//
// Engines cut code into fragments each in its own way, so records are not compared as they are but
// in a common form: the instructions in the order of their execution, each with the result that it
// left in a register and the registers that its memory accesses were addressed with. Which of these
// a record holds by itself and which are known from an earlier slot of it is undone here.
//
// The comparison goes up to the end of the shorter trace, or to what is not the same twice: a
// system call, a time stamp, a random number, a load of what somebody else has written meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "decoder/insn.h"
#include "trace/block_table.h"
#include "trace/record.h"

namespace shadowprof::emu {

struct Comparison {
  uint64_t instructions = 0;  // that agree
  // Where the first one does not: a sentence.
  std::optional<std::string> difference;
};

class TraceComparison {
 public:
  // The tables that the traces speak of: each engine has its own.
  TraceComparison(const trace::BlockTable& first, const trace::BlockTable& second)
      : sides_{{first, {}}, {second, {}}} {}

  // Memory that others may write while the engines run, one after the other: the kernel, or
  // processes that share it.
  void set_shared(std::vector<GuestRange> ranges) { shared_ = std::move(ranges); }

  // Records of one guest thread each, in order, with all values and addresses; `first_name` and
  // `second_name` are the engines'.
  Comparison compare(const char* first_name, std::span<const trace::Word> first,
                     const char* second_name, std::span<const trace::Word> second);

 private:
  struct Fact {  // about an instruction
    decoder::Insn insn;
    bool same_twice = true;
  };
  // One instruction as it executed.
  struct Step {
    const Fact* fact = nullptr;
    std::array<uint64_t, 2> results{};
    std::array<uint64_t, 4> address{};   // base and index of each access
    std::array<uint64_t, 3> compared{};  // both registers, and memory
    std::optional<uint64_t> element;     // what it left in a vector or mask register
    // The same instruction, at work on the same addresses.
    bool same_place(const Step& other) const;
    bool operator==(const Step& other) const;
  };
  class Walk;

  struct Side {
    const trace::BlockTable& table;
    std::unordered_map<BlockId, std::vector<Fact>> facts;
    const std::vector<Fact>& facts_of(BlockId block);
  };

  static std::string describe(const Step& step);
  bool loads_shared(const Step& step) const;

  Side sides_[2];
  std::vector<GuestRange> shared_;
};

}  // namespace shadowprof::emu
