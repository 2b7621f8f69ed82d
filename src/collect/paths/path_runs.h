// SPDX-License-Identifier: MIT
//
// What runs mean for the paths that they are on.
#pragma once

#include <cstdint>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "base/spread.h"
#include "base/types.h"

namespace shadowprof::collect {

inline constexpr uint32_t kMaxPathBlocks = 128;

// What a run's exit means for the path it is on.
enum class Step : uint8_t {
  unknown,
  plain,  // the next block belongs to the path
  same,   // so does what comes next, and it is the same block
  back_edge,
  call,
  ret,
  indirect,  // a jump: the next record tells whether it was a back-edge
};

// The same, when the next run is known, and the path's calls.
enum class Turn : uint8_t {
  on,
  call,  // of a function that the path is not in
  ret,   // from one of its own calls
  end,   // here, and the next path begins
  recursion,
  ret_from_first,
};

struct alignas(32) PathRun {
  uint64_t start;  // address of the first block
  uint64_t mix;    // what it adds to the hash of a path
  uint32_t site;   // of a call: 1 + index of it; of an indirect jump: index into jumps
  uint16_t words;  // 0: not seen yet
  uint8_t blocks;
  Step step;
  uint8_t joins;  // 1: its last block goes on in the next run's first (Step::same)
  uint8_t steps;  // 1: what its exit means has to be looked at
};

// For a run that ends in an indirect jump: what its target is compared with.
struct IndirectJump {
  uint64_t from;
  GuestRange module;
};

class PathRuns {
 public:
  PathRuns() { runs_.prefer_huge_pages(); }

  PathRun& operator[](uint32_t id) { return runs_[id]; }
  const PathRun& operator[](uint32_t id) const { return runs_[id]; }
  const PathRun* data() const { return runs_.data(); }
  uint32_t add_jump(const IndirectJump& jump) {
    jumps_.push_back(jump);
    return static_cast<uint32_t>(jumps_.size() - 1);
  }

  bool goes_back(uint32_t run, uint64_t to) const {
    const IndirectJump& jump = jumps_[runs_[run].site];
    return to <= jump.from && jump.module.contains(GuestAddr(to));
  }
  // A path whose last run is `last` goes on at `next`. `is_in(f)`: f is the function with whose
  // call it began, or one that it has called and not returned from; `depth`: how many those are.
  template <typename IsIn>
  Turn turn(uint32_t last, uint64_t next, size_t depth, IsIn is_in) const {
    switch (runs_[last].step) {
      case Step::back_edge: return Turn::end;
      case Step::indirect: return goes_back(last, next) ? Turn::end : Turn::on;
      case Step::call: return is_in(next) ? Turn::recursion : Turn::call;
      case Step::ret: return depth != 0 ? Turn::ret : Turn::ret_from_first;
      case Step::unknown:
      case Step::plain:
      case Step::same: break;
    }
    return Turn::on;
  }

 private:
  ReservedArray<PathRun> runs_{limits::kMaxRuns};
  std::vector<IndirectJump> jumps_;
};

// The hash of a list: a polynomial of its elements' mixes.
constexpr uint64_t mix_of(uint32_t element) {
  uint64_t z = spread(element + 1);
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}
inline constexpr uint64_t kHashFactor = 0xD6E8FEB86659FD93ull;
constexpr uint64_t extend_hash(uint64_t hash, uint64_t mix) {
  return hash * kHashFactor + mix;
}

}  // namespace shadowprof::collect
