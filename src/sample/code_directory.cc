// SPDX-License-Identifier: MIT
#include "sample/code_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "kernel/mapped_file.h"
#include "profile/file/output_file.h"
#include "symbols/elf_file.h"

namespace shadowprof::sample {
namespace {

UniqueFd open_file_of(Tid process, const kernel::Mapping& mapping) {
  UniqueFd fd = kernel::open_unreachable(process, mapping);
  if (fd.valid()) return fd;
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  return UniqueFd(::open(mapping.path.c_str(), kFlags));
}

// What tells its contents: its build-id, or when it was changed last. Empty: it is no file of code.
// Should another file have taken its name, then the hints are bad ones.
std::string identify(Tid process, const kernel::Mapping& mapping) {
  if (mapping.inode == 0 || !mapping.path.starts_with('/')) return {};
  const UniqueFd fd = open_file_of(process, mapping);
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  const auto elf = symbols::ElfFile::from_fd(fd.get(), mapping.path);
  if (!elf) return {};
  if (const std::string id = elf->build_id(); !id.empty()) return "build-id:" + id;
  return fmt::format("file:{:x}:{}:{}:{}.{:09}", info.st_dev, info.st_ino, info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

// Nothing: there is no such file.
Result<std::optional<std::string>> read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && errno == ENOENT) return std::nullopt;
  if (!fd.valid()) return fail("{}", std::strerror(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return fail("it is not a file");
  if (static_cast<size_t>(info.st_size) > kMostListBytes) return fail("it is too large");
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

Status write_file(const std::string& path, std::string_view text) {
  SP_ASSIGN(profile::OutputFile file, profile::OutputFile::open(path));
  file.write(text);
  return file.finish();
}

const kernel::Mapping* program_in(Tid process, const std::vector<kernel::Mapping>& mappings) {
  const auto auxv = kernel::read_auxv(process);
  if (!auxv || !auxv->entry) return nullptr;
  const auto found =
      std::find_if(mappings.begin(), mappings.end(),
                   [&](const kernel::Mapping& m) { return m.range.contains(*auxv->entry); });
  return found == mappings.end() ? nullptr : &*found;
}

bool has_executed(const profile::BlockTable& blocks, profile::CodeRef at) {
  const auto row = std::lower_bound(
      blocks.begin(), blocks.end(), at,
      [](const profile::BlockCount& b, profile::CodeRef wanted) { return b.at < wanted; });
  return row != blocks.end() && row->at == at && row->count != 0;
}

}  // namespace

const std::string& CodeDirectory::identity(Tid process, const kernel::Mapping& mapping) {
  const auto [it, is_new] =
      identities_.try_emplace({mapping.path, mapping.inode, mapping.device()});
  if (is_new) it->second = identify(process, mapping);
  return it->second;
}

std::string CodeDirectory::conditions_for(const std::string& program) const {
  return fmt::format("program {}\n{}", program, conditions_);
}

std::string CodeDirectory::file_for(const std::string& conditions) const {
  return fmt::format("{}/{:08x}.code", path_, checksum(conditions));
}

const CodeList& CodeDirectory::list_of(const std::string& program) {
  const auto [it, is_new] = lists_.try_emplace(program);
  if (!is_new) return it->second;
  const std::string conditions = conditions_for(program);
  const std::string path = file_for(conditions);
  const auto warn = [&](const std::string& why) {
    warnings_.push_back(fmt::format("the code list {} is not used: {}", path, why));
  };
  const auto text = read_file(path);
  if (!text) {
    warn(text.error().message);
  } else if (*text) {
    auto list = parse_code_list(**text, conditions);
    if (list) {
      it->second = std::move(*list);
    } else {
      warn(list.error().message);
    }
  }
  detail("{}: {} places of code", path, place_count(it->second));
  return it->second;
}

std::vector<GuestAddr> CodeDirectory::addresses(Tid process,
                                                const std::vector<kernel::Mapping>& mappings,
                                                std::set<GuestAddr>& done) {
  std::vector<GuestAddr> found;
  const CodeList* list = nullptr;
  for (const kernel::Mapping& m : mappings) {
    if (!m.executable || m.inode == 0 || !done.insert(m.range.start).second) continue;
    if (!list) {
      const kernel::Mapping* program = program_in(process, mappings);
      const std::string name = program ? identity(process, *program) : "";
      if (name.empty()) return {};
      list = &list_of(name);
    }
    const auto known = list->find(identity(process, m));
    if (known == list->end()) continue;
    for (uint64_t offset : known->second) {
      if (offset >= m.offset && offset - m.offset < m.range.size()) {
        found.push_back(m.range.start + (offset - m.offset));
      }
    }
  }
  return found;
}

CodeList CodeDirectory::executed(const trace::BlockTable& table,
                                 const profile::Profile& profile) const {
  std::vector<std::optional<uint32_t>> module_of(table.module_count());
  std::vector<const std::string*> name_of(table.module_count(), nullptr);
  for (uint32_t i = 0; i < table.module_count(); i++) {
    const trace::Module& m = table.module(ModuleId(i));
    const auto known = identities_.find({m.path, m.inode, m.device});
    if (known == identities_.end() || known->second.empty()) continue;
    name_of[i] = &known->second;
    for (uint32_t p = 0; p < profile.modules.size(); p++) {
      const profile::Module& other = profile.modules[p];
      const bool same = other.path == m.path && other.inode == m.inode && other.device == m.device;
      if (same) module_of[i] = p;
    }
  }
  CodeList seen;
  for (uint32_t r = 0; r < table.run_count(); r++) {
    const trace::Run& run = table.run(RunId(r));
    if (run.block_count == 0) continue;
    const trace::Block& block = table.block(run.first_block);
    const uint32_t m = block.module.value;
    if (m >= module_of.size() || !module_of[m]) continue;
    const auto offset = static_cast<uint64_t>(block.start - table.module(block.module).file_start);
    if (!has_executed(profile.tables.blocks, {*module_of[m], offset})) continue;
    seen[*name_of[m]].push_back(offset);
  }
  for (auto& [module, places] : seen) {
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
  }
  return seen;
}

void CodeDirectory::store(const trace::BlockTable& table, const profile::Profile& profile) {
  const CodeList seen = executed(table, profile);
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) {
    warnings_.push_back(fmt::format("no code list is kept: {}: {}", path_, std::strerror(errno)));
    return;
  }
  for (const auto& [program, before] : lists_) {
    CodeList all;
    add_places(all, seen);
    add_places(all, before);
    const std::string conditions = conditions_for(program);
    const Status written = write_file(file_for(conditions), write_code_list(all, conditions));
    if (!written) warnings_.push_back("no code list is kept: " + written.error().message);
  }
}

}  // namespace shadowprof::sample
