// SPDX-License-Identifier: MIT
//
// Two translations of the same code, one that captures what collectors want to see and one that
// only says that it ran, or, where counters do, nothing. Code is captured from its first execution
// on. When the collector has seen enough of a fragment, the branches to it are led to a plain
// translation, and from then on back to the capturing one now and then, at random: in replicas for
// the time of a trace buffer, for a share of the time; in full mode when a clock says so
// (window_clock.h). All code has its windows together: what one fragment leaves in a register is an
// argument or an operand of the next, and were they captured by themselves, some ways to it would
// be seen more often than others. A thread changes over when it branches next, so nobody is stopped
// for it.
//
// Bouts (emu/translate/translator_bouts.cc) know nothing of this: both translations lead to the
// same third one.
//
// One address space's. Only for recording traces.
#pragma once

#include <optional>
#include <vector>

#include "base/spread.h"
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
  // A trace buffer is full: there is a window from now on, or none. They are open so much of the
  // time on average, from 0 to 1.
  void turn(double share);
  void turn_all(bool open);

 private:
  struct Versions {
    FragmentId capturing;
    FragmentId plain;
    FragmentId present;  // where branches lead
  };
  std::optional<RunId> make_plain(const trace::RunMailbox::Request& request);
  void forget_dropped();
  void lead_all(FragmentId Versions::* to);
  double random_share();

  emu::CodeCache& cache_;
  emu::Translator& translator_;
  const trace::BlockTable& table_;
  std::vector<Versions> versions_;
  uint64_t flushes_ = 0;
  uint64_t random_ = kGolden;
};

}  // namespace shadowprof::cache
