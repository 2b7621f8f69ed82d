// SPDX-License-Identifier: MIT
#include "symbols/module_set.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace shadowprof::symbols {
namespace {

// More than any block has: a profile from elsewhere may say anything.
constexpr uint32_t kMaxCodeBytes = uint32_t{1} << 20;

Result<UniqueFd> open_file(const profile::Module& module) {
  if (!module.path.starts_with('/'))
    return fail("{} has no file", module.path.empty() ? "anonymous code" : module.path);
  UniqueFd fd(::open(module.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return fail_errno(errno, "cannot open {}", module.path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail("{} is not a file", module.path);
  if (module.build_id.empty() && info.st_ino != module.inode)
    return fail("{} is not the file that ran: it has no build-id, and another inode", module.path);
  return fd;
}

Result<std::unique_ptr<ModuleSymbols>> load(const profile::Module& module, int fd) {
  ModuleSource source;
  source.path = module.path;
  source.build_id = module.build_id;
  source.fd = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  return ModuleSymbols::load(std::move(source));
}

}  // namespace

ModuleSet::ModuleSet(const profile::ModuleTable& modules)
    : modules_(modules), slots_(modules.size()) {}

Result<const ModuleSymbols*> ModuleSet::open(uint32_t module) const {
  Slot& slot = slots_[module];
  if (!slot.tried) {
    slot.tried = true;
    auto fd = open_file(modules_[module]);
    auto loaded = fd ? load(modules_[module], fd->get()) : tl::unexpected(std::move(fd.error()));
    if (loaded) {
      slot.fd = std::move(*fd);
      slot.symbols = std::move(*loaded);
    } else {
      slot.error = std::move(loaded.error());
    }
  }
  if (slot.symbols == nullptr) return tl::unexpected(slot.error);
  return slot.symbols.get();
}

const ModuleSymbols* ModuleSet::find(uint32_t module) const {
  const auto opened = open(module);
  return opened ? *opened : nullptr;
}

std::vector<SourceFrame> ModuleSet::frames(profile::CodeRef at) const {
  const ModuleSymbols* symbols = find(at.module);
  return symbols ? symbols->lines(at.offset) : std::vector<SourceFrame>{};
}

std::vector<uint8_t> ModuleSet::code(profile::CodeRef at, uint32_t size) const {
  std::vector<uint8_t> bytes;
  if (find(at.module) == nullptr || at.offset > INT64_MAX || size > kMaxCodeBytes) return bytes;
  bytes.resize(size);
  const ssize_t n = ::pread(slots_[at.module].fd.get(), bytes.data(), bytes.size(),
                            static_cast<off_t>(at.offset));
  bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return bytes;
}

std::optional<profile::SourceLine> ModuleSet::line(profile::CodeRef at) const {
  for (SourceFrame& frame : frames(at))
    if (frame.line != 0) return profile::SourceLine{std::move(frame.file), frame.line};
  return std::nullopt;
}

}  // namespace shadowprof::symbols
