// SPDX-License-Identifier: MIT
#include "symbols/module_symbols.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "symbols/debug_file.h"
#include "symbols/debuginfod.h"
#include "symbols/elf_symbols.h"

namespace shadowprof::symbols {
namespace {

struct Opened {
  UniqueFd fd;
  ElfFile file;
};

Result<Opened> open_checked(UniqueFd fd, const std::string& name, const std::string& build_id) {
  SP_ASSIGN(ElfFile file, ElfFile::from_fd(fd.get(), name));
  if (!build_id.empty() && file.build_id() != build_id) {
    return fail("{} is not the file that ran: its build-id is {}, not {}", name,
                file.build_id().empty() ? "missing" : file.build_id(), build_id);
  }
  return Opened{std::move(fd), std::move(file)};
}

Result<Opened> open_path(const std::string& path, const std::string& build_id) {
  UniqueFd fd = open_regular(path);
  if (!fd.valid()) return fail_errno(errno, "cannot open {}", path);
  return open_checked(std::move(fd), path, build_id);
}

Result<Opened> open_module(ModuleSource& source) {
  if (source.fd.valid()) {
    auto opened = open_checked(std::move(source.fd), source.path, source.build_id);
    if (opened) return opened;
  }
  return open_path(source.path, source.build_id);
}

bool has_debug_info(const ElfFile& file) {
  for (const char* name : {".debug_info", ".zdebug_info", ".debug_line"}) {
    const Section* section = file.section(name);
    if (section != nullptr && section->header.sh_type != SHT_NOBITS) return true;
  }
  return false;
}

// What to add to an address of `debug` to get the module's: not 0 only after prelink.
uint64_t bias_of(const AddressMap& module, const AddressMap& debug) {
  if (module.segments().empty() || debug.segments().empty()) return 0;
  return module.segments()[0].vaddr - debug.segments()[0].vaddr;
}

}  // namespace

Result<std::unique_ptr<ModuleSymbols>> ModuleSymbols::load(ModuleSource source,
                                                           const SymbolOptions& options) {
  SP_ASSIGN(Opened opened, open_module(source));
  std::unique_ptr<ModuleSymbols> module(new ModuleSymbols);
  module->read(opened.file, source.path, options);
  if (has_debug_info(opened.file)) {
    module->lines_fd_ = std::move(opened.fd);
    module->lines_path_ = source.path;
    module->lines_bias_ = 0;
  }
  return module;
}

Result<std::unique_ptr<ModuleSymbols>> ModuleSymbols::load_image(const std::string& name,
                                                                 std::vector<char> image) {
  SP_ASSIGN(ElfFile file, ElfFile::from_memory(image, name));
  std::unique_ptr<ModuleSymbols> module(new ModuleSymbols);
  module->read(file, name, SymbolOptions{{}});
  return module;
}

void ModuleSymbols::read(const ElfFile& file, const std::string& path,
                         const SymbolOptions& options) {
  build_id_ = file.build_id();
  position_independent_ = file.header().e_type == ET_DYN;
  addresses_ = file.addresses();

  SymbolSources sources;
  collect_symbols(file, SHT_SYMTAB, addresses_, 0, sources);
  bool stripped = sources.candidates.empty();
  if (stripped) collect_symbols(file, SHT_DYNSYM, addresses_, 0, sources);
  if (stripped || !has_debug_info(file)) {
    auto found = find_debug_file(file, path, options.debug_directories);
    if (!found) found = fetch_debug_file(build_id_);
    if (found) {
      if (auto debug = ElfFile::from_fd(found->fd.get(), found->path)) {
        uint64_t bias = bias_of(addresses_, debug->addresses());
        if (stripped) collect_symbols(*debug, SHT_SYMTAB, addresses_, bias, sources);
        debug_path_ = found->path;
        if (has_debug_info(*debug)) {
          lines_fd_ = std::move(found->fd);
          lines_path_ = found->path;
          lines_bias_ = bias;
        }
      }
    }
  }
  if (stripped && debug_path_.empty()) {
    std::vector<char> image = unpack_mini_debug_info(file);
    if (auto mini = ElfFile::from_memory(image, path); mini && !image.empty()) {
      uint64_t bias = bias_of(addresses_, mini->addresses());
      collect_symbols(*mini, SHT_SYMTAB, addresses_, bias, sources);
    }
  }
  collect_plt_stubs(file, sources);
  collect_function_bounds(file, sources);
  table_ = SymbolTable(std::move(sources));
}

SourceLines* ModuleSymbols::open_lines() const {
  std::call_once(lines_once_, [this] {
    if (!lines_fd_.valid()) return;
    if (auto file = ElfFile::from_fd(lines_fd_.get(), lines_path_)) {
      lines_ = SourceLines::open(std::move(lines_fd_), std::move(*file));
    }
  });
  return lines_.get();
}

std::string ModuleSymbols::missing_lines() const {
  const SourceLines* lines = open_lines();
  const size_t units = lines == nullptr ? 0 : lines->units_without_functions();
  if (units == 0) return "";
  const std::string package = lines_path_ + ".dwp";
  return fmt::format("inlined calls of {} unit{} are not known: {}", units, units == 1 ? "" : "s",
                     open_regular(package).valid()
                         ? fmt::format("{} has them, but {} cannot read such a file; the "
                                       ".dwo files that it was made of would do",
                                       package, debug_library().name)
                         : "their .dwo files are not where they were made");
}

std::vector<SourceFrame> ModuleSymbols::lines(uint64_t offset) const {
  SourceLines* known = open_lines();
  std::optional<uint64_t> vaddr = addresses_.to_vaddr(offset);
  if (known == nullptr || !vaddr) return {};
  std::vector<SourceFrame> frames = known->find(*vaddr - lines_bias_);
  if (frames.empty()) return frames;
  // The symbol has the full signature where the debug information has a bare name, and both
  // answers of this class shall agree.
  SourceFrame& function = frames.back();
  std::optional<Symbol> symbol = find(offset);
  if (symbol && (symbol->named || function.function.empty())) {
    function.function = symbol->name;
    function.linkage_name = symbol->linkage_name;
  }
  return frames;
}

std::vector<InlinedStretch> ModuleSymbols::inlined(uint64_t offset, uint64_t size) const {
  SourceLines* known = open_lines();
  const std::optional<uint64_t> vaddr = addresses_.to_vaddr(offset);
  if (known == nullptr || !vaddr) return {{offset, offset + size, false, kNoInlinedCall}};
  const uint64_t start = *vaddr - lines_bias_;
  std::vector<InlinedStretch> stretches = known->inlined(start, start + size);
  for (InlinedStretch& stretch : stretches) {
    stretch.start += offset - start;
    stretch.end += offset - start;
  }
  return stretches;
}

InlinedCall ModuleSymbols::inlined_call(uint32_t number) const {
  SourceLines* known = open_lines();
  return known == nullptr ? InlinedCall{} : known->inlined_call(number);
}

}  // namespace shadowprof::symbols
