// SPDX-License-Identifier: MIT
//
// Basic blocks that do not depend on how they were found.
//
// An engine finds code as it runs: a block from where control came in up to the next branch (or a
// size limit). Jumps into the middle make a second block over the same bytes. Here all of them are
// cut where any other begins or ends, and what was cut only by a size limit or a signal is joined
// again.
//
// We have no instruction boundaries, only how many instructions lie between a block's start and
// its end. Each block is such an equation; blocks that share an address link theirs, and within
// what is linked the number of instructions between any two addresses follows. (Two blocks that end
// at the same branch: the instructions between their starts are the difference of their own.)
// Code that is not linked, or that contradicts what is known (it changed while the program ran, or
// control entered in the middle of an instruction), stays uncut as a row of its own. Whatever is
// cut, the instructions of the pieces add up to those of the whole: totals stay exact.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/tables/block_count_table.h"

namespace shadowprof::profile {

// `count` executions of straight-line code that stopped after `executed` instructions.
struct Piece {
  CodeRef at;
  uint32_t size = 0;
  uint32_t insns = 0;
  uint32_t executed = 0;        // == insns unless interrupted
  bool ends_in_branch = false;  // or a system call: the next address begins a block
  uint64_t count = 0;
};

struct CanonicalBlocks {
  BlockTable blocks;
  InterruptionTable interruptions;
};

// `leaders`: where control came in other than by falling through, sorted. Neighbours are joined
// across every other boundary. Null: nothing is joined.
CanonicalBlocks canonical_blocks(std::vector<Piece> pieces, const std::vector<CodeRef>* leaders);

// The table as pieces again, to be put together with others.
std::vector<Piece> pieces_of(const BlockTable& blocks, const InterruptionTable& interruptions);

}  // namespace shadowprof::profile
