// SPDX-License-Identifier: MIT
#include "shadow/emulator_space.h"

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

EmulatorSpace::EmulatorSpace(trace::BlockTable& table)
    : table_(table), code_(Tid(), table), emulator_(table, code_) {
  code_.distrust_generated_code();
  for (auto& buffer : buffers_) buffer.resize(limits::kTraceBufferBytes / sizeof(trace::Word));
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
