// SPDX-License-Identifier: MIT
//
// One ELF file, opened for reading: its loadable segments, its sections, its build-id. Everything
// in a file is untrusted: libelf refuses headers that point outside the file, and nothing here
// trusts a size that it did not check.
//
// Offsets. A profile counts addresses from where the file's first byte is (or would be) mapped by
// the mapping that an instruction lies in: that is the instruction's offset in the file. Linkers
// need not keep the distance between address and file offset equal for all segments (lld does
// not), prelink moves addresses, and non-PIE files start anywhere; file offsets are right for all
// of them: offset = st_value - p_vaddr + p_offset of the PT_LOAD that holds the symbol.
#pragma once

#include <gelf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shadowprof::symbols {

// A longer name is cut off here. The limit also keeps a string table without a single NUL from
// costing its whole length per symbol.
inline constexpr size_t kMaxNameBytes = 32768;

// A PT_LOAD: file bytes [offset, offset + file_size) at link-time address `vaddr`.
struct Segment {
  uint64_t vaddr = 0;
  uint64_t offset = 0;
  uint64_t file_size = 0;
  bool executable = false;
  bool writable = false;
};

// Between link-time addresses and file offsets.
class AddressMap {
 public:
  AddressMap() = default;
  explicit AddressMap(std::vector<Segment> segments) : segments_(std::move(segments)) {}

  // The loaded segment whose file bytes hold this address.
  const Segment* segment_of(uint64_t vaddr) const;
  std::optional<uint64_t> to_offset(uint64_t vaddr) const;
  // Executable segments win where two segments share a page of the file.
  std::optional<uint64_t> to_vaddr(uint64_t offset) const;
  // What lies `distance` bytes from the code at this offset is in the file, and the program cannot
  // write to it.
  bool is_constant(uint64_t offset, int64_t distance) const;

  const std::vector<Segment>& segments() const { return segments_; }

 private:
  std::vector<Segment> segments_;
};

struct Section {
  Elf_Scn* handle = nullptr;
  GElf_Shdr header{};
  std::string name;

  bool executable() const { return (header.sh_flags & SHF_EXECINSTR) != 0; }
};

class ElfFile {
 public:
  // Reads with pread: a file that somebody truncates meanwhile gives an error, where a mapping of
  // it would give SIGBUS. The descriptor (or memory) must outlive the object.
  static Result<ElfFile> from_fd(int fd, const std::string& name);
  static Result<ElfFile> from_memory(std::span<char> image, const std::string& name);

  Elf* handle() const { return elf_.get(); }
  const GElf_Ehdr& header() const { return header_; }
  const AddressMap& addresses() const { return addresses_; }
  const std::vector<Section>& sections() const { return sections_; }
  // The first section of that name, or null.
  const Section* section(std::string_view name) const;
  // Null where the section has no bytes in the file.
  Elf_Data* data(const Section& section) const;
  std::span<const uint8_t> bytes(const Section& section) const;
  // The string at `offset` of string table `table`, or its first kMaxNameBytes; empty where it lies
  // outside of the table or does not end within it.
  static std::string_view string_at(std::span<const uint8_t> table, uint64_t offset);
  // Lowercase hexadecimal; empty where the file has none.
  std::string build_id() const;

 private:
  struct Closer {
    void operator()(Elf* elf) const { elf_end(elf); }
  };

  static Result<ElfFile> adopt(Elf* elf, const std::string& name);
  Status read_segments(const std::string& name);
  void read_sections();

  std::unique_ptr<Elf, Closer> elf_;
  GElf_Ehdr header_{};
  AddressMap addresses_;
  std::vector<Section> sections_;
};

}  // namespace shadowprof::symbols
