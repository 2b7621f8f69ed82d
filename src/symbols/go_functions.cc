// SPDX-License-Identifier: MIT
//
// Names out of Go's own table of functions (.gopclntab), which stays when symbols and debug
// information are stripped, as the Go runtime reads it itself. Its layouts are those of Go 1.2,
// 1.16, 1.18 and 1.20, told apart by their first four bytes:
//
//   header      magic, 0, 0, instruction size, pointer size; then words:
//     1.2       functions                                          (names and functions from 0 on)
//     1.16      functions, files, *names, *, *, *, *functions
//     1.18...   functions, files, start of the text, *names, *, *, *, *functions
//   functions   for each where it begins and where more of it is written, and where the last ends
//   more of it  where it begins, where in `names` its name is, ...
//
// Since 1.18 beginnings are distances from the start of the text.
#include <array>
#include <cstring>

#include "symbols/elf_symbols.h"

namespace shadowprof::symbols {
namespace {

constexpr size_t kHeaderBytes = 8;
constexpr size_t kWordBytes = 8;
constexpr size_t kPointerSizeAt = 7;
// A table of more is somebody's who wants to waste our time.
constexpr uint64_t kMostFunctions = 4'000'000;

// Past the end everything is 0, which is no function's beginning.
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T at(uint64_t offset) const {
    T value{};
    if (offset <= bytes_.size() && bytes_.size() - offset >= sizeof(T))
      std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  uint64_t word(size_t index) const { return at<uint64_t>(kHeaderBytes + index * kWordBytes); }
  std::span<const uint8_t> all() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

struct Layout {
  uint64_t functions = 0;   // how many
  uint64_t text = 0;        // what beginnings are relative to
  uint64_t names = 0;       // offset
  uint64_t table = 0;       // offset of the functions
  uint64_t base = 0;        // what the table's offsets are relative to
  size_t entry_bytes = 16;  // of the table: two words of
  size_t word_bytes = 8;
};

// The text's start is written by the dynamic linker where the program may lie anywhere.
uint64_t relocated(const ElfFile& module, uint64_t address) {
  for (const Section& section : module.sections()) {
    if (section.header.sh_type != SHT_RELA || (section.header.sh_flags & SHF_ALLOC) == 0) continue;
    const std::span<const uint8_t> bytes = module.bytes(section);
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= bytes.size(); at += sizeof(Elf64_Rela)) {
      Elf64_Rela relocation;
      std::memcpy(&relocation, bytes.data() + at, sizeof(relocation));
      if (relocation.r_offset == address && ELF64_R_TYPE(relocation.r_info) == R_X86_64_RELATIVE)
        return static_cast<uint64_t>(relocation.r_addend);
    }
  }
  return 0;
}

std::optional<Layout> layout_of(const ElfFile& module, const Section& section, Bytes table) {
  if (table.at<uint8_t>(kPointerSizeAt) != kWordBytes) return std::nullopt;
  Layout layout;
  layout.functions = table.word(0);
  switch (table.at<uint32_t>(0)) {
    case 0xFFFFFFFB:  // 1.2
      layout.table = kHeaderBytes + kWordBytes;
      return layout;
    case 0xFFFFFFFA:  // 1.16
      layout.names = table.word(2);
      layout.table = layout.base = table.word(6);
      return layout;
    case 0xFFFFFFF0:  // 1.18
    case 0xFFFFFFF1:  // 1.20
      layout.text = table.word(2);
      layout.names = table.word(3);
      layout.table = layout.base = table.word(7);
      layout.entry_bytes = 8;
      layout.word_bytes = 4;
      if (layout.text == 0)
        layout.text = relocated(module, section.header.sh_addr + kHeaderBytes + 2 * kWordBytes);
      if (const Section* text = module.section(".text"); layout.text == 0 && text != nullptr)
        layout.text = text->header.sh_addr;
      return layout;
    default:
      return std::nullopt;
  }
}

const Section* function_table(const ElfFile& module) {
  for (const char* name : {".gopclntab", ".data.rel.ro.gopclntab"})
    if (const Section* section = module.section(name)) return section;
  return nullptr;
}

uint64_t word_of(Bytes table, const Layout& layout, uint64_t offset) {
  return layout.word_bytes == 4 ? table.at<uint32_t>(offset) : table.at<uint64_t>(offset);
}

}  // namespace

void collect_go_functions(const ElfFile& module, SymbolSources& sources) {
  const Section* section = function_table(module);
  if (section == nullptr) return;
  const std::span<const uint8_t> bytes = module.bytes(*section);
  sources.texts.push_back(
      std::make_unique<std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const std::string& kept = *sources.texts.back();
  const Bytes table({reinterpret_cast<const uint8_t*>(kept.data()), kept.size()});
  const auto layout = layout_of(module, *section, table);
  if (!layout || layout->functions > kMostFunctions || layout->names > bytes.size()) return;
  const std::span<const uint8_t> names = table.all().subspan(layout->names);
  for (uint64_t i = 0; i < layout->functions; i++) {
    const uint64_t entry = layout->table + i * layout->entry_bytes;
    const uint64_t start = layout->text + word_of(table, *layout, entry);
    const uint64_t end = layout->text + word_of(table, *layout, entry + layout->entry_bytes);
    const uint64_t more = layout->base + word_of(table, *layout, entry + layout->word_bytes);
    const std::string_view name =
        ElfFile::string_at(names, table.at<uint32_t>(more + layout->word_bytes));
    const auto offset = module.addresses().to_offset(start);
    const Segment* segment = module.addresses().segment_of(start);
    if (name.empty() || end <= start || !offset || !segment->executable) continue;
    SymbolCandidate candidate;
    candidate.offset = *offset;
    candidate.size = end - start;
    candidate.limit = segment->offset + segment->file_size;
    candidate.name = name;
    candidate.typed = true;
    sources.candidates.push_back(candidate);
  }
}

}  // namespace shadowprof::symbols
