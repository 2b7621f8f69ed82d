// SPDX-License-Identifier: MIT
//
// A made-up program, executed at random, and two views of the same execution: what it really did
// (counted instruction by instruction), and the trace that an engine would write of it. The
// engine's block and fragment limits are parameters; what it really did does not depend on them.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "trace/record.h"

namespace shadowprof::test {

enum class Op : uint8_t {
  plain,
  conditional,
  jump,
  call,
  indirect_call,
  indirect_jump,
  ret,
  syscall,
  native
};

struct Insn {
  uint64_t address = 0;
  uint32_t size = 1;
  Op op = Op::plain;
  std::vector<size_t> targets;  // of a branch: indices of instructions
};

struct ProgramOptions {
  size_t functions = 12;  // the last one is a signal handler, followed by its return stub
  size_t max_function_insns = 60;
};

class Program {
 public:
  Program(uint64_t seed, ProgramOptions options = {});

  std::vector<Insn> insns;
  std::vector<size_t> functions;  // first instruction of each
  size_t restorer = 0;            // two instructions: the second one is the system call
  size_t index_at(uint64_t address) const;
};

// What happened, in order.
struct ExecutedStep {
  enum Kind : uint8_t { insn, signal_delivered, signal_returned } kind = insn;
  size_t at = 0;    // instruction
  size_t next = 0;  // the instruction that followed it
};

struct Truth {
  std::vector<uint64_t> executed;                                                // by instruction
  std::map<std::tuple<uint64_t, uint64_t, std::string>, uint64_t> edges;         // from, to, kind
  std::map<std::pair<uint64_t, uint64_t>, std::pair<uint64_t, uint64_t>> calls;  // count, inclusive
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> entries;  // invocations, inclusive
  uint64_t total = 0;
};

struct Execution {
  std::vector<ExecutedStep> steps;
  Truth truth;
};

// signal_every: mean number of instructions between signals; 0: none. The program's own way does
// not depend on it.
Execution execute(const Program& program, uint64_t seed, size_t steps, unsigned signal_every);

struct EngineOptions {
  unsigned max_block_insns = 64;
  unsigned max_fragment_blocks = 4;
  unsigned extra_words = 0;  // every n-th run carries a value slot; 0: none
};

// Writes the trace as an engine with these limits would.
class Engine {
 public:
  Engine(const Program& program, EngineOptions options);

  std::vector<trace::Word> trace(const Execution& execution);
  trace::BlockTable table;

 private:
  struct Static {
    BlockId id;
    size_t first = 0, last = 0;  // instructions
  };
  const Static& block_at(size_t insn);
  RunId run(const std::vector<size_t>& starts, trace::RunExit exit, uint64_t target,
            unsigned last_insns);

  const Program& program_;
  EngineOptions options_;
  ModuleId module_;
  std::map<size_t, Static> blocks_;
  std::map<std::tuple<std::vector<size_t>, trace::RunExit, uint64_t, unsigned>, RunId> runs_;
};

inline constexpr uint64_t kBase = 0x400000;

}  // namespace shadowprof::test
