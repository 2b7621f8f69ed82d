// SPDX-License-Identifier: MIT
#include "symbols/unpacked_debug.h"

#include <elf.h>
#include <libdeflate.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace shadowprof::symbols {
namespace {

const std::set<std::string_view> kRead = {
    ".debug_abbrev", ".debug_aranges",  ".debug_info", ".debug_line",        ".debug_line_str",
    ".debug_ranges", ".debug_rnglists", ".debug_str",  ".debug_str_offsets", ".debug_types"};

// Deflate makes one byte of at most 1032, and what is larger than this is nothing to hold twice.
constexpr uint64_t kMostPerByte = 1032;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr uint64_t kAlignment = 16;
constexpr const char* kNames = ".shstrtab";

struct Packed {
  const Section* section = nullptr;
  std::span<const uint8_t> bytes;
  bool compressed = false;
  uint64_t size = 0;    // unpacked
  uint64_t offset = 0;  // in the image
};

uint64_t aligned(uint64_t offset) {
  return (offset + kAlignment - 1) & ~(kAlignment - 1);
}

// dwz and split DWARF: libdw finds the other file by the name of this one.
bool leads_elsewhere(const std::string& name) {
  return name == ".gnu_debugaltlink" || name == ".debug_addr" || name.ends_with(".dwo") ||
         name.starts_with(".zdebug_");
}

// False: it makes no sense.
bool look_at(Packed& packed) {
  packed.size = packed.bytes.size();
  packed.compressed = (packed.section->header.sh_flags & SHF_COMPRESSED) != 0;
  if (!packed.compressed) return true;
  Elf64_Chdr header;
  if (packed.bytes.size() < sizeof header) return false;
  std::memcpy(&header, packed.bytes.data(), sizeof header);
  packed.bytes = packed.bytes.subspan(sizeof header);
  packed.size = header.ch_size;
  return header.ch_type == ELFCOMPRESS_ZLIB && header.ch_size <= kMostBytes &&
         header.ch_size / kMostPerByte <= packed.bytes.size();
}

// Nothing: not of a kind that is unpacked here.
std::vector<Packed> read_sections(const ElfFile& file) {
  std::vector<Packed> found;
  bool any = false;
  for (const Section& section : file.sections()) {
    if (leads_elsewhere(section.name)) return {};
    if (!kRead.contains(section.name)) continue;
    Packed packed;
    packed.section = &section;
    packed.bytes = file.bytes(section);
    if (packed.bytes.empty()) continue;
    if (!look_at(packed)) return {};
    any = any || packed.compressed;
    found.push_back(packed);
  }
  return any ? found : std::vector<Packed>();
}

struct DecompressorCloser {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

bool fill(const std::vector<Packed>& sections, char* image) {
  const std::unique_ptr<libdeflate_decompressor, DecompressorCloser> decompressor(
      libdeflate_alloc_decompressor());
  if (decompressor == nullptr) return false;
  for (const Packed& packed : sections) {
    char* const to = image + packed.offset;
    if (!packed.compressed) {
      std::memcpy(to, packed.bytes.data(), packed.size);
      continue;
    }
    // Without a place for the size it is an error when there is less.
    if (libdeflate_zlib_decompress(decompressor.get(), packed.bytes.data(), packed.bytes.size(), to,
                                   packed.size, nullptr) != LIBDEFLATE_SUCCESS)
      return false;
  }
  return true;
}

Elf64_Shdr header_of(const Packed& packed, size_t name) {
  Elf64_Shdr header{};
  header.sh_name = static_cast<Elf64_Word>(name);
  header.sh_type = packed.section->header.sh_type;
  header.sh_flags = packed.section->header.sh_flags & ~uint64_t{SHF_COMPRESSED};
  header.sh_entsize = packed.section->header.sh_entsize;
  header.sh_offset = packed.offset;
  header.sh_size = packed.size;
  header.sh_addralign = 1;
  return header;
}

}  // namespace

std::optional<MemoryImage> unpack_debug_sections(const ElfFile& file) {
  const GElf_Ehdr& original = file.header();
  if (original.e_ident[EI_DATA] != ELFDATA2LSB || original.e_type == ET_REL) return std::nullopt;
  std::vector<Packed> sections = read_sections(file);
  if (sections.empty() || sections.size() >= SHN_LORESERVE - 2) return std::nullopt;

  uint64_t end = aligned(sizeof(Elf64_Ehdr));
  std::string names(1, '\0');
  std::vector<Elf64_Shdr> headers(1);
  for (Packed& packed : sections) {
    packed.offset = end;
    headers.push_back(header_of(packed, names.size()));
    names += packed.section->name + '\0';
    end = aligned(end + packed.size);
    if (end > kMostBytes) return std::nullopt;
  }
  Elf64_Shdr names_header{};
  names_header.sh_name = static_cast<Elf64_Word>(names.size());
  names += kNames + std::string(1, '\0');
  names_header.sh_type = SHT_STRTAB;
  names_header.sh_offset = end;
  names_header.sh_size = names.size();
  names_header.sh_addralign = 1;
  headers.push_back(names_header);
  const uint64_t table = aligned(end + names.size());

  MemoryImage image;
  image.size = table + headers.size() * sizeof(Elf64_Shdr);
  image.bytes = std::make_unique_for_overwrite<char[]>(image.size);
  if (!fill(sections, image.bytes.get())) return std::nullopt;
  Elf64_Ehdr header = original;
  header.e_phoff = 0;
  header.e_phnum = 0;
  header.e_shoff = table;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(headers.size());
  header.e_shstrndx = static_cast<Elf64_Half>(headers.size() - 1);
  std::memcpy(image.bytes.get(), &header, sizeof header);
  std::memcpy(image.bytes.get() + end, names.data(), names.size());
  std::memcpy(image.bytes.get() + table, headers.data(), headers.size() * sizeof(Elf64_Shdr));
  return image;
}

}  // namespace shadowprof::symbols
