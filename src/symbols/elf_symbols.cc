// SPDX-License-Identifier: MIT
#include "symbols/elf_symbols.h"

#include <cstring>
#include <limits>
#include <unordered_map>

namespace shadowprof::symbols {
namespace {

// Sections by index, with what each means for a symbol in it.
struct SectionFacts {
  bool known = false;
  bool executable = false;
  uint64_t end = 0;  // address
};

std::vector<SectionFacts> section_facts(const ElfFile& file) {
  std::vector<SectionFacts> facts;
  for (const Section& section : file.sections()) {
    size_t index = elf_ndxscn(section.handle);
    if (index >= facts.size()) facts.resize(index + 1);
    facts[index] = {true, section.executable(), section.header.sh_addr + section.header.sh_size};
  }
  return facts;
}

bool may_be_function(uint8_t type) {
  return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

// "memcpy@@GLIBC_2.14": the version is not part of the name.
std::string_view without_version(std::string_view name) {
  size_t at = name.find('@', 1);
  return at == std::string_view::npos ? name : name.substr(0, at);
}

// A copy that outlives the ELF handle. One per string table, not one per name.
std::span<const uint8_t> keep(std::span<const uint8_t> bytes, SymbolSources& sources) {
  sources.texts.push_back(
      std::make_unique<std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const std::string& kept = *sources.texts.back();
  return {reinterpret_cast<const uint8_t*>(kept.data()), kept.size()};
}

std::span<const uint8_t> linked_strings(const ElfFile& file, const Section& table) {
  for (const Section& section : file.sections()) {
    if (elf_ndxscn(section.handle) == table.header.sh_link) {
      return section.header.sh_type == SHT_STRTAB ? file.bytes(section)
                                                  : std::span<const uint8_t>{};
    }
  }
  return {};
}

int entry_count(const Elf_Data& data, size_t entry_bytes) {
  size_t count = data.d_size / entry_bytes;
  constexpr size_t kMax = std::numeric_limits<int>::max();
  return static_cast<int>(count < kMax ? count : kMax);
}

// The candidate for one symbol, or nothing if it is no function of the module.
std::optional<SymbolCandidate> candidate_for(const GElf_Sym& symbol,
                                             const std::vector<SectionFacts>& sections,
                                             const AddressMap& module, uint64_t bias) {
  uint8_t type = GELF_ST_TYPE(symbol.st_info);
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || !may_be_function(type)) {
    return std::nullopt;
  }
  uint64_t address = symbol.st_value + bias;
  const Segment* segment = module.segment_of(address);
  if (segment == nullptr || !segment->executable) return std::nullopt;
  uint64_t end = segment->vaddr + segment->file_size;
  if (symbol.st_shndx < sections.size() && sections[symbol.st_shndx].known) {
    const SectionFacts& section = sections[symbol.st_shndx];
    if (!section.executable) return std::nullopt;
    uint64_t section_end = section.end + bias;
    if (section_end > address && section_end < end) end = section_end;
    if (section_end == address) return std::nullopt;  // etext and the like: a place, no function
  }
  uint64_t to_offset = segment->offset - segment->vaddr;  // modulo 2^64
  uint8_t binding = GELF_ST_BIND(symbol.st_info);
  SymbolCandidate candidate;
  candidate.offset = address + to_offset;
  candidate.size = symbol.st_size;
  candidate.limit = end + to_offset;
  candidate.exported = binding != STB_LOCAL;
  candidate.typed = type != STT_NOTYPE;
  return candidate;
}

}  // namespace

void collect_symbols(const ElfFile& file, uint32_t type, const AddressMap& module, uint64_t bias,
                     SymbolSources& sources) {
  std::vector<SectionFacts> facts = section_facts(file);
  for (const Section& section : file.sections()) {
    if (section.header.sh_type != type) continue;
    Elf_Data* data = file.data(section);
    std::span<const uint8_t> strings = linked_strings(file, section);
    if (data == nullptr || data->d_type != ELF_T_SYM || strings.empty()) continue;
    strings = keep(strings, sources);
    const auto count = static_cast<size_t>(entry_count(*data, sizeof(Elf64_Sym)));
    for (size_t i = 0; i < count; ++i) {
      Elf64_Sym symbol;  // gelf_getsym would take a lock for each
      std::memcpy(&symbol, static_cast<const char*>(data->d_buf) + i * sizeof symbol,
                  sizeof symbol);
      std::optional<SymbolCandidate> candidate = candidate_for(symbol, facts, module, bias);
      if (!candidate) continue;
      candidate->name = without_version(ElfFile::string_at(strings, symbol.st_name));
      if (!candidate->name.empty()) sources.candidates.push_back(*candidate);
    }
    return;  // the ABI allows one of each
  }
}

namespace {

// What the dynamic linker puts into the module's pointer slots, by the slot's address.
struct Slots {
  std::unordered_map<uint64_t, std::string_view> by_address;
  std::vector<std::string_view> lazy;  // by index, as lazy stubs push it
  // For IRELATIVE relocations, named after the function that chooses the implementation.
  std::unordered_map<uint64_t, std::string_view> resolvers;
};

// Real files have two or three of each kind; a file with thousands wants to waste our time.
constexpr int kMaxSectionsOfAKind = 16;

void read_relocations(const ElfFile& module, const Section& section, SymbolSources& sources,
                      Slots& slots) {
  Elf_Data* data = module.data(section);
  if (data == nullptr) return;
  Elf_Data* symbols = nullptr;
  std::span<const uint8_t> strings;
  for (const Section& table : module.sections()) {
    if (elf_ndxscn(table.handle) != section.header.sh_link) continue;
    if (table.header.sh_type != SHT_DYNSYM && table.header.sh_type != SHT_SYMTAB) continue;
    symbols = module.data(table);
    strings = keep(linked_strings(module, table), sources);
    break;
  }
  bool is_plt = section.name == ".rela.plt";
  int count = entry_count(*data, sizeof(Elf64_Rela));
  for (int i = 0; i < count; ++i) {
    GElf_Rela relocation;
    if (gelf_getrela(data, i, &relocation) == nullptr) break;
    auto kind = GELF_R_TYPE(relocation.r_info);
    std::string_view name;
    if (kind == R_X86_64_JUMP_SLOT || kind == R_X86_64_GLOB_DAT) {
      GElf_Sym symbol;
      size_t index = GELF_R_SYM(relocation.r_info);
      if (symbols != nullptr && index <= INT32_MAX &&
          gelf_getsym(symbols, static_cast<int>(index), &symbol) != nullptr) {
        name = ElfFile::string_at(strings, symbol.st_name);
      }
    } else if (kind == R_X86_64_IRELATIVE) {
      auto offset = module.addresses().to_offset(static_cast<uint64_t>(relocation.r_addend));
      if (slots.resolvers.empty()) {
        for (const SymbolCandidate& c : sources.candidates)
          slots.resolvers.emplace(c.offset, c.name);
      }
      auto resolver = offset ? slots.resolvers.find(*offset) : slots.resolvers.end();
      if (resolver != slots.resolvers.end()) name = resolver->second;
    }
    if (is_plt) slots.lazy.push_back(name);
    if (!name.empty()) slots.by_address[relocation.r_offset] = name;
  }
}

int32_t read_i32(std::span<const uint8_t> bytes, size_t at) {
  int32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// The name of the stub whose bytes these are; empty where it is none.
std::string_view stub_target(std::span<const uint8_t> stub, uint64_t address, const Slots& slots) {
  for (size_t i = 0; i + 6 <= stub.size(); ++i) {
    if (stub[i] != 0xFF || stub[i + 1] != 0x25) continue;  // jmp qword ptr [rip + disp32]
    auto slot = slots.by_address.find(address + i + 6 +
                                      static_cast<uint64_t>(int64_t{read_i32(stub, i + 2)}));
    return slot == slots.by_address.end() ? std::string_view{} : slot->second;
  }
  constexpr uint8_t kEndbr64[] = {0xF3, 0x0F, 0x1E, 0xFA};
  size_t at = stub.size() >= 9 && std::memcmp(stub.data(), kEndbr64, 4) == 0 ? 4 : 0;
  if (stub.size() < at + 5 || stub[at] != 0x68) return {};  // push imm32
  auto index = static_cast<uint32_t>(read_i32(stub, at + 1));
  return index < slots.lazy.size() ? slots.lazy[index] : std::string_view{};
}

}  // namespace

void collect_plt_stubs(const ElfFile& module, SymbolSources& sources) {
  Slots slots;
  int relocation_sections = 0;
  for (const Section& section : module.sections()) {
    bool loaded = (section.header.sh_flags & SHF_ALLOC) != 0;
    if (section.header.sh_type == SHT_RELA && loaded &&
        relocation_sections++ < kMaxSectionsOfAKind) {
      read_relocations(module, section, sources, slots);
    }
  }
  int stub_sections = 0;
  for (const Section& section : module.sections()) {
    if (!section.name.starts_with(".plt") || !section.executable()) continue;
    if (stub_sections++ >= kMaxSectionsOfAKind) break;
    std::span<const uint8_t> bytes = module.bytes(section);
    auto offset = module.addresses().to_offset(section.header.sh_addr);
    if (!offset) continue;
    uint64_t size = section.header.sh_entsize == 8 ? 8 : 16;
    for (uint64_t at = 0; at + size <= bytes.size(); at += size) {
      std::string_view name =
          stub_target(bytes.subspan(at, size), section.header.sh_addr + at, slots);
      sources.plt_stubs.push_back({*offset + at, size, name});
    }
  }
}

}  // namespace shadowprof::symbols
