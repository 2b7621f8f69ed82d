// SPDX-License-Identifier: MIT
#include "sample/module_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "kernel/proc.h"

namespace shadowprof::sample {

using symbols::ModuleSymbols;

namespace {

// The kernel maps the same image into every process, so ours has the bytes of the profiled one.
Result<std::unique_ptr<ModuleSymbols>> load_vdso() {
  SP_ASSIGN(const auto mappings, kernel::read_maps(Tid(::getpid())));
  for (const kernel::Mapping& m : mappings) {
    if (m.path != "[vdso]") continue;
    const char* bytes = reinterpret_cast<const char*>(m.range.start.value);
    return ModuleSymbols::load_image(m.path, std::vector<char>(bytes, bytes + m.range.size()));
  }
  return fail("this process has no [vdso]");
}

// Opened while it was mapped, because its path does not lead to it.
UniqueFd kept_file_of(const profile::Module& module, const trace::BlockTable& code) {
  for (uint32_t i = 0; i < code.module_count(); i++) {
    const trace::Module& m = code.module(ModuleId(i));
    if (m.file && m.path == module.path && m.inode == module.inode && m.device == module.device)
      return UniqueFd(::fcntl(m.file->get(), F_DUPFD_CLOEXEC, 0));
  }
  return {};
}

// Opens the file that ran. Another inode under its name may have replaced it; only if it is older
// than the run is it the same after all: overlay file systems show other numbers in memory maps
// than to stat(2).
Result<UniqueFd> open_file_of(const profile::Module& module, int64_t started) {
  UniqueFd fd(::open(module.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return fail_errno(errno, "cannot read the names of {}", module.path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail("{} has no names: it is not a file", module.path);
  if (info.st_ino != module.inode && info.st_ctim.tv_sec >= started)
    return fail("{} has no names: another file has taken its place", module.path);
  return fd;
}

}  // namespace

Result<std::unique_ptr<ModuleSymbols>> load_symbols(const profile::Module& module,
                                                    const trace::BlockTable& code, int64_t started,
                                                    const CacheFolder& notes, UniqueFd& file) {
  if (module.path == "[vdso]") return load_vdso();
  if (!module.path.starts_with('/')) return fail("{} has no file", module.path);
  UniqueFd fd = kept_file_of(module, code);
  if (!fd.valid()) {
    SP_ASSIGN(fd, open_file_of(module, started));
  }
  symbols::ModuleSource source;
  source.path = module.path;
  source.fd = UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  file = std::move(fd);
  symbols::SymbolOptions options;
  options.notes = &notes;
  return ModuleSymbols::load(std::move(source), options);
}

}  // namespace shadowprof::sample
