// SPDX-License-Identifier: MIT
//
// Who tells where programs spend processor time while they are sampled: the kernel's clock
// (clock_windows.h), or looks at their threads (time_looks.h). Both give ticks to a TimeAccount,
// and nobody else knows which of them it is.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "sample/program_schedule.h"

namespace shadowprof::sample {

class TimeSource {
 public:
  virtual ~TimeSource() = default;

  virtual const char* name() const = 0;      // as in the profile
  virtual bool sees_kernel() const = 0;      // its ticks are the kernel's work, too
  virtual bool has_equal_ticks() const = 0;  // each stands for as much time, about
  virtual uint64_t lost() const { return 0; }  // ticks that could not be kept

  // A program that is sampled from now on. An Error: it is not watched, or not all of it.
  virtual Status begin(Tid process, double now) = 0;
  // It has ended: its number may be another process's.
  virtual void forget(Tid process) = 0;
  // When look() is to be called again.
  virtual double next() const = 0;
  virtual void look(double now) = 0;
  // Nothing more is to come.
  virtual void end(double now) = 0;
  // Seconds that the programs are thought to have lost since the last call.
  virtual double take_cost() = 0;

  // The share of the programs' time that it may take from now on.
  virtual void set_budget(double share) = 0;

  // That of the program that was given first.
  virtual const ProgramSchedule& schedule() const = 0;
};

}  // namespace shadowprof::sample
