// SPDX-License-Identifier: MIT
#include "profile/compare/assumed_errors.h"

namespace shadowprof::profile {
namespace {

// One degree of freedom.
constexpr uint32_t kAssumedGroups = 2;

}  // namespace

void assume_errors(Profile& profile) {
  Confidence& confidence = profile.confidence;
  if (confidence.exact || confidence.groups >= kAssumedGroups) return;
  confidence.groups = kAssumedGroups;
  for_each_table([&](const auto&, auto member) {
    for (auto& row : profile.tables.*member) {
      if constexpr (requires {
                      row.error;
                      row.count;
                    })
        row.error = row.count;
      else if constexpr (requires {
                           row.error;
                           row.self;
                         })
        row.error = row.self;
      else if constexpr (requires {
                           row.error;
                           row.heat;
                         })
        row.error = row.heat;
    }
  });
  for (Function& f : profile.functions) f.self_error = f.self;
  for (InlinedFunction& f : profile.inlined) f.self_error = f.self;
  for (ThreadRow& thread : profile.threads) thread.instructions_error = thread.instructions;
}

}  // namespace shadowprof::profile
