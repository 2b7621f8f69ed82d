// SPDX-License-Identifier: MIT
#include "symbols/elf_file.h"

#include <elfutils/libdwelf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace shadowprof::symbols {
namespace {

// Notes hold 20 bytes as a rule; anything longer than this is not a build-id.
constexpr ssize_t kMaxBuildIdBytes = 64;

void prepare_libelf() {
  static std::once_flag once;
  std::call_once(once, [] { elf_version(EV_CURRENT); });
}

}  // namespace

const Segment* AddressMap::segment_of(uint64_t vaddr) const {
  for (const Segment& segment : segments_) {
    if (vaddr >= segment.vaddr && vaddr - segment.vaddr < segment.file_size) return &segment;
  }
  return nullptr;
}

bool AddressMap::is_constant(uint64_t offset, int64_t distance) const {
  const std::optional<uint64_t> code = to_vaddr(offset);
  if (!code) return false;
  const Segment* segment = segment_of(*code + static_cast<uint64_t>(distance));
  return segment != nullptr && !segment->writable;
}

std::optional<uint64_t> AddressMap::to_offset(uint64_t vaddr) const {
  const Segment* segment = segment_of(vaddr);
  if (segment == nullptr) return std::nullopt;
  return vaddr - segment->vaddr + segment->offset;
}

std::optional<uint64_t> AddressMap::to_vaddr(uint64_t offset) const {
  const Segment* found = nullptr;
  for (const Segment& segment : segments_) {
    bool holds = offset >= segment.offset && offset - segment.offset < segment.file_size;
    if (holds && (found == nullptr || (segment.executable && !found->executable))) {
      found = &segment;
    }
  }
  if (found == nullptr) return std::nullopt;
  return offset - found->offset + found->vaddr;
}

Result<ElfFile> ElfFile::from_fd(int fd, const std::string& name) {
  prepare_libelf();
  return adopt(elf_begin(fd, ELF_C_READ, nullptr), name);
}

Result<ElfFile> ElfFile::from_memory(std::span<char> image, const std::string& name) {
  prepare_libelf();
  return adopt(elf_memory(image.data(), image.size()), name);
}

Result<ElfFile> ElfFile::adopt(Elf* elf, const std::string& name) {
  if (elf == nullptr) return fail("cannot read {} as an ELF file: {}", name, elf_errmsg(-1));
  ElfFile file;
  file.elf_.reset(elf);
  if (elf_kind(elf) != ELF_K_ELF) return fail("{} is not an ELF file", name);
  if (gelf_getehdr(elf, &file.header_) == nullptr) {
    return fail("cannot read the ELF header of {}: {}", name, elf_errmsg(-1));
  }
  if (gelf_getclass(elf) != ELFCLASS64 || file.header_.e_machine != EM_X86_64) {
    return fail("{} is not a 64-bit x86 ELF file", name);
  }
  SP_TRY(file.read_segments(name));
  file.read_sections();
  return file;
}

Status ElfFile::read_segments(const std::string& name) {
  size_t count = 0;
  if (elf_getphdrnum(elf_.get(), &count) != 0) {
    return fail("cannot read the program headers of {}: {}", name, elf_errmsg(-1));
  }
  std::vector<Segment> segments;
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf_.get(), static_cast<int>(i), &header) == nullptr) break;
    if (header.p_type != PT_LOAD) continue;
    // Ends that wrap around the address space would turn comparisons upside down.
    if (header.p_vaddr + header.p_filesz < header.p_vaddr) continue;
    if (header.p_offset + header.p_filesz < header.p_offset) continue;
    segments.push_back({header.p_vaddr, header.p_offset, header.p_filesz,
                        (header.p_flags & PF_X) != 0, (header.p_flags & PF_W) != 0});
  }
  addresses_ = AddressMap(std::move(segments));
  return {};
}

void ElfFile::read_sections() {
  size_t names_index = 0;
  bool named = elf_getshdrstrndx(elf_.get(), &names_index) == 0;
  for (Elf_Scn* scn = elf_nextscn(elf_.get(), nullptr); scn != nullptr;
       scn = elf_nextscn(elf_.get(), scn)) {
    Section section;
    section.handle = scn;
    if (gelf_getshdr(scn, &section.header) == nullptr) continue;
    const char* name =
        named ? elf_strptr(elf_.get(), names_index, section.header.sh_name) : nullptr;
    if (name != nullptr) section.name = name;
    sections_.push_back(std::move(section));
  }
}

const Section* ElfFile::section(std::string_view name) const {
  for (const Section& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

Elf_Data* ElfFile::data(const Section& section) const {
  if (section.header.sh_type == SHT_NOBITS) return nullptr;
  Elf_Data* data = elf_getdata(section.handle, nullptr);
  return data != nullptr && data->d_buf != nullptr ? data : nullptr;
}

std::span<const uint8_t> ElfFile::bytes(const Section& section) const {
  if (section.header.sh_type == SHT_NOBITS) return {};
  Elf_Data* data = elf_rawdata(section.handle, nullptr);
  if (data == nullptr || data->d_buf == nullptr) return {};
  return {static_cast<const uint8_t*>(data->d_buf), data->d_size};
}

std::string_view ElfFile::string_at(std::span<const uint8_t> table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const uint8_t* start = table.data() + offset;
  const uint64_t most = table.size() - offset;
  const void* end = std::memchr(start, 0, std::min<uint64_t>(most, kMaxNameBytes));
  if (end == nullptr && most > kMaxNameBytes) end = start + kMaxNameBytes;
  if (end == nullptr) return {};
  return {reinterpret_cast<const char*>(start),
          static_cast<size_t>(static_cast<const uint8_t*>(end) - start)};
}

std::string ElfFile::build_id() const {
  const void* id = nullptr;
  ssize_t size = dwelf_elf_gnu_build_id(elf_.get(), &id);
  if (size <= 0 || size > kMaxBuildIdBytes) return {};
  std::string text;
  for (ssize_t i = 0; i < size; ++i) {
    text += fmt::format("{:02x}", static_cast<const uint8_t*>(id)[i]);
  }
  return text;
}

}  // namespace shadowprof::symbols
