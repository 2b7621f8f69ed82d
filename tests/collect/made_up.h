// SPDX-License-Identifier: MIT
//
// What tests of one piece of code need around it.
#pragma once

#include "trace/block_table.h"

namespace shadowprof::test {

// A page at 0x1000, which is the start of its file.
inline trace::Module one_page_module() {
  trace::Module module;
  module.path = "/made/up";
  module.inode = 1;
  module.range = {GuestAddr(0x1000), GuestAddr(0x2000)};
  module.file_start = GuestAddr(0x1000);
  return module;
}

}  // namespace shadowprof::test
