// SPDX-License-Identifier: MIT
#include "sample/thread_names.h"

#include <algorithm>

#include "kernel/proc.h"

namespace shadowprof::sample {

ThreadNames::Name ThreadNames::of(Tid thread) {
  if (thread == Tid()) return {};
  const std::string now = kernel::thread_name(thread);
  if (now.empty()) {
    const auto known = last_.find(thread);
    return known == last_.end() ? Name() : known->second;
  }
  Name name{};
  std::copy_n(now.begin(), std::min(now.size(), name.size() - 1), name.begin());
  if (last_.size() == kMostThreads && !last_.contains(thread)) last_.clear();
  last_[thread] = name;
  return name;
}

}  // namespace shadowprof::sample
