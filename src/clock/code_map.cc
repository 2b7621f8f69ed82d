// SPDX-License-Identifier: MIT
#include "clock/code_map.h"

#include <utility>

namespace shadowprof::clock {
namespace {

constexpr std::string_view kOwnCode = "/memfd:shadowprof-";

// As the engines' modules are named, so that both name code alike (cache/guest_code.cc).
profile::Module module_of(const kernel::Mapping& m) {
  profile::Module module;
  module.path = m.path;
  module.inode = m.inode;
  module.device = m.device();
  if (m.inode != 0)
    module.address = m.file_start().value;
  else if (!m.path.empty())
    module.address = m.range.start.value;
  return module;
}

}  // namespace

void CodeMap::add(const kernel::Mapping& mapping, profile::ModuleTable& modules) {
  if (!mapping.executable || mapping.range.size() == 0) return;
  const GuestRange range = mapping.range;
  auto at = regions_.upper_bound(range.start);
  if (at != regions_.begin() && std::prev(at)->second.end > range.start) --at;
  while (at != regions_.end() && at->first < range.end) {
    const auto [start, old] = *at;
    at = regions_.erase(at);
    if (start < range.start)
      regions_.emplace(start, Region{range.start, old.module, old.start_of_file});
    if (old.end > range.end) regions_.emplace(range.end, old);
  }
  if (mapping.path.starts_with(kOwnCode)) return;
  const profile::Module module = module_of(mapping);
  const uint32_t index = profile::find_or_add_module(modules, module);
  regions_.emplace(range.start, Region{range.end, index, module.address});
}

std::optional<profile::CodeRef> CodeMap::find(GuestAddr at) const {
  auto after = regions_.upper_bound(at);
  if (after == regions_.begin()) return std::nullopt;
  const Region& region = std::prev(after)->second;
  if (at >= region.end) return std::nullopt;
  return profile::CodeRef{region.module, at.value - region.start_of_file};
}

}  // namespace shadowprof::clock
