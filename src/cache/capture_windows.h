// SPDX-License-Identifier: MIT
//
// Two translations of the same code, one that captures what a collector wants to see and one that
// only says that it ran, or, where counters do, nothing. Code is captured from its first execution
// on. When the collector has seen enough of a fragment, the branches to it are led to a plain
// translation, and from then on back to the capturing one now and then, at random: in replicas for
// the time of a trace buffer, one in `one_in` on average, and each by itself, as every record is
// there in between; in full mode all at once, when a clock says so (window_clock.h). A thread
// changes over when it branches next, so nobody is stopped for it.
//
// One address space's. Only for recording traces.
#pragma once

#include <optional>
#include <vector>

#include "emu/code_cache.h"
#include "emu/translate/translator.h"
#include "trace/block_table.h"
#include "trace/run_mailbox.h"

namespace shadowprof::cache {

class CaptureWindows {
 public:
  CaptureWindows(emu::CodeCache& cache, emu::Translator& translator, const trace::BlockTable& table)
      : cache_(cache), translator_(translator), table_(table) {}

  // A collector has seen enough of a run, which may be of another address space. It is told if a
  // plain translation was made, behind so many chunks.
  void answer(const trace::RunMailbox::Request& request, trace::RunMailbox& collector,
              uint64_t submitted);
  // A trace buffer is full: closes the windows that are open and opens others, each by itself.
  void turn(uint32_t one_in);
  // Opens or closes the windows of all code at once.
  void turn_all(bool open);

 private:
  struct Pair {
    FragmentId capturing;
    FragmentId plain;
    bool open = false;
  };
  std::optional<RunId> make_plain(const trace::RunMailbox::Request& request);
  void forget_dropped();
  void lead(Pair& pair, bool open);

  emu::CodeCache& cache_;
  emu::Translator& translator_;
  const trace::BlockTable& table_;
  std::vector<Pair> pairs_;
  uint64_t flushes_ = 0;
  uint64_t random_ = 0x9E3779B97F4A7C15ull;
};

}  // namespace shadowprof::cache
