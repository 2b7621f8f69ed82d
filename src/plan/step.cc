// SPDX-License-Identifier: MIT
#include "plan/step.h"

#include <array>

namespace shadowprof::plan {
namespace {

struct Row {
  const char* name;      // in the profile
  const char* sentence;  // of `run -v`
};

// In the order of Why.
constexpr std::array<Row, kWhys> kRows = {{
    {"fork_first", "the first replica"},
    {"fork_best_bargain", "a replica: the budget pays for it, and it says most for its price"},
    {"fork_asked_for", "a replica: so many a second were asked for"},
    {"fork_in_its_place", "a replica in the place of one that fell behind the program"},
    {"burst_better_bargain", "a burst: it says more for its price than a replica"},
    {"burst_fork_too_dear", "a burst: the budget does not pay for a replica yet"},
    {"burst_no_fork", "a burst: the program cannot be forked"},
    {"burst_long_unseen", "a burst: the program has not been seen for long"},
    {"peek_new_code", "a look at where the program is, to translate its code ahead"},
    {"go_on_follows", "the replica goes on: it follows the program"},
    {"go_on_cheap_forks", "the replica goes on until another one is paid for"},
    {"go_on_short_life", "the replica goes on for a while"},
    {"rest_spares_cache", "the replica rests: the program needs the caches that both use"},
    {"rest_shares_core", "the replica rests: it runs on the program's core"},
    {"rest_busy_core", "the replica rests until it is known what a busy core costs the program"},
    {"end_far_behind", "the replica ends: it is far behind, and another one is paid for"},
    {"end_lost_track", "the replica ends: it is too far behind to follow the program"},
    {"end_too_dear", "the replica ends: the program copies too many pages for it"},
    {"end_lived_enough", "the replica ends: it has lived for its share of the time"},
    {"end_obsolete", "the replica ends: its program, its core or its memory is gone"},
    {"wait_budget_spent", "nothing: the budget is spent"},
    {"wait_tries_again", "nothing: the program sleeps, or could not be sampled just now"},
    {"wait_replicas_run", "nothing: as many replicas run as may"},
}};

}  // namespace

const char* name_of(Why why) {
  return kRows[static_cast<size_t>(why)].name;
}
const char* sentence_of(Why why) {
  return kRows[static_cast<size_t>(why)].sentence;
}

}  // namespace shadowprof::plan
