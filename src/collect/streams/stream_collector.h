// SPDX-License-Identifier: MIT
//
// Folds a trace with address registers into hot data streams (docs/streams.md): sequences of
// references that recur.
//
// A reference is (load or store instruction, cache line of the address). A *burst* is a stretch of
// a thread's references, at most kMostReferences; it is compressed by Sequitur (sequitur.h), and
// ends before that if its grammar has kMostSymbols, so memory is bounded: 3 MB for each of the
// eight threads that are followed at a time, and what the rows take (stream_rows.h). What is hot in
// it (hot_streams.h) has at least kLeastShare of its references. Bursts shorter than
// kLeastReferences, where that would be a handful, are left out.
//
// A sample begins with a burst, and so does a thread; then one in kOneIn references is in one, with
// gaps of random length, since compressing takes far longer than following.
//
// Not references are
//   - what repeats the one before, same instruction and line: it finds the line where it has just
//     been, and a loop over an array would be all repetition;
//   - loads and stores near the stack pointer, within kStackBelow and kStackAbove. Those lines are
//     in the first cache at all times, the compiler places them, and nobody prefetches them. And
//     they move with the depth of calls: the same walk over data from two depths would be two
//     streams;
//   - what is of unknown address (access_plan.h).
//
// Something that comes in between, as a signal handler, is part of the sequence or missing in it: a
// stream that recurs often enough is found all the same.
#pragma once

#include <cstdint>
#include <memory>

#include "collect/collector.h"
#include "collect/loads/access_follower.h"

namespace shadowprof::collect {

struct StreamLimits {
  static constexpr uint64_t kMostReferences = 65'536;
  static constexpr uint32_t kMostSymbols = 32'768;
  static constexpr uint64_t kLeastReferences = 1'000;
  static constexpr double kLeastShare = 0.01;
  static constexpr uint64_t kOneIn = 8;
  static constexpr uint64_t kStackBelow = 1'024;
  static constexpr uint64_t kStackAbove = 3'072;
};

// It adds to a profile: modules, the table of streams, what coverage says of them.
std::unique_ptr<Collector> make_stream_collector(const trace::BlockTable& table,
                                                 AccessFollowerOptions options);

}  // namespace shadowprof::collect
