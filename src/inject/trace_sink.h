// SPDX-License-Identifier: MIT
//
// Where full trace buffers go. The words stay as they are until wait(ticket) has returned.
#pragma once

#include <cstdint>

#include "trace/record.h"

namespace shadowprof::inject {

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual uint64_t submit(const trace::Chunk& chunk) = 0;
  virtual void wait(uint64_t ticket) = 0;
  virtual bool done(uint64_t ticket) = 0;
};

}  // namespace shadowprof::inject
