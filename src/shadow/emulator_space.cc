// SPDX-License-Identifier: MIT
#include "shadow/emulator_space.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string>

#include "ptrace/remote_syscall.h"

namespace shadowprof::shadow {
namespace {

std::string time_namespace_of(Tid process) {
  char target[PATH_MAX];
  const std::string link = fmt::format("/proc/{}/ns/time", process.value);
  const ssize_t size = ::readlink(link.c_str(), target, sizeof target);
  return size < 0 ? "" : std::string(target, static_cast<size_t>(size));
}

const std::vector<kernel::Mapping>& our_vvar() {
  static const std::vector<kernel::Mapping> mappings = [] {
    auto all = kernel::read_maps(Tid(::getpid())).value_or(std::vector<kernel::Mapping>{});
    std::erase_if(all, [](const kernel::Mapping& m) { return !m.is_vvar(); });
    return all;
  }();
  return mappings;
}

}  // namespace

// The page, or its copy elsewhere: then only a disk is waited for (proc_pid_pagemap(5)).
bool ProcessMemory::is_in_memory(uint64_t page) {
  constexpr uint64_t kPresent = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62;
  if (!page_map_.valid()) {
    const std::string path = fmt::format("/proc/{}/pagemap", memory_.tid().value);
    page_map_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  uint64_t entry = 0;
  const auto at = static_cast<off_t>(page * sizeof entry);
  return ::pread(page_map_.get(), &entry, sizeof entry, at) == sizeof entry &&
         (entry & (kPresent | kSwapped)) != 0;
}

size_t ProcessMemory::read_some(GuestAddr from, std::span<uint8_t> out) {
  if (missing_ == Missing::fetched || out.empty()) return memory_.read_some(from, out);
  const uint64_t end = from.value + out.size();
  uint64_t known = from.value;
  while (known < end && is_in_memory(known / limits::kPageBytes)) {
    known = std::min(end, (known / limits::kPageBytes + 1) * limits::kPageBytes);
  }
  return memory_.read_some(from, out.first(known - from.value));
}

EmulatorSpace::EmulatorSpace(trace::BlockTable& table)
    : table_(table), code_(Tid(), table), emulator_(table, code_) {
  code_.distrust_generated_code();
}

void EmulatorSpace::prepare(Tid process, const std::vector<kernel::Mapping>& mappings) {
  unwinder_.set_mappings(mappings);
  for (const GuestRange& range : code_.rebind(process, mappings)) emulator_.invalidate(range);
}

std::vector<machine::MemoryArea> memory_areas(Tid process,
                                              const std::vector<kernel::Mapping>& mappings) {
  static const std::string our_time = time_namespace_of(Tid(::getpid()));
  const bool same_time = time_namespace_of(process) == our_time;
  std::vector<machine::MemoryArea> areas;
  for (const kernel::Mapping& m : mappings) {
    machine::MemoryArea area{m.range, m.readable, m.writable, m.path == "[stack]", nullptr};
    if (m.is_vvar() && same_time) {
      const auto ours = std::find_if(our_vvar().begin(), our_vvar().end(),
                                     [&](const kernel::Mapping& o) { return o.path == m.path; });
      if (ours != our_vvar().end() && ours->range.size() == m.range.size()) {
        area.same_in_ours = reinterpret_cast<const uint8_t*>(ours->range.start.value);
      }
    }
    areas.push_back(area);
  }
  return areas;
}

}  // namespace shadowprof::shadow
