// SPDX-License-Identifier: MIT
//
// Which of a program's page faults are our doing. While a replica lives the program copies each
// page that both have when it writes to it; afterwards it faults once more for each that it did not
// copy, and nobody else has. The kernel counts these faults together with the program's own, of
// which there are, in some time,
//
//   as many as it has more pages than before, and
//   as many as it had beyond that in an equal time without a replica.
//
// Ours are the rest, and not more than the pages that it had, or has not copied. Between replicas
// the kernel tells them apart: it counts the faults of all processes on pages that were shared once
// and are so no more. Where it does not, all that can be ours is.
//
//   settle()          between replicas: what the last ones have left to it
//   begin(), end()    around the life of one
//   expected()        what the next one will cost
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace shadowprof::sample {

// The program's, at a moment.
struct FaultMarks {
  uint64_t faults = 0;    // up to then
  uint64_t pages = 0;     // of its own, resident
  uint64_t resident = 0;  // and those of files
  std::optional<uint64_t>
      reused{};  // pages of all processes up to then, faults on which copied nothing
};

class FaultAccount {
 public:
  // Ours since the last call of this or of end(); nothing while a replica lives.
  double settle(double now, const FaultMarks& marks);
  // Replicas that live at a time share them: each has those since the last event.
  void begin(double now, const FaultMarks& marks);
  double end(double now, const FaultMarks& marks);
  // There was none after begin().
  void failed() { alive_--; }
  // Ours, since the last of all these.
  double ours(double now, const FaultMarks& marks) const;
  // For a replica of so many pages, in all: the share of the last one, which says nothing of a
  // program that is several times as large now. One that lives has had `ours` up to now.
  double expected(uint64_t pages, double ours = 0) const;
  // Not where the program has several times the pages that the last one had, or there was none.
  bool resembles_last(uint64_t pages) const;

 private:
  double beyond_growth(const FaultMarks& marks) const;
  void pass(double now, const FaultMarks& marks, double ours);

  double rate_ = 0;        // of the program by itself, a second, beyond its growth
  size_t alive_ = 0;       // replicas between begin() and end()
  double unclaimed_ = 0;   // of those that live, and no end() has had
  double most_ours_ = 0;   // pages that both have had, and it has not written to since
  double last_ours_ = 0;   // of the last replica, up to now
  double last_pages_ = 0;  // that it had
  FaultMarks before_;      // at the last event
  double event_at_ = 0;
};

}  // namespace shadowprof::sample
