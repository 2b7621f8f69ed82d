// SPDX-License-Identifier: MIT
//
// The files of `attach --every`: a profile of each interval, and what becomes of the old ones.
//
// A file is named as the output is, with the moment at which its interval began (UTC, to the
// second) before the suffix, so that names are in the order of time:
//
//   -o app.json      app.20261126T155939Z.json
//   -o app.json.gz   app.20261126T155939Z.json.gz
//   -o app           app.20261126T155939Z
//
// Where a clock that was put back would name two intervals alike, the later one gets the next
// second that is free. Nothing else is kept anywhere: what is there is in the names, so a run that
// comes after this one goes on with the same series.
//
// Removed is what has such a name, is a regular file and one of our profiles, and nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shadowprof::sample {

class ProfileSeries {
 public:
  // `output` as it was given; `keep`: how many files at most, 0: all.
  ProfileSeries(const std::string& output, size_t keep);

  // The file of an interval that began then: "2026-11-26T15:59:39Z", as profiles have it.
  std::string file_for(std::string_view began) const;
  // The last path component is a name that file_for() has made.
  bool is_named_so(std::string_view name) const;
  // All files of the series, the oldest first.
  std::vector<std::string> files() const;
  // Removes the oldest ones beyond `keep`.
  void remove_old() const;

 private:
  std::string folder_;  // with its slash; "": the working directory
  std::string stem_;    // with its full stop
  std::string suffix_;
  size_t keep_;
};

}  // namespace shadowprof::sample
