// SPDX-License-Identifier: MIT
//
// What a profile suggests to look at first: one sentence each, ranked by the share of the program's
// time that is at stake. That is no promise of what can be saved, only where it would be. Where
// the profile has no processor time it is the share of cycles, one for each instruction and those
// that loads lose: natively loads overlap, and find more in caches that fewer others share.
//
//   load      lost cycles, if caches miss; those of a function's loads together no more than the
//             time in which it does not execute as fast as it can
//   argument  the callee's time, in the share of its calls that pass the value; with functions that
//             only the callee calls, once in each call
//   value     the instruction's own cycles; a division's are many
//   call      through a pointer that has one target: what the pointer costs
//   branch    that skips code nearly always: what it costs to go on elsewhere
//   waste     a load or store that nobody needs: its instruction
//   loop      the time of what a function calls many times in each of its calls
//   slow      a function's time, if each of its instructions takes long and no load of it says why
//   sharing   of a cache line by threads: what it takes to come from another core, for as often as
//             it can have come
//   kernel    the kernel's time for a function
//   waiting   the time for which the first thread wanted no processor, and no other worked
//
// What is at stake in a function is no more than the clock has seen of it, however much samples say
// that were taken when it was at work.
//
// What is not certain, or is an address of this run, is no lead. Certain is what is at stake: of a
// load whose cycles are not known well, the least that they can be.
//
// But one load that may have much at stake is named behind the others: it is slow in samples, and
// what they began with, caches of another core, may be all that it is slow by.
//
// Leads are looked for in the profile's tables, whatever its hotlists leave out. Where these do not
// have a place's line, or a value's instruction, the program's files may have it: `files`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "profile/profile.h"
#include "symbols/module_set.h"

namespace shadowprof::report {

struct Lead {
  double stake = 0;                  // of the program's time; more than 1 is possible for waiting
  std::optional<profile::Place> at;  // nothing, for the program as a whole
  std::string text;                  // what is the matter there, and what could be done; printable
  bool is_maybe = false;             // nothing may be at stake, or as much as `stake`
};

inline constexpr double kLeastStakeShare = 0.01;
// "77.6 % of the time are at stake: walk chase.c:4: the load takes ..."
std::string sentence_of(const Lead& lead, const profile::Profile& profile);
// "time" or "cycles": what stakes are shares of.
const char* unit_of_stakes(const profile::Profile& profile);
// The best `limit` of them, with at least kLeastStakeShare at stake.
std::vector<Lead> find_leads(const profile::Profile& profile, size_t limit,
                             const symbols::ModuleSet* files = nullptr);

// That others had the processors for much of the time, which the program can do nothing about: one
// sentence without a full stop.
std::optional<std::string> told_of_busy_host(const profile::Profile& profile);

}  // namespace shadowprof::report
