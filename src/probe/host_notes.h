// SPDX-License-Identifier: MIT
//
// Numbers that were measured of this host, kept until it is started again, so that a run need not
// measure them anew: a small file for each kind in the user's folder (base/cache_folder.h).
//
// A file says of which host it is: the boot's id, processor, kernel, number of cores, version of
// ours. One that says anything else, or is not whole, is as good as none.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/cache_folder.h"

namespace shadowprof::probe {

class HostNotes {
 public:
  // In the user's cache folder.
  HostNotes();
  // In that folder, which is made. `identity`: a line or more.
  HostNotes(const std::string& folder, std::string identity);

  // Finite numbers; empty: nothing is known. Names are those of files.
  std::vector<double> load(const std::string& name) const;
  void store(const std::string& name, std::span<const double> numbers) const;
  // False: what is stored is gone.
  bool keep() const { return folder_.valid(); }

 private:
  CacheFolder folder_;
  std::string identity_;
};

}  // namespace shadowprof::probe
