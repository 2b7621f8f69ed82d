// SPDX-License-Identifier: MIT
#include "inject/guest_code.h"

#include <algorithm>

#include "base/log.h"

namespace shadowprof::inject {

emu::CodeRegion GuestCode::region(GuestAddr address) {
  if (stale_) refresh();
  const emu::CodeRegion* found = find(address);
  return found ? *found : emu::CodeRegion{};
}

const emu::CodeRegion* GuestCode::find(GuestAddr address) const {
  const auto it = std::upper_bound(
      regions_.begin(), regions_.end(), address,
      [](GuestAddr a, const emu::CodeRegion& r) { return a < r.range.end; });
  return it != regions_.end() && it->range.contains(address) ? &*it : nullptr;
}

bool GuestCode::has_code(GuestRange range) {
  if (stale_) refresh();
  const auto it = std::upper_bound(
      regions_.begin(), regions_.end(), range.start,
      [](GuestAddr a, const emu::CodeRegion& r) { return a < r.range.end; });
  return it != regions_.end() && it->range.overlaps(range);
}

void GuestCode::refresh() {
  auto mappings = kernel::read_maps(process_);
  if (!mappings) {
    detail("{}", mappings.error().message);
    return;  // the process is dying; what is known stays
  }
  regions_.clear();
  for (const kernel::Mapping& m : *mappings) {
    if (!m.executable || m.range.overlaps(excluded_)) continue;
    regions_.push_back({m.range, module_of(m), m.writable || m.shared || everything_may_change_});
  }
  stale_ = false;
}

ModuleId GuestCode::module_of(const kernel::Mapping& m) {
  trace::Module module;
  module.path = m.path;
  module.range = m.range;
  module.inode = m.inode;
  module.device = uint64_t{m.dev_major} << 32 | m.dev_minor;
  if (m.inode != 0) {
    module.file_start = m.range.start - m.offset;
  } else if (!m.path.empty()) {
    module.file_start = m.range.start;  // [vdso], [heap]
  }
  for (ModuleId id : modules_) {
    const trace::Module& known = table_.module(id);
    if (known.path == module.path && known.inode == module.inode &&
        known.device == module.device && known.file_start == module.file_start) {
      return id;
    }
  }
  modules_.push_back(table_.add_module(module));
  return modules_.back();
}

size_t GuestCode::fetch(GuestAddr address, std::span<uint8_t> out) {
  const emu::CodeRegion where = region(address);
  if (where.range.size() == 0) return 0;
  if (where.may_change) return memory_.read_some(address, out);
  size_t done = 0;
  while (done < out.size()) {
    const GuestAddr at = address + done;
    auto& page = pages_[at.page()];
    if (!page) {
      auto fresh = std::make_unique<Page>();
      if (memory_.read_some(at.page(), fresh->bytes) < fresh->bytes.size()) {
        pages_.erase(at.page());
        return done + memory_.read_some(at, out.subspan(done));
      }
      page = std::move(fresh);
    }
    const auto offset = static_cast<size_t>(at - at.page());
    const size_t n = std::min(out.size() - done, limits::kPageBytes - offset);
    std::copy_n(page->bytes.begin() + static_cast<ptrdiff_t>(offset), n,
                out.begin() + static_cast<ptrdiff_t>(done));
    done += n;
  }
  return done;
}

void GuestCode::everything_may_change() {
  everything_may_change_ = true;
  stale_ = true;
  pages_.clear();
}

void GuestCode::mappings_changed(GuestRange range) {
  stale_ = true;
  if (range.size() / limits::kPageBytes > pages_.size()) {
    std::erase_if(pages_, [&](const auto& entry) {
      return range.overlaps({entry.first, entry.first + limits::kPageBytes});
    });
    return;
  }
  for (GuestAddr p = range.start.page(); p < range.end; p = p + limits::kPageBytes) pages_.erase(p);
}

}  // namespace shadowprof::inject
