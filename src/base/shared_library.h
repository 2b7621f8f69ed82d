// SPDX-License-Identifier: MIT
//
// Functions of libraries that are loaded while we run (dlopen(3)), because few users need them.
#pragma once

#include <dlfcn.h>

namespace shadowprof {

// False: `library` has nothing of that name.
template <typename Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace shadowprof
