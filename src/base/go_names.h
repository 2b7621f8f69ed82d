// SPDX-License-Identifier: MIT
//
// Go writes a method's receiver where C++ has parameters: "bytes.(*Buffer).Write".
#pragma once

#include <string_view>

namespace shadowprof {

inline bool has_receiver(std::string_view name) {
  return name.find(").") != std::string_view::npos;
}

}  // namespace shadowprof
