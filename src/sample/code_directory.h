// SPDX-License-Identifier: MIT
//
// Lists of code that earlier runs have seen to run (code_list.h), in a directory (--cache): one
// file for each program, processor, version of ours and profile.
//
//   addresses()   what is known of the files that a program has mapped now
//   store()       what this run has seen, added to it
//
// A file that cannot be used is as good as none; one sentence of warnings() says so. Files appear
// whole: of two runs that end at the same time the later one's stays.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "kernel/proc.h"
#include "profile/profile.h"
#include "sample/code_list.h"
#include "trace/block_table.h"

namespace shadowprof::sample {

class CodeDirectory {
 public:
  // `conditions`: what else must be the same, a line each, beside the program.
  CodeDirectory(std::string path, std::string conditions)
      : path_(std::move(path)), conditions_(std::move(conditions)) {}

  // Places of a process's mapped files, but for those mapped at one of `done`, which grows.
  std::vector<GuestAddr> addresses(Tid process, const std::vector<kernel::Mapping>& mappings,
                                   std::set<GuestAddr>& done);
  // What of `table` the profile says was executed, for all programs that were asked about.
  void store(const trace::BlockTable& table, const profile::Profile& profile);

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  using File = std::tuple<std::string, uint64_t, uint64_t>;  // path, inode, device

  const std::string& identity(Tid process, const kernel::Mapping& mapping);
  std::string conditions_for(const std::string& program) const;
  std::string file_for(const std::string& conditions) const;
  const CodeList& list_of(const std::string& program);
  CodeList executed(const trace::BlockTable& table, const profile::Profile& profile) const;

  std::string path_;
  std::string conditions_;
  std::map<File, std::string> identities_;  // empty: it has none
  std::map<std::string, CodeList> lists_;   // by program
  std::vector<std::string> warnings_;
};

}  // namespace shadowprof::sample
