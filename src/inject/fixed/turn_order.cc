// SPDX-License-Identifier: MIT
#include "inject/fixed/turn_order.h"

#include <algorithm>
#include <vector>

#include "base/split_mix.h"

namespace shadowprof::inject {

TurnOrder::TurnOrder(std::optional<uint64_t> seed) : random_(seed) {}

void TurnOrder::add(Tid tid) {
  if (std::ranges::count(waiting_, tid) == 0) waiting_.push_back(tid);
}

void TurnOrder::forget(Tid tid) {
  std::erase(waiting_, tid);
  if (is_holder(tid)) holder_.reset();
}

void TurnOrder::rename(Tid from, Tid to) {
  if (!is_holder(from)) return;
  std::erase(waiting_, to);
  holder_ = to;
}

void TurnOrder::pass() {
  if (!holder_) return;
  add(*holder_);
  holder_.reset();
}

std::optional<Tid> TurnOrder::give(const std::function<bool(Tid)>& can_go_on) {
  std::vector<Tid> able;
  for (const Tid tid : waiting_) {
    if (!can_go_on(tid)) continue;
    able.push_back(tid);
    if (!random_) break;
  }
  if (able.empty()) return std::nullopt;
  const Tid next = able.size() == 1 ? able[0] : able[split_mix(*random_) % able.size()];
  std::erase(waiting_, next);
  return holder_ = next;
}

uint64_t TurnOrder::length() {
  return random_ ? 1 + split_mix(*random_) % kLongest : kLength;
}

}  // namespace shadowprof::inject
