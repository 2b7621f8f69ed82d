// SPDX-License-Identifier: MIT
//
// One of the two profiles of a comparison: its places as keys that are the same in both, its counts
// on one scale. Shared by the files that compare tables.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profile/compare/diff.h"

namespace shadowprof::profile {

// The nearest count. A profile from elsewhere may have figures that no count can be.
inline uint64_t as_count(double figure) {
  constexpr double kMost_count = 9e18;
  return figure > 0 ? static_cast<uint64_t>(std::llround(std::min(figure, kMost_count))) : 0;
}

class Side {
 public:
  // A place in code: an offset where both ran the same file, else a function and line. A line of
  // the file that the function begins in counts from there: what was inserted above does not
  // matter.
  struct Key {
    uint32_t module = 0;
    bool exact = false;
    uint64_t where = 0;  // offset, or number of the function + 1 (0: none)
    bool relative = false;
    uint32_t line = 0;
    auto operator<=>(const Key&) const = default;
  };

  // `scale`: what a count of the profile is multiplied with.
  Side(const Profile& profile, const SourceKnowledge& source, const FunctionMatch& match,
       const std::vector<uint32_t>& modules, const std::vector<uint32_t>& functions, double scale)
      : p(profile),
        source_(source),
        match_(match),
        modules_(modules),
        functions_(functions),
        scale_(scale) {}

  uint64_t scaled(uint64_t count) const {
    if (scale_ == 1) return count;
    return as_count(static_cast<double>(count) * scale_);
  }
  double scaled_error(double error) const { return error * scale_; }

  uint32_t number_of(size_t function) const { return functions_[function]; }
  // The number of the function that contains the place; kNoFunction where none does.
  uint32_t function_number(CodeRef at) const;
  uint32_t module_number(size_t module) const { return modules_[module]; }
  Key key(CodeRef at) const;
  // The same for all of a function. Code without a name has its offset under one build-id; other
  // modules' is all the same.
  Key function_key(CodeRef at) const;
  Place place(CodeRef at) const;

  const Profile& p;

 private:
  SourceLine line(CodeRef at) const;

  const SourceKnowledge& source_;
  const FunctionMatch& match_;
  const std::vector<uint32_t>& modules_;
  const std::vector<uint32_t>& functions_;
  double scale_;
};

// The error of a difference. Rows of one profile are met by the same samples, so their errors add
// up to no more than their sum; those of two profiles have nothing to do with each other.
class ChangeError {
 public:
  void add(const Side& side, double error, const Side& base) {
    (&side == &base ? base_ : now_) += side.scaled_error(error);
  }
  double of_difference() const { return std::hypot(base_, now_); }

 private:
  double base_ = 0;
  double now_ = 0;
};

inline uint64_t magnitude(int64_t delta) {
  return delta < 0 ? uint64_t{0} - static_cast<uint64_t>(delta) : static_cast<uint64_t>(delta);
}

// The largest effect first.
template <typename Row, typename Key, typename Effect>
std::vector<Row> ranked(std::map<Key, Row>&& all, Effect effect) {
  std::vector<std::pair<uint64_t, Row>> rows;
  for (auto& [key, row] : all) rows.emplace_back(effect(row), std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Row> result;
  for (auto& [e, row] : rows) result.push_back(std::move(row));
  return result;
}

// diff_inlined.cc. Functions of modules of which both profiles know what was inlined.
bool knows_inlining(const Profile& profile);
std::vector<InlinedChange> compare_inlined(const Side& base, const Side& now);

// diff_contexts.cc
ContextChanges compare_contexts(const Side& base, const Side& now);

// diff_hotlists.cc. Empty where one of the profiles has no such table.
std::vector<PathChange> compare_paths(const Side& base, const Side& now);
std::vector<ValueChange> compare_values(const Side& base, const Side& now);
std::vector<LoadChange> compare_loads(const Side& base, const Side& now);

}  // namespace shadowprof::profile
