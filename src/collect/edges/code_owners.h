// SPDX-License-Identifier: MIT
//
// Which function the code at an address belongs to, as far as calls have shown. There are no
// symbols here: a call instruction belongs to the function whose activation was on top when it was
// executed, and so does the place behind it, where the call returns to.
//
//   owner      a function that was seen to be called, by its first block; or an anonymous one, of
//              which only places are known, as a sample has begun within it. An anonymous one
//              turns out to be another when a place of both is met.
//
// Where code is shared by functions, or a jump to a function was taken for one within another, the
// last one that was seen is believed.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/limits.h"

namespace shadowprof::collect {

class CodeOwners {
 public:
  using Owner = uint32_t;
  using Place = uint32_t;
  static constexpr Owner kNobody = 0;  // not known

  static Owner called(uint32_t block) { return block + 1; }

  // The number of a place, which it keeps.
  Place place(uint64_t address) {
    return places_.try_emplace(address, static_cast<Place>(places_.size())).first->second;
  }
  // One that calls return to.
  Place place_behind_call(uint64_t address) {
    const Place its = place(address);
    if (its >= behind_calls_.size()) behind_calls_.resize(its + 1);
    behind_calls_[its] = true;
    return its;
  }
  bool is_behind_call(uint64_t address) const {
    const auto its = places_.find(address);
    return its != places_.end() && its->second < behind_calls_.size() && behind_calls_[its->second];
  }
  Owner owner(Place place) const { return place < owners_.size() ? last(owners_[place]) : kNobody; }
  // The anonymous one's, if nothing else is known.
  Owner owner_at(uint64_t address) {
    const Place its = place(address);
    if (owner(its) == kNobody) {
      set(its, kFirstAnonymous + static_cast<Owner>(same_as_.size()));
      same_as_.push_back(kNobody);
    }
    return owner(its);
  }
  // It was executed by an activation of this one. Returns who that is.
  Owner learn(Place place, Owner owner) {
    const Owner known = this->owner(place), now = last(owner);
    if (known == now || (known != kNobody && is_anonymous(now))) {
      if (known != now) same_as_[now - kFirstAnonymous] = known;
      return known;
    }
    if (is_anonymous(known)) same_as_[known - kFirstAnonymous] = now;
    set(place, now);
    return now;
  }
  // Whether two that were returned at any time are one.
  bool are_one(Owner a, Owner b) const { return last(a) == last(b); }

 private:
  static constexpr Owner kFirstAnonymous = limits::kMaxBlocks + 1;

  static bool is_anonymous(Owner owner) { return owner >= kFirstAnonymous; }
  Owner last(Owner owner) const {
    while (is_anonymous(owner) && same_as_[owner - kFirstAnonymous] != kNobody)
      owner = same_as_[owner - kFirstAnonymous];
    return owner;
  }
  void set(Place place, Owner owner) {
    if (place >= owners_.size()) owners_.resize(place + 1, kNobody);
    owners_[place] = owner;
  }

  std::unordered_map<uint64_t, Place> places_;
  std::vector<Owner> owners_;       // by place
  std::vector<bool> behind_calls_;  // likewise
  std::vector<Owner> same_as_;  // of the anonymous ones: who they have turned out to be
};

}  // namespace shadowprof::collect
