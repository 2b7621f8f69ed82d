// SPDX-License-Identifier: MIT
#include "base/elapsed.h"
#include "emu/translate/fragment_finder.h"

#include <algorithm>
#include <chrono>

namespace shadowprof::emu {
namespace {

constexpr size_t kMostLookedAt = 512;

// Adds the time of its life.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() {
    sum_ += seconds_since(start_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace

std::optional<FragmentId> FragmentFinder::find(GuestAddr pc, std::optional<RunId> site) {
  if (const Fragment* known = cache_.find(pc)) return cache_.id_of(*known);
  const Stopwatch watch(cost_.seconds);
  const auto id = translate(pc, site);
  if (id && !translate_foreseen(*id)) translate_following(*id);
  return id;
}

BlockId FragmentFinder::first_block(FragmentId id) const {
  return table_.run(cache_.fragment(id).longest_run).first_block;
}

// False: nothing is known of what comes behind it.
bool FragmentFinder::translate_foreseen(FragmentId id) {
  if (foresight_ == nullptr || cache_.fragment(id).checks_itself) return false;
  const auto found = foresight_->find(table_.block(first_block(id)));
  if (!found) return false;
  const size_t end = std::min(foresight_->size(), *found + 1 + kMostLookedAt);
  const size_t most = foresight_->take_reach();
  size_t made = 0;
  for (size_t i = *found + 1; i < end && made < most; i++) {
    const auto place = foresight_->place(i);
    if (const auto later = i + 1 < end ? foresight_->place(i + 1) : std::nullopt)
      cache_.expect(later->address);
    if (!place || cache_.find(place->address)) continue;
    const auto next = translate_ahead(place->address, std::nullopt);
    if (!next) continue;
    made++;
    if (!place->by_branch) continue;
    // When counting, an entry would take who branches there.
    if (has_counts(cache_.recording()))
      cache_.add_open_entry(*next, first_block(*next));
    else
      (void)cache_.add_entry(*next, {});
  }
  return true;
}

void FragmentFinder::look_ahead(FragmentId id) {
  const Stopwatch watch(cost_.seconds);
  following_.clear();
  translate_successors(id);
}

std::optional<FragmentId> FragmentFinder::translate(GuestAddr pc, std::optional<RunId> site) {
  auto made = translator_.translate(pc, site, plan_);
  if (made.outcome == Translator::Outcome::cache_full && make_room_) {
    make_room_();
    made = translator_.translate(pc, site, plan_);
    SP_CHECK(made.outcome != Translator::Outcome::cache_full, "an empty cache has no room");
  }
  return take(made);
}

std::optional<FragmentId> FragmentFinder::translate_ahead(GuestAddr pc, std::optional<RunId> site) {
  return take(translator_.translate(pc, site, plan_));
}

std::optional<FragmentId> FragmentFinder::take(const Translator::Translation& made) {
  if (made.outcome != Translator::Outcome::translated) return std::nullopt;
  cost_.fragments++;
  return made.fragment;
}

// One level after the other: what is near first.
void FragmentFinder::translate_following(FragmentId id) {
  following_.assign(1, id);
  for (size_t i = 0; i < following_.size() && following_.size() <= least_ahead_; i++)
    translate_successors(following_[i]);
}

void FragmentFinder::translate_successors(FragmentId id) {
  const Fragment f = cache_.fragment(id);
  if (f.kind != FragmentKind::translated) return;
  for (uint32_t i = f.first_exit; i < f.first_exit + f.exit_count; i++)
    (void)translate_following_at(cache_.exit(i).target, std::nullopt);
  for (const BlockId block_id : table_.blocks(table_.run(f.longest_run)))
    translate_return_to(table_.block(block_id));
}

// Behind a call, or a system call: the gateway goes on by an indirect branch, and so does a return,
// which has an entry of its own for each pair when pairs are counted.
void FragmentFinder::translate_return_to(const trace::Block& caller) {
  const bool system_call = caller.terminator == trace::Terminator::syscall;
  const bool call = caller.terminator == trace::Terminator::call ||
                    caller.terminator == trace::Terminator::indirect_call;
  if (!system_call && !call) return;
  const auto next = translate_following_at(caller.end, kAnySite);
  if (!next) return;
  if (system_call || !has_counts(cache_.recording())) (void)cache_.add_entry(*next, {});
  if (call) cache_.add_open_entry(*next, first_block(*next));
}

// What is there already was followed when it was made.
std::optional<FragmentId> FragmentFinder::translate_following_at(GuestAddr pc,
                                                                 std::optional<RunId> site) {
  if (const Fragment* known = cache_.find(pc)) return cache_.id_of(*known);
  const auto made = translate_ahead(pc, site);
  if (made) following_.push_back(*made);
  return made;
}

}  // namespace shadowprof::emu
