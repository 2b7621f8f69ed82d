// SPDX-License-Identifier: MIT
#include "profile/tables/access_pair_table.h"

namespace shadowprof::profile {

std::optional<PairKind> pair_kind_from(std::string_view name) {
  for (size_t k = 0; k < kPairKinds; k++)
    if (name == kPairKindNames[k]) return static_cast<PairKind>(k);
  return std::nullopt;
}

}  // namespace shadowprof::profile
