// SPDX-License-Identifier: MIT
//
// The constants of the plan. Shares are shares of the budget (--max-overhead) unless their comment
// says of what. Whoever changes one looks at tests/plan/plan_table before and after.
#pragma once

#include <cstdint>

namespace shadowprof::plan {

// --- the budget
// So many seconds' budget may be spent in advance, by a step that costs no more than that.
inline constexpr double kLoan_s = 10;
// A fork that the loan is for, but not the first beside an idle core, spends so many times what the
// budget has given. A second one spends as much once more, where the first was dear because the
// program was starting up.
inline constexpr double kMostOfBudgetRatio = 2;
// Forks and bursts together. The kind that says more for its price gets more of it, but either gets
// this much of both's part, or nobody would know its variance.
inline constexpr double kSamplesShare = 0.7;
inline constexpr double kLeastKindShare = 0.2;
// Stops of the program that spare a replica something, either kind: looks at where the program is,
// and probes that tell whether its core is the replica's, too.
inline constexpr double kPeekShare = 0.05;
// Looks without which there would be no sample, or a dear one: those that find the program
// elsewhere than samples are to begin, until one finds it there, and those of burst mode, where
// code that is new costs the program itself.
inline constexpr double kLookShare = 0.5;
// The clock of the program's processor time (sample/time_watch.h).
inline constexpr double kClockShare = 0.2;
static_assert(kSamplesShare + 2 * kPeekShare + kClockShare <= 1 + 1e-9);
static_assert(kPeekShare < kLookShare);
static_assert(2 * kLeastKindShare <= 1);
// A replica lasts where a busy core costs its neighbours no more than this.
inline constexpr double kBusyCoreShare = 0.8;

// --- when
// A program is loaded by then, mostly.
inline constexpr double kFirstFork_s = 0.02;
// Until then it may still be writing to all of its memory, which it later only reads.
inline constexpr double kStartUp_s = 0.1;
static_assert(kFirstFork_s < kStartUp_s);
// Peeks, and tries while the program sleeps, are so far apart at first, and then less and less
// often.
inline constexpr double kSoon_s = 0.005;
inline constexpr double kGrowthRatio = 1.5;
inline constexpr double kLongestPeekGap_s = 1;
inline constexpr double kLongestRetry_s = 0.25;
// A program that runs, or is where samples are to begin, for so long is to be met. One that sleeps
// now and then is tried no less often than that, which costs it nothing; looks that find it
// elsewhere cost it something, and are so far apart, or further.
inline constexpr double kToBeMet_s = 0.02;
static_assert(kSoon_s < kToBeMet_s && kToBeMet_s < kLongestRetry_s);
static_assert(kSoon_s < kFirstFork_s && kFirstFork_s < kLongestRetry_s);
// Samples within this time of the program are one observation: bursts are not closer together.
inline constexpr double kObservation_s = 0.1;
// The longest time of the program without a sample, where bursts can be taken: so long, or until
// kLeastKindShare of the budget has paid for one. There are none while a replica lives, so one that
// cannot follow its program lives for no longer.
inline constexpr double kLongestGap_s = 2;
static_assert(kLongestGap_s > 2 * kObservation_s);

// --- a replica's first sample
inline constexpr double kFirstLength_s = 0.001;
inline constexpr double kGreatestLength_s = 0.02;
// Its length may cost this share of what the sample costs however short it is.
inline constexpr double kGrowingShare = 0.25;
// A sample for more time than others is so many times as long, at most; one for less time shorter.
// So samples that still say the same are so many times as far apart, at most (convergence.h).
inline constexpr double kMostPartsRatio = 4;

// --- a replica's later samples
// They are so long, as are the shortest of all first ones; but where forks are cheap and the
// replica is to be replaced soon, it gives more moments.
inline constexpr double kSample_s = 0.0005;
inline constexpr double kSampleOfCheapFork_s = 0.0002;
static_assert(kSampleOfCheapFork_s < kSample_s && kSample_s < kFirstLength_s);
// Between two of them it executes natively for at least, and at most, so long. On its program's
// core it rests for no longer, and asks again.
inline constexpr double kLeastBetween_s = 0.003;
inline constexpr double kLongestBetween_s = 0.08;
// One that cannot follow its program executes natively for this share of what it records.
inline constexpr double kBetweenShare = 0.25;
// One that follows may lose this share of its lifetime.
inline constexpr double kMayLoseShare = 0.2;
// What a step costs, or recording takes, is the mean of a few; what a replica loses, of many.
inline constexpr uint64_t kRemembered = 12;
inline constexpr uint64_t kRememberedLosses = 200;

// --- a replica's end
// None costs more than this time's budget, or its fork, or what is left of the budget.
inline constexpr double kCostsBudgetOf_s = 1;
// One that follows is so far behind before another takes its place: seconds, or a share of the run.
// It rests for no longer before it asks again.
inline constexpr double kLeastBehind_s = 0.15;
inline constexpr double kBehindShare = 0.05;
// One that is so far behind, a share of the run, lags: bursts are taken beside it. So many seconds
// behind it ends, though the budget pays for no other.
inline constexpr double kLagsShare = 0.3;
inline constexpr double kLostTrack_s = 30;
static_assert(kBehindShare < kMayLoseShare && kMayLoseShare < kLagsShare);
static_assert(kLongestGap_s < kLostTrack_s);
// Forks in the place of others are for this part of the budget. Where it pays for one within this
// share of the run (or within kLongestGap_s), forks are cheap. The caches that both use may cost
// the rest then, and kSamplesShare where forks are dear.
inline constexpr double kForksShare = 0.5;
inline constexpr double kCheapWithinShare = 0.2;
static_assert(1 - kForksShare < kSamplesShare);

// --- is there a core? (crowding.h) Shares of its life that a replica waited for one.
inline constexpr double kCrowdedShare = 0.7;
inline constexpr double kRoomyShare = 0.2;
static_assert(kRoomyShare < kCrowdedShare);
// So many looks, so far apart, find each core busy where none is to be had.
inline constexpr unsigned kLooksForCore = 4;
inline constexpr double kBetweenLooksForCore_s = 0.002;

}  // namespace shadowprof::plan
