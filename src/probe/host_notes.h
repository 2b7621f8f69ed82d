// SPDX-License-Identifier: MIT
//
// Numbers that were measured of this host, kept until it is started again, so that a run need not
// measure them anew: a small file for each kind below $XDG_CACHE_HOME/shadowprof, or
// ~/.cache/shadowprof.
//
// A file says of which host it is: the boot's id, processor, kernel, number of cores, version of
// ours. One that says anything else, is not ours alone to write to, or is not whole, is as good as
// none. Nobody is told: what cannot be kept is measured again. Files appear whole, and only their
// owner may read them. A folder that somebody else owns is left alone: root writes to no other
// user's home.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace shadowprof::probe {

class HostNotes {
 public:
  // In the user's cache folder.
  HostNotes();
  // In that folder, which is made. `identity`: a line or more.
  HostNotes(const std::string& folder, std::string identity);

  // Finite numbers; empty: nothing is known. Names are those of files.
  std::vector<double> load(std::string_view name) const;
  void store(std::string_view name, std::span<const double> numbers) const;

 private:
  UniqueFd folder_;
  std::string identity_;
};

}  // namespace shadowprof::probe
