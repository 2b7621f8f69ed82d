// SPDX-License-Identifier: MIT
#include "probe/memory_use.h"

#include <unistd.h>

#include <algorithm>

#include "base/limits.h"
#include "base/reserved_memory.h"
#include "kernel/control_groups.h"
#include "kernel/proc.h"
#include "kernel/user_threads.h"

namespace shadowprof::probe {

uint64_t own_memory() {
  const auto pages = kernel::read_statm(Tid(::getpid()));
  return pages ? pages->resident * limits::kPageBytes : 0;
}

uint64_t page_tables_of(Tid process) {
  const auto status = kernel::read_status(process);
  return status ? status->page_tables : 0;
}

uint64_t anonymous_memory_of(Tid process) {
  const auto pages = kernel::read_statm(process);
  return pages ? (pages->resident - std::min(pages->resident, pages->of_files)) * limits::kPageBytes
               : 0;
}

uint64_t memory_of_faults(uint64_t faults) {
  return faults * limits::kPageBytes;
}

uint64_t faults_of(Tid process) {
  const auto stat = kernel::read_process_stat(process);
  return stat ? stat->minor_faults : 0;
}

std::optional<uint64_t> reused_pages() {
  const auto count = kernel::read_reused_pages();
  return count ? std::optional(*count) : std::nullopt;
}

bool memory_is_short(Tid program) {
  constexpr double kLeastShare = 0.05;
  constexpr double kLeastGroupShare = 0.1;
  const auto memory = kernel::read_meminfo();
  if (memory && memory->available != 0 &&
      static_cast<double>(memory->available) < kLeastShare * static_cast<double>(memory->total)) {
    return true;
  }
  const auto bound = kernel::memory_bound(program);
  return bound &&
         static_cast<double>(bound->left()) < kLeastGroupShare * static_cast<double>(bound->most);
}

bool may_be_promised_twice(Tid process) {
  if (!overcommit_is_forbidden()) return true;
  const auto memory = kernel::read_meminfo();
  const auto pages = kernel::read_statm(process);
  if (!memory || !pages || memory->committed > memory->commit_limit) return false;
  return pages->data * limits::kPageBytes <= (memory->commit_limit - memory->committed) / 2;
}

bool may_have_another_thread(Tid process) {
  constexpr uint64_t kLeft = 32;
  constexpr uint64_t kLeastShare =
      4;  // of a small bound, the share that is left: one part of so many
  const auto leaves_some = [&](const std::optional<kernel::Bound>& bound) {
    return !bound || bound->left() > std::min(kLeft, bound->most / kLeastShare);
  };
  return leaves_some(kernel::thread_bound(process)) &&
         leaves_some(kernel::user_thread_bound(process));
}

}  // namespace shadowprof::probe
