// SPDX-License-Identifier: MIT
//
// Which files may be read as source. A program's debug information names them, so whoever made the
// program chooses: "/etc/shadow" is as good a name as any. A file is read
//
// - below a folder that the user of this command named or works in, whoever may read it, as long as
//   no link leads out of that folder;
// - elsewhere, if all who had a say in its name may read it themselves: the owners of the program's
//   files and of the profile, and the user that the program ran as. Root's files that only root may
//   read are not shown to root by this rule.
//
// What is no regular file (a FIFO, a device) is never even opened.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "profile/profile.h"

namespace shadowprof::report {

struct SourceRules {
  std::vector<uid_t> users;            // each of them must be able to read a file; none: as we may
  std::vector<std::string> roots;      // absolute; where files are read whoever may
  std::string relative_to;             // for names that are not absolute; "": these are no files
};

// `source_root`: what --source-root says; "" is nothing. The working directory counts as a root,
// too, unless it is "/".
Result<SourceRules> source_rules(const profile::Profile& profile, const std::string& profile_path,
                                 const std::string& source_root);

// Ready for reading. An error without errno: the rules forbid it.
Result<UniqueFd> open_source(const std::string& path, const SourceRules& rules);

}  // namespace shadowprof::report
