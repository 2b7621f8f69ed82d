// SPDX-License-Identifier: MIT
//
// Two translations of the same code, one that captures what collectors want to see and one that
// only says that it ran, or, where counters do, nothing, or captures what is wanted all the time.
// Where a part of what is captured takes much longer than the rest, there is a third that captures
// the rest, and most windows are its. Code is captured from its first execution on. When the
// collector has seen enough of a fragment, the branches to it are led to a plain translation, and
// from then on back to a capturing one now and then, at random: in replicas for the time of a trace
// buffer, as much of the time as WindowShares say; in full mode when a clock says so
// (window_clock.h). All code has its windows together: what one fragment leaves in a register is an
// argument or an operand of the next, and were they captured by themselves, some ways to it would
// be seen more often than others. A thread changes over when it branches next, so nobody is stopped
// for it.
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

// How much of the time windows are open, on average: from 0 to 1. What they capture is nested, so
// that what is captured seldom is seen with the rest.
struct WindowShares {
  double some = 1;    // windows of any kind
  double whole = 1;   // those in which all is captured; not above `some`
  bool operator==(const WindowShares&) const = default;
};

class CaptureWindows {
 public:
  CaptureWindows(emu::CodeCache& cache, emu::Translator& translator, const trace::BlockTable& table)
      : cache_(cache), translator_(translator), table_(table) {}

  // Before any answer. Code is captured by this plan in windows in which not all is.
  void lighten(const emu::CapturePlan& plan) { lighter_ = plan; }
  // Before any answer. Code is captured by this plan outside of windows.
  void capture_between(const emu::CapturePlan& plan) { between_ = plan; }
  // A collector has seen enough of a run, which may be of another address space. It is told if a
  // plain translation was made, behind so many chunks.
  void answer(const trace::RunMailbox::Request& request, trace::RunMailbox& collector,
              uint64_t submitted);
  // A trace buffer is full: there is a window from now on, or none.
  void turn(const WindowShares& shares);
  void turn_all(bool open);

 private:
  struct Versions {
    FragmentId capturing;
    FragmentId plain;
    FragmentId lighter;  // `capturing` where there is none
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
  std::optional<emu::CapturePlan> lighter_;
  emu::CapturePlan between_{};
  uint64_t flushes_ = 0;
  uint64_t random_ = kGolden;
};

}  // namespace shadowprof::cache
