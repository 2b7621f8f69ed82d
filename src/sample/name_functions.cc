// SPDX-License-Identifier: MIT
#include "sample/name_functions.h"

namespace shadowprof::sample {

void name_functions(profile::Profile& profile, size_t top) {
  profile::FunctionTable names;
  profile::attribute_functions(profile, std::move(names));
  profile.hotlists = profile::compute_hotlists(profile, top);
}

}  // namespace shadowprof::sample
