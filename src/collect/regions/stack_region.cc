// SPDX-License-Identifier: MIT
#include "collect/regions/stack_region.h"

#include <algorithm>

namespace shadowprof::collect {
namespace {

// Where a stack is left and where it is come back to are in one function, or a call apart.
constexpr uint64_t kBelowPlace_bytes = 1024;
constexpr uint64_t kAbovePlace_bytes = 4096;
constexpr uint64_t kReturnAddress_bytes = 8;

}  // namespace

void StackRegion::step(const RegionStep& run) {
  if (run.stack) {
    leave_handlers(*run.stack);
    if (open_ && !in_open_handler()) follow(*run.stack);
    if (!open_ && !away_.empty()) come_back(*run.stack);
    if (!open_ && run.enters) {
      open_ = true;
      base_ = lowest_ = *run.stack;
      entries_++;
    }
    stack_ = *run.stack;
    loaded_ = false;
  }
  loaded_ |= run.moves_stack;
  return_bytes_ = run.return_bytes;
}

// Is the activation still there?
void StackRegion::follow(uint64_t stack) {
  if (stack > base_) {
    const bool returned = return_bytes_ != 0 && stack - base_ == return_bytes_;
    if (loaded_ && !returned) go_away();
    open_ = false;
  } else if (loaded_ && stack + kOtherStack_bytes < lowest_) {
    go_away();
    open_ = false;
  } else {
    lowest_ = std::min(lowest_, stack);
  }
}

void StackRegion::go_away() {
  if (away_.size() == kMostAway) away_.erase(away_.begin());
  away_.push_back({base_, stack_});
}

// A stack pointer that was counted down to where an activation was is of the same stack, so that
// activation is gone.
void StackRegion::come_back(uint64_t stack) {
  if (!loaded_) {
    std::erase_if(away_, [&](const Away& a) { return a.stack <= stack && stack <= a.base; });
    return;
  }
  for (auto a = away_.rbegin(); a != away_.rend(); ++a) {
    if (stack + kBelowPlace_bytes < a->stack || stack > a->stack + kAbovePlace_bytes) continue;
    if (stack > a->base) continue;
    open_ = true;
    base_ = a->base;
    lowest_ = stack;
    away_.erase(std::next(a).base());
    return;
  }
}

// siglongjmp(3) leaves a handler without its return. The address to which a handler returns lies
// above all else of its frame.
void StackRegion::leave_handlers(uint64_t stack) {
  while (!handlers_.empty()) {
    Handler& h = handlers_.back();
    if (h.limit == 0) h.limit = stack + kReturnAddress_bytes;
    const bool is_its_own =
        stack <= h.limit && (!loaded_ || stack + kOtherStack_bytes >= h.limit);
    if (is_its_own) return;
    restore(h);
    handlers_.pop_back();
  }
}

void StackRegion::restore(const Handler& handler) {
  open_ = handler.open;
  base_ = handler.base;
  lowest_ = handler.lowest;
  stack_ = handler.stack;
  return_bytes_ = handler.return_bytes;
  loaded_ = true;  // a handler may change where it returns to
}

void StackRegion::signal_delivered() {
  if (handlers_.size() == kMostHandlers) handlers_.erase(handlers_.begin());
  handlers_.push_back({open_, base_, lowest_, stack_, return_bytes_});
  loaded_ = false;
  return_bytes_ = 0;
}

void StackRegion::signal_returned() {
  if (handlers_.empty()) return gap();
  restore(handlers_.back());
  handlers_.pop_back();
}

}  // namespace shadowprof::collect
