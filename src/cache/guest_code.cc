// SPDX-License-Identifier: MIT
#include "cache/guest_code.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "kernel/mapped_file.h"
#include "ptrace/remote_syscall.h"

namespace shadowprof::cache {

emu::CodeRegion GuestCode::region(GuestAddr address) {
  if (stale_) refresh();
  const emu::CodeRegion* found = find(address);
  return found ? *found : emu::CodeRegion{};
}

const emu::CodeRegion* GuestCode::find(GuestAddr address) const {
  const auto it =
      std::upper_bound(regions_.begin(), regions_.end(), address,
                       [](GuestAddr a, const emu::CodeRegion& r) { return a < r.range.end; });
  return it != regions_.end() && it->range.contains(address) ? &*it : nullptr;
}

bool GuestCode::has_code(GuestRange range) {
  if (stale_) refresh();
  const auto it =
      std::upper_bound(regions_.begin(), regions_.end(), range.start,
                       [](GuestAddr a, const emu::CodeRegion& r) { return a < r.range.end; });
  return it != regions_.end() && it->range.overlaps(range);
}

void GuestCode::refresh() {
  auto mappings = kernel::read_maps(process_);
  // The process is dying; what is known stays.
  if (!mappings) return detail("{}", mappings.error().message);
  if (!mappings->empty()) take(*mappings);
}

void GuestCode::take(const std::vector<kernel::Mapping>& mappings) {
  regions_ = regions_of(mappings);
  stale_ = false;
  last_page_ = nullptr;
}

std::vector<emu::CodeRegion> GuestCode::regions_of(const std::vector<kernel::Mapping>& mappings) {
  std::vector<emu::CodeRegion> regions;
  for (const kernel::Mapping& m : mappings) {
    if (!m.executable || m.range.overlaps(excluded_)) continue;
    regions.push_back({m.range, module_of(m, mappings), may_change(m)});
  }
  return regions;
}

bool GuestCode::has_syscall_insn() {
  const GuestRange executable = region(syscall_insn_).range;
  return ptrace::is_syscall_instruction(syscall_insn_, {&executable, 1}, memory_);
}

Status GuestCode::find_syscall_insn(const std::vector<kernel::Mapping>& mappings) {
  if (has_syscall_insn()) return {};
  std::vector<GuestRange> executable = kernel::executable_ranges(mappings);
  std::erase_if(executable, [&](const GuestRange& r) { return r.overlaps(excluded_); });
  SP_ASSIGN(syscall_insn_, ptrace::find_syscall_instruction(executable, memory_));
  return {};
}

namespace {

// From the first to the last of a file's code, as far as it lies as in the file: some programs have
// parts of theirs elsewhere, or on large pages, which cut the mapping.
GuestRange code_of(const kernel::Mapping& part, const std::vector<kernel::Mapping>& mappings) {
  GuestRange code = part.range;
  if (part.inode == 0) return code;
  for (const kernel::Mapping& m : mappings) {
    if (!m.executable || !m.is_of_same_file(part) || m.file_start() != part.file_start()) continue;
    code.start = std::min(code.start, m.range.start);
    code.end = std::max(code.end, m.range.end);
  }
  return code;
}

// All mappings of a file, and the memory right behind them that has no file: uninitialised data.
GuestRange image_of(const kernel::Mapping& part, const std::vector<kernel::Mapping>& mappings) {
  GuestRange image = part.range;
  if (part.inode == 0) return image;
  bool is_part = false;
  for (const kernel::Mapping& m : mappings) {
    const bool behind = is_part && m.inode == 0 && m.path.empty() && m.range.start == image.end;
    is_part = m.is_of_same_file(part);
    if (!is_part && !behind) continue;
    image.start = std::min(image.start, m.range.start);
    image.end = std::max(image.end, m.range.end);
  }
  return image;
}

}  // namespace

bool GuestCode::may_change(const kernel::Mapping& m) const {
  if (m.writable || m.shared || everything_may_change_) return true;
  const bool generated = m.inode == 0 && m.path != "[vdso]" && m.path != "[vsyscall]";
  return distrust_generated_ && generated;
}

ModuleId GuestCode::module_of(const kernel::Mapping& m,
                              const std::vector<kernel::Mapping>& mappings) {
  trace::Module module;
  module.path = m.path;
  module.range = code_of(m, mappings);
  module.image = image_of(m, mappings);
  module.inode = m.inode;
  module.device = m.device();
  if (m.inode != 0) {
    module.file_start = m.file_start();
  } else if (!m.path.empty()) {
    module.file_start = m.range.start;  // [vdso], [heap]
  }
  for (ModuleId id : modules_) {
    if (table_.module(id).is_as(module)) return id;
  }
  if (UniqueFd file = kernel::open_unreachable(process_, m); file.valid())
    module.file = std::make_shared<const UniqueFd>(std::move(file));
  modules_.push_back(table_.add_module(std::move(module)));
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
    last_page_ = page.get();
    last_page_at_ = at.page();
    const auto offset = static_cast<size_t>(at - at.page());
    const size_t n = std::min(out.size() - done, limits::kPageBytes - offset);
    std::copy_n(page->bytes.begin() + static_cast<ptrdiff_t>(offset), n,
                out.begin() + static_cast<ptrdiff_t>(done));
    done += n;
  }
  return done;
}

std::span<const uint8_t> GuestCode::at_hand(GuestAddr address) {
  if (last_page_ == nullptr || address.page() != last_page_at_) return {};
  return std::span(last_page_->bytes).subspan(static_cast<size_t>(address - last_page_at_));
}

namespace {

// Those of `some` that are not among `others`.
void note_missing(const std::vector<emu::CodeRegion>& some,
                  const std::vector<emu::CodeRegion>& others, std::vector<GuestRange>& missing) {
  for (const emu::CodeRegion& r : some) {
    const bool known = std::any_of(others.begin(), others.end(), [&](const emu::CodeRegion& o) {
      return o.range == r.range && o.module == r.module && o.may_change == r.may_change;
    });
    if (!known) missing.push_back(r.range);
  }
}

}  // namespace

std::vector<GuestRange> GuestCode::rebind(Tid process,
                                          const std::vector<kernel::Mapping>& mappings) {
  const std::vector<emu::CodeRegion> before = std::exchange(regions_, {});
  process_ = process;
  memory_ = ptrace::RemoteMemory(process);
  take(mappings);
  std::vector<GuestRange> changed;
  note_missing(before, regions_, changed);
  note_missing(regions_, before, changed);
  std::erase_if(pages_, [&](const auto& entry) {
    const GuestRange page{entry.first, entry.first + limits::kPageBytes};
    return std::any_of(changed.begin(), changed.end(),
                       [&](const GuestRange& r) { return r.overlaps(page); });
  });
  for (GuestAddr page : rewritten_pages(process)) {
    pages_.erase(page);
    changed.push_back({page, page + limits::kPageBytes});
  }
  return changed;
}

bool GuestCode::agrees_with(Tid process, const std::vector<kernel::Mapping>& mappings) {
  const std::vector<emu::CodeRegion> regions = regions_of(mappings);
  std::vector<GuestRange> changed;
  note_missing(regions_, regions, changed);
  note_missing(regions, regions_, changed);
  return !stale_ && changed.empty() && rewritten_pages(process).empty();
}

// A private page of a file that the program has written (a debugger's breakpoint, a hot patch) is
// the file's no more: it is anonymous memory in the page tables (Documentation/admin-guide/mm/
// pagemap.rst). Such pages are compared with what was read before; those that differ are returned.
std::vector<GuestAddr> GuestCode::rewritten_pages(Tid process) {
  if (pages_.empty()) return {};
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  constexpr uint64_t kOfFile = uint64_t{1} << 61;
  const UniqueFd pagemap(
      ::open(fmt::format("/proc/{}/pagemap", process.value).c_str(), O_RDONLY | O_CLOEXEC));
  ptrace::RemoteMemory memory(process);
  std::vector<GuestAddr> rewritten;
  std::vector<uint64_t> entries;
  for (const emu::CodeRegion& r : regions_) {
    if (r.may_change) continue;
    entries.assign(r.range.size() / limits::kPageBytes, kPresent);  // unknown: compare
    const auto offset =
        static_cast<off_t>(r.range.start.value / limits::kPageBytes * sizeof(uint64_t));
    if (::pread(pagemap.get(), entries.data(), entries.size() * sizeof(uint64_t), offset) < 0) {
      entries.assign(entries.size(), kPresent);
    }
    for (size_t i = 0; i < entries.size(); i++) {
      if (!(entries[i] & kPresent) || (entries[i] & kOfFile)) continue;
      const GuestAddr at = r.range.start + i * limits::kPageBytes;
      const auto known = pages_.find(at);
      if (known == pages_.end()) continue;
      Page now;
      if (memory.read_some(at, now.bytes) == now.bytes.size() &&
          now.bytes == known->second->bytes) {
        continue;
      }
      rewritten.push_back(at);
    }
  }
  return rewritten;
}

void GuestCode::everything_may_change() {
  everything_may_change_ = true;
  stale_ = true;
  last_page_ = nullptr;
  pages_.clear();
}

void GuestCode::mappings_changed(GuestRange range) {
  stale_ = true;
  last_page_ = nullptr;
  if (range.size() / limits::kPageBytes > pages_.size()) {
    std::erase_if(pages_, [&](const auto& entry) {
      return range.overlaps({entry.first, entry.first + limits::kPageBytes});
    });
    return;
  }
  for (GuestAddr p = range.start.page(); p < range.end; p = p + limits::kPageBytes) pages_.erase(p);
}

}  // namespace shadowprof::cache
