// SPDX-License-Identifier: MIT
#pragma once

#include "profile/profile.h"

namespace shadowprof::probe {

// What can be told without measuring.
profile::Host describe_host();

}  // namespace shadowprof::probe
