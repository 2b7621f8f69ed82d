// SPDX-License-Identifier: MIT
//
// Files are untrusted: whatever is in them, questions get an answer or none.
#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>

#include <cstring>
#include <random>

#include "../temporary_folder.h"
#include "base/unique_fd.h"
#include "symbols/elf_file.h"
#include "symbols/module_symbols.h"
#include "tools.h"

using shadowprof::UniqueFd;
using namespace shadowprof::symbols;
using namespace symbols_test;
using shadowprof::test::TemporaryFolder;

namespace {

// Asks for everything. Returns how many functions there were.
size_t exercise(const std::string& path) {
  ModuleSource source;
  source.path = path;
  auto module = ModuleSymbols::load(std::move(source), {{}});
  if (!module) {
    CHECK(!module.error().message.empty());
    return 0;
  }
  auto functions = (*module)->functions();
  for (const Symbol& symbol : functions) {
    (*module)->find(symbol.offset + symbol.size / 2);
    (*module)->lines(symbol.offset);
    (*module)->lines(symbol.offset + symbol.size - 1);
  }
  (*module)->find(UINT64_MAX);
  (*module)->lines(UINT64_MAX);
  return functions.size();
}

struct Range {
  size_t offset;
  size_t size;
};

// Where a file's debug information lies.
std::vector<Range> debug_sections(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto file = ElfFile::from_fd(fd.get(), path);
  REQUIRE(file);
  std::vector<Range> ranges;
  for (const Section& section : file->sections()) {
    if (section.name.starts_with(".debug_") && section.header.sh_size > 0)
      ranges.push_back({section.header.sh_offset, section.header.sh_size});
  }
  return ranges;
}

template <typename T>
void overwrite(std::string& bytes, size_t at, T value) {
  REQUIRE(at + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

}  // namespace

TEST_CASE("a file cut off anywhere does no harm") {
  TemporaryFolder directory;
  std::string whole = read_file(subject("pie"));
  REQUIRE(exercise(subject("pie")) > 10);
  std::mt19937_64 random(5);
  for (int i = 0; i < 100; ++i) {
    size_t length = i < 20 ? static_cast<size_t>(i) * 16 : random() % whole.size();
    CAPTURE(length);
    write_file(directory / "cut", whole.substr(0, length));
    exercise(directory / "cut");
  }
}

TEST_CASE("flipped bits do no harm") {
  TemporaryFolder directory;
  std::string whole = read_file(subject("nopie"));
  std::string stripped_path = directory / "stripped";
  bool strips = have_tool("strip");
  if (strips) output_of("strip -o " + stripped_path + " " + subject("nopie"));
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    std::string bytes = strips && round % 4 == 0 ? read_file(stripped_path) : whole;
    size_t flips = size_t{1} << (round % 10);
    for (size_t i = 0; i < flips; ++i) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << (random() % 8));
    }
    // The identification stays, or nothing behind it would ever be looked at.
    std::memcpy(bytes.data(), whole.data(), 20);
    write_file(directory / "flipped", bytes);
    exercise(directory / "flipped");
  }
}

namespace {

void flip_bits_in_debug_information(const std::string& path, unsigned seed) {
  TemporaryFolder directory;
  const std::string whole = read_file(path);
  const std::vector<Range> ranges = debug_sections(path);
  REQUIRE(ranges.size() > 5);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    std::string bytes = whole;
    const Range& range = ranges[random() % ranges.size()];
    for (size_t flips = size_t{1} << (round % 6); flips > 0; --flips) {
      bytes[range.offset + random() % range.size] ^= static_cast<char>(1 << (random() % 8));
    }
    write_file(directory / "flipped", bytes);
    exercise(directory / "flipped");
  }
}

}  // namespace

TEST_CASE("flipped bits in debug information do no harm") {
  flip_bits_in_debug_information(subject("nopie"), 7);
}

TEST_CASE("flipped bits and absurd sizes in compressed debug information do no harm") {
  if (!have_tool("objcopy")) return;
  TemporaryFolder directory;
  const std::string packed = directory / "packed";
  output_of("objcopy --compress-debug-sections=zlib " + subject("nopie") + " " + packed);
  flip_bits_in_debug_information(packed, 8);
  const std::string whole = read_file(packed);
  for (const Range& range : debug_sections(packed)) {
    for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 29, ~uint64_t{0}}) {
      std::string bytes = whole;
      overwrite(bytes, range.offset + offsetof(Elf64_Chdr, ch_size), size);
      write_file(directory / "absurd", bytes);
      exercise(directory / "absurd");
    }
  }
}

TEST_CASE("names without an end do no harm") {
  TemporaryFolder directory;
  const std::string whole = read_file(subject("nopie"));
  for (const Range& range : debug_sections(subject("nopie"))) {
    std::string bytes = whole;
    bytes[range.offset + range.size - 1] = 'x';
    write_file(directory / "unended", bytes);
    exercise(directory / "unended");
  }
}

TEST_CASE("absurd sizes and offsets in section headers do no harm") {
  TemporaryFolder directory;
  std::string whole = read_file(subject("pie"));
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof(header));
  std::mt19937_64 random(8);
  const uint64_t absurd[] = {
      0, 1, UINT64_MAX, UINT64_MAX - 7, uint64_t{1} << 63, uint64_t{1} << 40, whole.size() - 1};
  for (size_t section = 0; section < header.e_shnum; ++section) {
    size_t at = header.e_shoff + section * sizeof(Elf64_Shdr);
    for (size_t field : {offsetof(Elf64_Shdr, sh_offset), offsetof(Elf64_Shdr, sh_size),
                         offsetof(Elf64_Shdr, sh_addr), offsetof(Elf64_Shdr, sh_entsize)}) {
      std::string bytes = whole;
      overwrite(bytes, at + field, absurd[random() % std::size(absurd)]);
      write_file(directory / "absurd", bytes);
      exercise(directory / "absurd");
    }
    std::string bytes = whole;
    overwrite(bytes, at + offsetof(Elf64_Shdr, sh_link), static_cast<uint32_t>(random()));
    overwrite(bytes, at + offsetof(Elf64_Shdr, sh_name), static_cast<uint32_t>(random()));
    write_file(directory / "absurd", bytes);
    exercise(directory / "absurd");
  }
  for (size_t segment = 0; segment < header.e_phnum; ++segment) {
    size_t at = header.e_phoff + segment * sizeof(Elf64_Phdr);
    for (size_t field : {offsetof(Elf64_Phdr, p_offset), offsetof(Elf64_Phdr, p_vaddr),
                         offsetof(Elf64_Phdr, p_filesz)}) {
      std::string bytes = whole;
      overwrite(bytes, at + field, absurd[random() % std::size(absurd)]);
      write_file(directory / "absurd", bytes);
      exercise(directory / "absurd");
    }
  }
}
