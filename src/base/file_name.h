// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace shadowprof {

// Without its folders.
inline std::string file_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
}

}  // namespace shadowprof
