// SPDX-License-Identifier: MIT
//
// What this host lets us do, found out by doing it: a container's system call filter, a security
// module or an old kernel cannot be told from a version number. Each probe starts a child of its
// own where it needs a process, and leaves nothing behind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shadowprof::kernel {

struct Feature {
  std::string_view name;     // short and stable: "ptrace", "process_vm_readv", ...
  std::string_view purpose;  // what we need it for
  std::string_view without{};  // how things go on without it; empty: nothing does
  bool works = false;
  std::string problem{};  // where it does not work: one sentence, what failed and what helps
};

Feature probe_proc();
Feature probe_ptrace();
Feature probe_syscall_info();
Feature probe_signal_mask();
Feature probe_process_vm_readv();
Feature probe_memfd();

// All of them, in the order above.
std::vector<Feature> probe_features();

}  // namespace shadowprof::kernel
