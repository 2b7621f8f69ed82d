// SPDX-License-Identifier: MIT
//
// Whether a thread is within an activation of a function, from its stack pointers alone:
// region_filter.h says by which rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shadowprof::collect {

// A thread's next run, as far as it matters here.
struct RegionStep {
  std::optional<uint64_t> stack;  // the stack pointer where it begins; nothing: not recorded
  bool enters = false;            // it begins at an entry
  bool moves_stack = false;       // it loads the stack pointer with something else
  uint16_t return_bytes = 0;      // it ends in a return, which pops that many; 0: it does not
};

class StackRegion {
 public:
  // A jump of a loaded stack pointer further down than this leads to another stack, as valgrind's
  // --max-stackframe has it.
  static constexpr uint64_t kOtherStack_bytes = 2'000'000;
  static constexpr size_t kMostAway = 64;
  static constexpr size_t kMostHandlers = 64;

  // The next run begins. What it is in is said by is_open() then.
  void step(const RegionStep& run);
  bool is_open() const { return open_; }
  // That many times it was entered.
  uint64_t entries() const { return entries_; }

  // A handler begins with the next run; the one that was begun last has returned.
  void signal_delivered();
  void signal_returned();
  // What comes next does not follow from what was.
  void gap() { loaded_ = true; }

 private:
  struct Away {  // an activation whose stack the thread has left, or that is gone
    uint64_t base;
    uint64_t stack;
  };
  struct Handler {  // and what it has interrupted
    bool open;
    uint64_t base;
    uint64_t lowest;
    uint64_t stack;
    uint16_t return_bytes;
    uint64_t limit = 0;  // of its own stack: 0 until it has begun
  };

  void leave_handlers(uint64_t stack);
  void restore(const Handler& handler);
  void follow(uint64_t stack);
  void come_back(uint64_t stack);
  void go_away();
  bool in_open_handler() const { return !handlers_.empty() && handlers_.back().open; }

  bool open_ = false;
  uint64_t base_ = 0;    // the stack pointer at the entry
  uint64_t lowest_ = 0;  // since then
  uint64_t stack_ = 0;   // where the last run began
  bool loaded_ = false;  // by the last run
  uint16_t return_bytes_ = 0;
  uint64_t entries_ = 0;
  std::vector<Away> away_;
  std::vector<Handler> handlers_;
};

}  // namespace shadowprof::collect
