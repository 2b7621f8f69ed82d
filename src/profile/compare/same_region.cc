// SPDX-License-Identifier: MIT
#include "profile/compare/same_region.h"

#include <fmt/format.h>

namespace shadowprof::profile {

std::string described_region(const Run& run) {
  const auto only = run.options.find("only");
  if (only != run.options.end()) return fmt::format("what begins in '{}'", only->second);
  if (!run.region) return "all of the program";
  if (run.region->is_marks()) return "what is within marks";
  if (run.region->is_between())
    return fmt::format("what is from '{}' to '{}'", run.region->from, run.region->to);
  return fmt::format("what is within '{}'", run.region->within);
}

Status check_same_region(const Run& a, const std::string& a_file, const Run& b,
                         const std::string& b_file) {
  const std::string of_a = described_region(a), of_b = described_region(b);
  if (of_a == of_b) return {};
  return fail("{} has {}, and {} has {} (--within, --from, --only): these cannot be compared",
              a_file, of_a, b_file, of_b);
}

}  // namespace shadowprof::profile
