// SPDX-License-Identifier: MIT
#include "report/stack_course.h"

#include <algorithm>
#include <map>

namespace shadowprof::report {
namespace {

using profile::CodeRef;

// What a slice of the course and a stack have in common.
struct Spender {
  CodeRef function;  // code without a name: one for each module
  bool kernel;
  auto operator<=>(const Spender&) const = default;
};

class Moments {
 public:
  Moments(std::span<const ThreadStack> stacks, const profile::Profile& profile)
      : profile_(profile) {
    for (const ThreadStack& stack : stacks)
      left_[spender(*stack.at, stack.kernel)].push_back({&stack, stack.amount});
  }

  std::vector<StackMoment> take(uint32_t thread) {
    const uint64_t slice_ns = 1000 * profile_.time.slice_us;
    uint64_t end_ns = 0;  // of what the thread has done so far
    for (const profile::CourseRow& row : profile_.tables.course) {
      if (row.thread != thread) continue;
      end_ns = std::max(end_ns, row.slice * slice_ns);
      spend(spender(row.at, false), row.user_ns, end_ns);
      spend(spender(row.at, true), row.kernel_ns, end_ns);
    }
    // Where the course had no room left, and what was lost to rounding.
    for (const auto& [key, stacks] : left_) spend(key, ~uint64_t{0}, end_ns);
    return std::move(moments_);
  }

 private:
  struct Left {
    const ThreadStack* stack;
    uint64_t amount;
  };

  Spender spender(CodeRef at, bool kernel) const {
    const profile::Function* f = profile::find_function(profile_.functions, at);
    return {f != nullptr ? f->at : CodeRef{at.module, ~uint64_t{0}}, kernel};
  }

  void spend(const Spender& key, uint64_t ns, uint64_t& at_ns) {
    const auto found = left_.find(key);
    if (found == left_.end()) return;
    for (Left& left : found->second) {
      const uint64_t part = std::min(left.amount, ns);
      if (part == 0) continue;
      moments_.push_back({left.stack, at_ns, part});
      at_ns += part;
      left.amount -= part;
      ns -= part;
    }
  }

  const profile::Profile& profile_;
  std::map<Spender, std::vector<Left>> left_;
  std::vector<StackMoment> moments_;
};

}  // namespace

std::vector<StackMoment> moments_of(std::span<const ThreadStack> stacks,
                                    const profile::Profile& profile) {
  if (stacks.empty()) return {};
  if (!profile.tables.course.empty()) return Moments(stacks, profile).take(stacks.front().thread);
  std::vector<StackMoment> moments;
  uint64_t used_ns = 0;
  for (const ThreadStack& stack : stacks) {
    moments.push_back({&stack, used_ns, stack.amount});
    used_ns += stack.amount;
  }
  return moments;
}

}  // namespace shadowprof::report
