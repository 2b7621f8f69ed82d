// SPDX-License-Identifier: MIT
#include "symbols/module_symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elfutils/libdw.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

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

bool has_symbols(const ElfFile& file) {
  return std::ranges::any_of(
      file.sections(), [](const Section& section) { return section.header.sh_type == SHT_SYMTAB; });
}

// What tells one state of a file from another.
std::string stamp_of(const struct stat& info) {
  return fmt::format("{:x}:{} {} {}.{:09}", info.st_dev, info.st_ino, info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

std::string stamp_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? stamp_of(info) : "";
}

// The library that this code is in; empty where it is in the program itself.
std::string stamp_of_library(const void* code) {
  Dl_info place{}, program{};
  struct stat info {};
  const bool known = ::dladdr(code, &place) != 0 && place.dli_fname != nullptr &&
                     ::dladdr(reinterpret_cast<const void*>(&bias_of), &program) != 0;
  if (!known || place.dli_fbase == program.dli_fbase) return "";
  return ::stat(place.dli_fname, &info) == 0 ? stamp_of(info) : "";
}

// Who reads the files: ourselves, libdw, and who takes names apart.
std::string stamps_of_readers() {
  static const std::string stamps = [] {
    struct stat program {};
    const bool known = ::stat("/proc/self/exe", &program) == 0;
    return fmt::format("version {}\nprogram {}\nlibdw {}\ndemangler {}\n", SHADOWPROF_VERSION,
                       known ? stamp_of(program) : "",
                       stamp_of_library(reinterpret_cast<const void*>(&dwarf_begin_elf)),
                       stamp_of_library(reinterpret_cast<const void*>(&abi::__cxa_demangle)));
  }();
  return stamps;
}

}  // namespace

Result<std::unique_ptr<ModuleSymbols>> ModuleSymbols::load(ModuleSource source,
                                                           const SymbolOptions& options) {
  SP_ASSIGN(Opened opened, open_module(source));
  std::unique_ptr<ModuleSymbols> module(new ModuleSymbols);
  module->describe(opened.file);
  module->debug_directories_ = options.debug_directories;
  Files files{std::move(opened.fd), std::move(opened.file), source.path, false, {}};
  const bool has_names = has_symbols(files.module) && has_debug_info(files.module);
  if (!has_names) module->look_for_debug(files);
  if (options.notes != nullptr) module->open_notes(*options.notes, files);
  module->files_ = std::move(files);
  return module;
}

Result<std::unique_ptr<ModuleSymbols>> ModuleSymbols::load_image(const std::string& name,
                                                                 std::vector<char> image) {
  SP_ASSIGN(ElfFile file, ElfFile::from_memory(image, name));
  std::unique_ptr<ModuleSymbols> module(new ModuleSymbols);
  module->describe(file);
  module->files_ = Files{{}, std::move(file), name, false, {}};
  (void)module->names();  // while the image is there
  return module;
}

void ModuleSymbols::describe(const ElfFile& file) {
  build_id_ = file.build_id();
  position_independent_ = file.header().e_type == ET_DYN;
  addresses_ = file.addresses();
}

void ModuleSymbols::look_for_debug(Files& files) const {
  files.looked_for_debug = true;
  files.debug = find_debug_file(files.module, files.path, debug_directories_);
  if (!files.debug) files.debug = fetch_debug_file(build_id_);
}

// A file without a build-id may be another one before anybody notices.
void ModuleSymbols::open_notes(const CacheFolder& folder, const Files& files) {
  if (build_id_.empty() || !folder.valid()) return;
  const std::string module = stamp_of(files.fd.get());
  const std::string debug =
      files.debug ? files.debug->path + " " + stamp_of(files.debug->fd.get()) : "none";
  notes_ = std::make_unique<ModuleNotes>(
      folder, build_id_,
      fmt::format("{}module {}\ndebug {}\n", stamps_of_readers(), module, debug));
}

const SymbolTable& ModuleSymbols::names() const {
  std::call_once(names_once_, [this] {
    read_names(*files_);
    files_.reset();
  });
  return table_;
}

void ModuleSymbols::read_names(Files& files) const {
  const ElfFile& file = files.module;
  SymbolSources sources;
  collect_symbols(file, SHT_SYMTAB, addresses_, 0, sources);
  const bool stripped = sources.candidates.empty();
  if (stripped) collect_symbols(file, SHT_DYNSYM, addresses_, 0, sources);
  if (stripped && !files.looked_for_debug) {
    look_for_debug(files);
    if (notes_) notes_->distrust();  // they do not say which debug file it was
  }
  if (files.debug) read_debug_names(files, stripped, sources);
  if (stripped && debug_path_.empty()) {
    std::vector<char> image = unpack_mini_debug_info(file);
    if (auto mini = ElfFile::from_memory(image, files.path); mini && !image.empty()) {
      uint64_t bias = bias_of(addresses_, mini->addresses());
      collect_symbols(*mini, SHT_SYMTAB, addresses_, bias, sources);
    }
  }
  if (stripped || (!has_debug_info(file) && !lines_fd_.valid())) go_ = GoTable::read(file);
  if (stripped && go_) collect_go_functions(*go_, addresses_, sources);
  collect_plt_stubs(file, sources);
  collect_function_bounds(file, sources);
  table_ = SymbolTable(std::move(sources));
  if (!has_debug_info(file)) return;
  lines_fd_ = std::move(files.fd);
  lines_path_ = files.path;
  lines_bias_ = 0;
}

void ModuleSymbols::read_debug_names(Files& files, bool stripped, SymbolSources& sources) const {
  auto debug = ElfFile::from_fd(files.debug->fd.get(), files.debug->path);
  if (!debug) return;
  const uint64_t bias = bias_of(addresses_, debug->addresses());
  if (stripped) collect_symbols(*debug, SHT_SYMTAB, addresses_, bias, sources);
  debug_path_ = files.debug->path;
  if (!has_debug_info(*debug)) return;
  lines_fd_ = std::move(files.debug->fd);
  lines_path_ = debug_path_;
  lines_bias_ = bias;
}

const std::string& ModuleSymbols::debug_file() const {
  (void)names();
  return debug_path_;
}

// --- questions ---

// What look(notes) says, or else what find() does, which add(notes, found) makes known.
template <typename Look, typename Find, typename Add>
auto ModuleSymbols::noted(Look look, Find find, Add add) const {
  if (notes_ != nullptr) {
    const std::lock_guard lock(notes_mutex_);
    if (auto known = look(*notes_)) return *std::move(known);
  }
  auto found = find();
  if (notes_ != nullptr) {
    const std::lock_guard lock(notes_mutex_);
    if (!notes_->is_full()) add(*notes_, found);
  }
  return found;
}

std::optional<Symbol> ModuleSymbols::find(uint64_t offset) const {
  const auto index = function_index(offset);
  return index ? std::optional(function(*index)) : std::nullopt;
}

std::optional<size_t> ModuleSymbols::function_index(uint64_t offset) const {
  return noted(
      [&](const ModuleNotes& notes) { return notes.function_at(offset); },
      [&] { return names().index_of(offset); },
      [&](ModuleNotes& notes, const auto& index) { notes.add_function_at(offset, index); });
}

Symbol ModuleSymbols::function(size_t index) const {
  return noted(
      [&](const ModuleNotes& notes) { return notes.function(index); },
      // Notes that were tampered with may name any number.
      [&] { return index < names().size() ? names().at(index) : Symbol{}; },
      [&](ModuleNotes& notes, const Symbol& symbol) { notes.add_function(index, symbol); });
}

std::vector<SourceFrame> ModuleSymbols::lines(uint64_t offset) const {
  return noted([&](const ModuleNotes& notes) { return notes.lines(offset); },
               [&] { return find_lines(offset); },
               [&](ModuleNotes& notes, const auto& frames) { notes.add_lines(offset, frames); });
}

std::vector<InlinedStretch> ModuleSymbols::inlined(uint64_t offset, uint64_t size) const {
  return noted([&](const ModuleNotes& notes) { return notes.inlined(offset, size); },
               [&] { return find_inlined(offset, size); },
               [&](ModuleNotes& notes, const auto& stretches) {
                 notes.add_inlined(offset, size, stretches);
               });
}

InlinedCall ModuleSymbols::inlined_call(uint32_t number) const {
  return noted([&](const ModuleNotes& notes) { return notes.call(number); },
               [&] {
                 SourceLines* known = open_lines();
                 return known == nullptr ? InlinedCall{} : known->inlined_call(number);
               },
               [&](ModuleNotes& notes, const InlinedCall& call) { notes.add_call(number, call); });
}

void ModuleSymbols::keep_notes() {
  if (notes_ == nullptr || (lines_ != nullptr && !lines_->is_one_file())) return;
  notes_->keep(lines_ == nullptr ? std::vector<CallPlace>() : lines_->numbered_calls());
}

SourceLines* ModuleSymbols::open_lines() const {
  std::call_once(lines_once_, [this] {
    (void)names();
    if (!lines_fd_.valid()) return;
    if (auto file = ElfFile::from_fd(lines_fd_.get(), lines_path_)) {
      lines_ = SourceLines::open(std::move(lines_fd_), std::move(*file));
    }
    if (lines_ != nullptr && notes_ != nullptr) lines_->number_calls(notes_->call_places());
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

std::vector<SourceFrame> ModuleSymbols::find_lines(uint64_t offset) const {
  SourceLines* known = open_lines();
  std::optional<uint64_t> vaddr = addresses_.to_vaddr(offset);
  if (!vaddr) return {};
  std::vector<SourceFrame> frames;
  if (known != nullptr) {
    frames = known->find(*vaddr - lines_bias_);
  } else if (const auto line = go_ ? go_->line_of(*vaddr) : std::nullopt) {
    SourceFrame& frame = frames.emplace_back();
    frame.file = line->file;
    frame.line = line->line;
  }
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

std::vector<InlinedStretch> ModuleSymbols::find_inlined(uint64_t offset, uint64_t size) const {
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

}  // namespace shadowprof::symbols
