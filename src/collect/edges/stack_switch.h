// SPDX-License-Identifier: MIT
#pragma once

#include "trace/block_table.h"

namespace shadowprof::collect {

// Whether a block takes its stack pointer from elsewhere than the stack or a frame pointer, as the
// code does that longjmp and exceptions leave by: a jump at its end leads to any activation, or to
// another stack.
bool switches_stack(const trace::BlockTable& table, const trace::Block& block);

}  // namespace shadowprof::collect
