// SPDX-License-Identifier: MIT
//
// Go's table of functions in each of its layouts, written here from what nm says of a program whose
// own symbols are gone; and, where there is a Go program, its own.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../temporary_folder.h"
#include "symbols/module_symbols.h"
#include "tools.h"

using namespace shadowprof::symbols;
using namespace symbols_test;
using shadowprof::test::TemporaryFolder;

namespace {

struct GoFunction {
  uint64_t start;
  std::string name;
};

// Each function's file is the second of a unit's, its first four bytes are of line 7, and the rest
// of line 5.
constexpr uint32_t kFileSteps = 0, kLineSteps = 8, kUnit = 1;
const std::string kSteps("\x04\xff\x7f\0\0\0\0\0\x10\x04\x03\xff\x7f\0\0\0", 16);
const std::string kFiles("a.go\0\0\0\0/src/b.go\0\0\0\0\0\0\0", 24);

class TableWriter {
 public:
  template <typename T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put(const std::string& bytes) { bytes_ += bytes; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// `functions` are in order, the last one is where the one before ends. Word: of the table.
template <typename Word>
std::string functions_table(const std::vector<GoFunction>& functions, uint64_t text, Word base,
                            std::vector<uint32_t> name_offsets) {
  TableWriter table, more;
  const size_t count = functions.size() - 1;
  const auto table_bytes = static_cast<Word>((2 * count + 1) * sizeof(Word));
  for (size_t i = 0; i < count; i++) {
    table.put(static_cast<Word>(functions[i].start - text));
    table.put(static_cast<Word>(base + table_bytes + more.bytes().size()));
    more.put(static_cast<Word>(functions[i].start - text));
    more.put(name_offsets[i]);
    for (const uint32_t field : {0u, 0u, 0u, kFileSteps, kLineSteps, 0u, kUnit}) more.put(field);
  }
  table.put(static_cast<Word>(functions.back().start - text));
  return table.bytes() + more.bytes();
}

std::string table_of(uint32_t magic, const std::vector<GoFunction>& functions, uint64_t text) {
  std::string names;
  std::vector<uint32_t> name_offsets;
  for (const GoFunction& f : functions) {
    name_offsets.push_back(static_cast<uint32_t>(names.size()));
    names += f.name + '\0';
  }
  names.resize((names.size() + 7) / 8 * 8);
  TableWriter all;
  all.put(magic);
  all.put(uint32_t{0x08010000});
  const uint64_t count = functions.size() - 1;
  all.put(count);
  if (magic == 0xFFFFFFFB) {
    // Names are behind the functions, and so is where they are.
    const size_t names_at = 16 + (2 * count + 1) * 8 + count * 40;
    for (uint32_t& offset : name_offsets) offset += static_cast<uint32_t>(names_at);
    all.put(functions_table<uint64_t>(functions, 0, 16, name_offsets));
    all.put(names);
    return all.bytes();
  }
  const bool is_relative = magic != 0xFFFFFFFA;
  const uint64_t header_bytes = is_relative ? 72 : 64;
  all.put(uint64_t{0});
  if (is_relative) all.put(text);
  all.put(header_bytes);
  constexpr size_t kUnitBytes = 16;
  const uint64_t units = header_bytes + names.size(), files = units + kUnitBytes;
  all.put(units);
  all.put(files);
  all.put(files + kFiles.size());
  all.put(files + kFiles.size() + kSteps.size());
  all.put(names);
  for (const uint32_t file : {~0u, ~0u, 8u, ~0u}) all.put(file);
  all.put(kFiles);
  all.put(kSteps);
  all.put(is_relative ? functions_table<uint32_t>(functions, text, 0, name_offsets)
                      : functions_table<uint64_t>(functions, 0, 0, name_offsets));
  return all.bytes();
}

// Three functions of the subject that follow one another, under other names.
std::vector<GoFunction> some_functions() {
  std::vector<GoFunction> functions;
  for (const std::string& line :
       split_lines(output_of("nm -n --defined-only " + subject("nopie")))) {
    std::istringstream words(line);
    GoFunction f;
    std::string type;
    words >> std::hex >> f.start >> type;
    if (words.fail() || (type != "T" && type != "t") || functions.size() == 4) continue;
    if (!functions.empty() && functions.back().start == f.start) continue;
    f.name = "main.(*T" + std::to_string(functions.size()) + ").run";
    functions.push_back(f);
  }
  REQUIRE(functions.size() == 4);
  return functions;
}

std::string with_table(const TemporaryFolder& directory, const std::string& table) {
  const std::string path = directory / "go";
  write_file(directory / "table", table);
  output_of("strip -o " + path + " " + subject("nopie"));
  output_of("objcopy --add-section .gopclntab=" + (directory / "table") + " " + path);
  return path;
}

// Where the C compiler's linker puts it.
std::string with_table_among_others(const TemporaryFolder& directory, const std::string& table) {
  const std::string path = directory / "go";
  write_file(directory / "table", std::string(40, 'x') + table);
  output_of("strip -o " + path + " " + subject("nopie"));
  output_of("objcopy --rename-section .data.rel.ro=.others --add-section .data.rel.ro=" +
            (directory / "table") + " --add-section .go.buildinfo=" + (directory / "table") + " " +
            path);
  return path;
}

}  // namespace

TEST_CASE("a stripped Go program has the names and lines of its own table") {
  if (!have_tool("nm") || !have_tool("objcopy")) return;
  const std::vector<GoFunction> functions = some_functions();
  for (const uint32_t magic : {0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF0, 0xFFFFFFF1}) {
    CAPTURE(magic);
    const TemporaryFolder directory;
    const std::string table = table_of(magic, functions, functions.front().start - 16);
    const auto module = load(with_table(directory, table), {{}});
    for (size_t i = 0; i + 1 < functions.size(); i++) {
      const auto offset = module->addresses().to_offset(functions[i].start);
      REQUIRE(offset);
      const auto symbol = module->find(*offset);
      REQUIRE(symbol);
      CHECK(symbol->name == functions[i].name);
      CHECK(symbol->size == functions[i + 1].start - functions[i].start);
      const auto first = module->lines(*offset), rest = module->lines(*offset + 4);
      CHECK(first.size() == (magic != 0xFFFFFFFB));  // the oldest is not read for lines
      if (first.empty()) continue;
      REQUIRE(rest.size() == 1);
      CHECK(first[0].line == 7);
      CHECK(rest[0].line == 5);
      CHECK(rest[0].file == "/src/b.go");
      CHECK(rest[0].function == functions[i].name);
    }
  }
}

TEST_CASE("the table is found among other data, too") {
  if (!have_tool("nm") || !have_tool("objcopy")) return;
  const std::vector<GoFunction> functions = some_functions();
  const TemporaryFolder directory;
  const std::string table = table_of(0xFFFFFFF1, functions, functions.front().start);
  const auto module = load(with_table_among_others(directory, table), {{}});
  const auto offset = module->addresses().to_offset(functions[1].start);
  REQUIRE(offset);
  const auto symbol = module->find(*offset);
  REQUIRE(symbol);
  CHECK(symbol->name == functions[1].name);
}

TEST_CASE("whatever is in such a table does no harm") {
  if (!have_tool("nm") || !have_tool("objcopy")) return;
  const std::vector<GoFunction> functions = some_functions();
  std::mt19937_64 random(11);
  for (const uint32_t magic : {0xFFFFFFFB, 0xFFFFFFF1, 0xFFFFFFF7}) {
    const std::string whole = table_of(magic, functions, functions.front().start);
    for (int round = 0; round < 12; round++) {
      std::string table = whole;
      if (round < 4) table.resize(1 + random() % whole.size());
      // Its first bytes say what it is.
      for (int i = 4; i < round; i++)
        table[4 + random() % (table.size() - 4)] = static_cast<char>(random());
      const TemporaryFolder directory;
      const auto module = load(with_table(directory, table), {{}});
      CHECK(module->function_count() < 1000);
      for (const Symbol& symbol : module->functions()) (void)module->lines(symbol.offset + 4);
    }
  }
}
