// SPDX-License-Identifier: MIT
//
// A collector folds a trace into one kind of profile. It sees chunks of words and the block table,
// never a process. consume() runs on a collector thread; all chunks of one guest thread come in
// order and from one thread at a time. finish() is called once, after the last chunk, on any
// thread, and is the last that a collector is asked for.
#pragma once

#include "profile/profile.h"
#include "trace/block_table.h"
#include "trace/record.h"

namespace shadowprof::collect {

class Collector {
 public:
  virtual ~Collector() = default;
  virtual void consume(const trace::Chunk& chunk) = 0;
  virtual void finish(profile::Profile& into) = 0;
};

}  // namespace shadowprof::collect
