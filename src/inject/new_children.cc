// SPDX-License-Identifier: MIT
#include "inject/new_children.h"

#include <utility>

namespace shadowprof::inject {

void NewChildren::announce(Tid child, const NewChild& info) {
  announced_[child] = info;
  if (early_.erase(child)) ready_.push_back(child);
}

std::optional<NewChild> NewChildren::come(Tid child) {
  auto told = take(child);
  if (!told) early_.insert(child);
  return told;
}

std::vector<Tid> NewChildren::take_ready() {
  return std::exchange(ready_, {});
}

bool NewChildren::remove_ready(Tid child) {
  return std::erase(ready_, child) != 0;
}

std::optional<NewChild> NewChildren::take(Tid child) {
  auto told = announced_.extract(child);
  return told ? std::optional(std::move(told.mapped())) : std::nullopt;
}

void NewChildren::forget(Tid child) {
  announced_.erase(child);
  early_.erase(child);
}

}  // namespace shadowprof::inject
