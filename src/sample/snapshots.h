// SPDX-License-Identifier: MIT
//
// Profiles of a run that goes on, made by a copy of the process that samples (own_copy.h). Who
// wants one:
//
//   a view     shadowprof top: a file each interval
//   a dump     SIGUSR2, shadowprof ctl PID dump: the file that the run writes at its end
//   a look     --until-error: how exactly functions are known by now, in no file
//
// One copy serves all that are due. There is one at a time: who comes meanwhile waits for the next.
// A file is written under another name and renamed, so whoever reads it finds a whole profile.
//
// Looks come when the error may be small enough, if it falls as the square root of the time: at
// least 1.1 times as late as the one before, and so rarely that copies take kLookShare of a
// processor at most. So sampling ends somewhat later than it could, never sooner.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "profile/precision.h"
#include "profile/profile.h"
#include "sample/own_copy.h"

namespace shadowprof::sample {

// What a run wants of them.
struct SnapshotWishes {
  std::string dump_file;   // "": none
  double until_error = 0;  // a share; 0: none
};

class Snapshots {
 public:
  // A view: all runs of this process serve it from now on.
  static void ask_for(std::string file, double interval_s);

  explicit Snapshots(SnapshotWishes wishes) : wishes_(std::move(wishes)) {}

  // Its number, from 1 on; those who want one before it is begun have the same. An Error: there is
  // no file for one. Dumps are a second apart: what comes sooner waits.
  Result<uint64_t> want_dump();
  // Is that file there? An Error: it could not be written.
  Result<bool> has_dumped(uint64_t number) const;
  // The same for who has no answer.
  void want_dump_or_warn();
  // `now`: seconds since sampling began. Takes what the last copy has found, and says what became
  // of a dump.
  bool is_due(double now);
  // `make` is called in a copy of this process: the profile up to now.
  void take(double now, collect::Pipeline& pipeline,
            const std::function<profile::Profile&()>& make);
  // Functions are known as exactly as was asked for, and that is it.
  const std::optional<profile::UntilError>& enough() const { return enough_; }
  // The clock begins at 0 again, for a run with the same programs.
  void begin_again() { next_view_s_ = next_look_s_ = next_dump_s_ = 0; }
  // No copy writes to the run's file after this.
  void settle();

 private:
  void take_news(double now, double most_s);
  void take_look(double now, const std::optional<profile::Precision>& found);
  void end_dump(const std::string& why_not);  // "": the file is there
  bool wants_dump(double now) const { return wants_dump_ && now >= next_dump_s_; }
  bool wants_view(double now) const;
  bool wants_look(double now) const;

  SnapshotWishes wishes_;
  OwnCopy copy_;
  bool wants_dump_ = false;
  bool dumps_ = false;  // the copy that is at work
  uint64_t dumps_begun_ = 0;
  uint64_t dumps_ended_ = 0;
  std::string last_failure_;  // "": the last one that has ended is there
  bool looks_ = false;
  double taken_s_ = 0;  // when it was made
  double next_view_s_ = 0;
  double next_look_s_ = 0;
  double next_dump_s_ = 0;
  std::optional<profile::UntilError> enough_;
};

}  // namespace shadowprof::sample
