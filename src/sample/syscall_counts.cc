// SPDX-License-Identifier: MIT
#include "sample/syscall_counts.h"

#include <fmt/format.h>

#include <string>

#include "kernel/table.h"

namespace shadowprof::sample {
namespace {

std::string name_of(unsigned nr) {
  const kernel::SyscallRow* row = kernel::find_syscall(nr);
  return row ? std::string(row->name) : fmt::format("syscall_{}", nr);
}

}  // namespace

void fill_syscalls(const std::map<unsigned, uint64_t>& made,
                   const std::map<unsigned, uint64_t>& ended, profile::Syscalls& syscalls) {
  for (const auto& [nr, count] : made) {
    const kernel::SyscallRow* row = kernel::find_syscall(nr);
    syscalls.by_name[name_of(nr)].count += count;
    syscalls.by_class[row ? std::string(to_string(row->syscall_class)) : "unsafe"] += count;
  }
  for (const auto& [nr, count] : ended) syscalls.by_name[name_of(nr)].ended += count;
}

}  // namespace shadowprof::sample
