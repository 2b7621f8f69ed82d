// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace shadowprof::sample {

// Who executes a replica's code.
enum class Engine : uint8_t { translator, emulator };

}  // namespace shadowprof::sample
