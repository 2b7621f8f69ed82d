// SPDX-License-Identifier: MIT
#include "symbols/go_table.h"

#include <cstring>
#include <utility>

namespace shadowprof::symbols {
namespace {

constexpr size_t kHeaderBytes = 8;
constexpr size_t kWordBytes = 8;
constexpr size_t kFieldBytes = 4;
// A table of more is somebody's who wants to waste our time.
constexpr uint64_t kMostFunctions = 4'000'000;

// Where a field is, in those that follow a function's beginning.
enum Field : size_t { kName, kArguments, kDefer, kStack, kFile, kLine, kData, kUnit };

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

// A table may be anywhere in a section where the C compiler's linker has put it.
struct Place {
  std::span<const uint8_t> bytes;
  uint64_t address;
};

// Instructions of one byte and pointers of eight follow its first four bytes.
bool begins_table(std::span<const uint8_t> bytes) {
  constexpr uint8_t kRest[] = {0xFF, 0xFF, 0xFF, 0, 0, 1, 8};
  return bytes.size() > kHeaderBytes && bytes[0] >= 0xF0 &&
         std::memcmp(bytes.data() + 1, kRest, sizeof(kRest)) == 0;
}

std::optional<Place> place_of_table(const ElfFile& module) {
  for (const char* name : {".gopclntab", ".data.rel.ro.gopclntab"})
    if (const Section* section = module.section(name))
      return Place{module.bytes(*section), section->header.sh_addr};
  const Section* mixed = module.section(".data.rel.ro");
  if (mixed == nullptr || module.section(".go.buildinfo") == nullptr) return std::nullopt;
  const std::span<const uint8_t> bytes = module.bytes(*mixed);
  for (size_t at = 0; at + kHeaderBytes < bytes.size(); at += kWordBytes)
    if (begins_table(bytes.subspan(at)))
      return Place{bytes.subspan(at), mixed->header.sh_addr + at};
  return std::nullopt;
}

}  // namespace

std::optional<GoTable> GoTable::read(const ElfFile& module) {
  const auto place = place_of_table(module);
  if (!place || !begins_table(place->bytes)) return std::nullopt;
  GoTable table(
      std::string(reinterpret_cast<const char*>(place->bytes.data()), place->bytes.size()));
  if (!table.read_header(module, place->address) || table.functions_ > kMostFunctions)
    return std::nullopt;
  return table;
}

bool GoTable::read_header(const ElfFile& module, uint64_t address) {
  const auto word = [&](size_t index) { return at<uint64_t>(kHeaderBytes + index * kWordBytes); };
  const auto places = [&](size_t from) {
    names_ = word(from);
    units_ = word(from + 1);
    files_ = word(from + 2);
    steps_ = word(from + 3);
    entries_ = base_ = word(from + 4);
    has_lines_ = true;
  };
  functions_ = word(0);
  switch (at<uint32_t>(0)) {
    case 0xFFFFFFFB:  // 1.2
      entries_ = kHeaderBytes + kWordBytes;
      return true;
    case 0xFFFFFFFA:  // 1.16
      places(2);
      return true;
    case 0xFFFFFFF0:  // 1.18
    case 0xFFFFFFF1:  // 1.20
      places(3);
      word_bytes_ = 4;
      text_ = word(2);
      if (text_ == 0) text_ = relocated(module, address + kHeaderBytes + 2 * kWordBytes);
      if (const Section* text = module.section(".text"); text_ == 0 && text != nullptr)
        text_ = text->header.sh_addr;
      return true;
    default:
      return false;
  }
}

// Past the end everything is 0, which is no function's beginning.
template <typename T>
T GoTable::at(uint64_t offset) const {
  T value{};
  if (offset <= bytes_.size() && bytes_.size() - offset >= sizeof(T))
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
  return value;
}

uint64_t GoTable::word(uint64_t offset) const {
  return word_bytes_ == 4 ? at<uint32_t>(offset) : at<uint64_t>(offset);
}

uint64_t GoTable::start(uint64_t index) const {
  return text_ + word(entries_ + index * 2 * word_bytes_);
}

// The function's fields behind its beginning.
uint64_t GoTable::fields(uint64_t index) const {
  return base_ + word(entries_ + (index * 2 + 1) * word_bytes_) + word_bytes_;
}

std::string_view GoTable::text_at(uint64_t offset) const {
  if (offset > bytes_.size()) return {};
  return ElfFile::string_at({reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()},
                            offset);
}

GoTable::Function GoTable::function(uint64_t index) const {
  const uint32_t name = at<uint32_t>(fields(index) + kName * kFieldBytes);
  return {start(index), start(index + 1), text_at(names_ + name)};
}

std::optional<GoTable::Line> GoTable::line_of(uint64_t address) const {
  if (!has_lines_ || functions_ == 0) return std::nullopt;
  uint64_t first = 0, behind = functions_;
  while (behind - first > 1) {
    const uint64_t middle = first + (behind - first) / 2;
    (start(middle) <= address ? first : behind) = middle;
  }
  if (address < start(first) || address >= start(first + 1)) return std::nullopt;
  const auto field = [&](Field f) { return at<uint32_t>(fields(first) + f * kFieldBytes); };
  const int64_t line = value_at(field(kLine), start(first), address);
  const int64_t file = value_at(field(kFile), start(first), address);
  if (line <= 0 || line > UINT32_MAX || file < 0) return std::nullopt;
  const uint64_t of_unit = field(kUnit) + static_cast<uint64_t>(file);
  const uint32_t name = at<uint32_t>(units_ + of_unit * kFieldBytes);
  return Line{std::string(text_at(files_ + name)), static_cast<uint32_t>(line)};
}

// Steps of a value and of the address from which the next one holds, each of as few bytes as it
// needs. The first value is -1.
int64_t GoTable::value_at(uint64_t steps, uint64_t start, uint64_t address) const {
  uint64_t offset = steps_ + steps;
  const auto next = [&] {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const auto byte = at<uint8_t>(offset++);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  int64_t value = -1;
  uint64_t until = start;
  for (bool is_first = true; offset < bytes_.size(); is_first = false) {
    const uint64_t change = next();
    if (change == 0 && !is_first) break;
    const auto half = static_cast<int64_t>(change >> 1);
    value += (change & 1) != 0 ? -half - 1 : half;
    until += next();
    if (address < until) return value;
  }
  return -1;
}

void collect_go_functions(const GoTable& table, const AddressMap& module, SymbolSources& sources) {
  for (uint64_t i = 0; i < table.function_count(); i++) {
    const GoTable::Function function = table.function(i);
    const auto offset = module.to_offset(function.start);
    const Segment* segment = module.segment_of(function.start);
    if (function.name.empty() || function.end <= function.start || !offset || !segment->executable)
      continue;
    SymbolCandidate candidate;
    candidate.offset = *offset;
    candidate.size = function.end - function.start;
    candidate.limit = segment->offset + segment->file_size;
    candidate.name = function.name;
    candidate.typed = true;
    sources.candidates.push_back(candidate);
  }
}

}  // namespace shadowprof::symbols
