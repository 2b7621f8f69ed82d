// SPDX-License-Identifier: MIT
#include "inject/run_notes.h"

#include <fmt/format.h>

#include <utility>

#include "kernel/proc.h"

namespace shadowprof::inject {

void RunNotes::add_unsupported(const std::string& who, const std::string& reason) {
  constexpr size_t kNamed = 3;
  Unsupported& known = unsupported_[reason];
  known.count++;
  if (known.first.size() < kNamed) known.first.push_back(who);
}

void RunNotes::add_leaving(Tid process, const std::string& what,
                           const std::function<std::optional<uint64_t>()>& counted) {
  constexpr size_t kMost = 16;
  left_++;
  if (leavings_.size() == kMost) return;
  Leaving leaving{std::chrono::steady_clock::now(), {}, {}};
  leaving.why = fmt::format("process {} {}", process.value, what);
  leaving.instructions = counted();
  leavings_.push_back(std::move(leaving));
}

void RunNotes::add_executed(Tid process) {
  constexpr size_t kMost = 64;
  if (executed_.size() == kMost) return;
  executed_.push_back({std::chrono::steady_clock::now(), kernel::read_command(process)});
}

std::vector<std::string> RunNotes::unsupported() const {
  std::vector<std::string> lines;
  for (const auto& [reason, known] : unsupported_) {
    for (const std::string& who : known.first) lines.push_back(who + " " + reason);
    const uint64_t more = known.count - known.first.size();
    if (more != 0) lines.push_back(fmt::format("{} more {}", more, reason));
  }
  return lines;
}

}  // namespace shadowprof::inject
