// SPDX-License-Identifier: MIT
//
// Names of real binaries, compared with what nm and objdump say about them.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "../temporary_folder.h"
#include "symbols/module_symbols.h"
#include "tools.h"

using namespace shadowprof::symbols;
using namespace symbols_test;
using shadowprof::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

// Without debug files.
std::unique_ptr<ModuleSymbols> load_alone(const std::string& path,
                                          const SymbolOptions& options = {{}}) {
  return load(path, options);
}

struct NmSymbol {
  uint64_t address = 0;
  uint64_t size = 0;
  std::string name;
};

std::vector<NmSymbol> nm_functions(const std::string& path, const std::string& options) {
  std::vector<NmSymbol> symbols;
  for (const std::string& line :
       split_lines(output_of("nm -S --defined-only " + options + " " + path))) {
    std::istringstream words(line);
    NmSymbol symbol;
    std::string type;
    words >> std::hex >> symbol.address >> symbol.size >> type >> symbol.name;
    if (!words.fail() && type.size() == 1 && std::strchr("tTwWi", type[0]) != nullptr) {
      symbol.name = symbol.name.substr(0, symbol.name.find('@', 1));
      symbols.push_back(symbol);
    }
  }
  return symbols;
}

// Every address in a function that nm lists belongs to a function of ours with the same start and
// one of its names.
void compare_with_nm(const std::string& path, const std::string& options) {
  CAPTURE(path);
  auto module = load_alone(path);
  std::vector<NmSymbol> expected = nm_functions(path, options);
  REQUIRE(!expected.empty());
  std::mt19937_64 random(3);
  size_t compared = 0;
  for (size_t i = 0; i < expected.size(); i += 1 + expected.size() / 3000) {
    const NmSymbol& wanted = expected[i];
    uint64_t address = wanted.address + random() % wanted.size;
    auto offset = module->addresses().to_offset(address);
    auto start = module->addresses().to_offset(wanted.address);
    if (!offset || !start) continue;  // data that nm calls weak
    CHECK(module->addresses().to_vaddr(*offset) == address);
    auto found = module->find(*offset);
    CAPTURE(wanted.name);
    if (!found) {
      // Weak data. Code is always found.
      CHECK(std::none_of(expected.begin(), expected.end(), [&](const NmSymbol& s) {
        return s.name == wanted.name && module->find(*start).has_value();
      }));
      continue;
    }
    bool listed = std::any_of(expected.begin(), expected.end(), [&](const NmSymbol& s) {
      return s.name == found->linkage_name &&
             module->addresses().to_offset(s.address) == found->offset && address >= s.address &&
             address < s.address + s.size;
    });
    CHECK_MESSAGE(listed, found->linkage_name, " for ", wanted.name);
    ++compared;
  }
  CHECK(compared > 0);
}

std::string name_of(const ModuleSymbols& module, uint64_t vaddr) {
  auto offset = module.addresses().to_offset(vaddr);
  auto symbol = offset ? module.find(*offset) : std::nullopt;
  return symbol ? symbol->name : "";
}

std::map<std::string, uint64_t> addresses_by_name(const std::string& path) {
  std::map<std::string, uint64_t> addresses;
  for (const std::string& line : split_lines(output_of("nm --defined-only " + path))) {
    std::istringstream words(line);
    uint64_t address = 0;
    std::string type;
    std::string name;
    words >> std::hex >> address >> type >> name;
    addresses[name] = address;
  }
  return addresses;
}

// What the dynamic linker puts into each slot: names of functions, without versions.
std::map<uint64_t, std::string> imports_by_slot(const std::string& path) {
  std::map<uint64_t, std::string> imports;
  for (const std::string& line : split_lines(output_of("readelf -rW " + path))) {
    std::istringstream words(line);
    uint64_t slot = 0, info = 0, value = 0;
    std::string kind, name;
    words >> std::hex >> slot >> info >> kind >> value >> name;
    if (words.fail() || (kind != "R_X86_64_JUMP_SLO" && kind != "R_X86_64_JUMP_SLOT" &&
                         kind != "R_X86_64_GLOB_DAT"))
      continue;
    imports[slot] = name.substr(0, name.find('@', 1));
  }
  return imports;
}

// The jumps through slots in the sections of linkage stubs: where each is, and its slot.
std::vector<std::pair<uint64_t, uint64_t>> jumps_in_stubs(const std::string& path) {
  std::vector<std::pair<uint64_t, uint64_t>> jumps;
  bool in_stubs = false;
  for (const std::string& line : split_lines(output_of("objdump -d --no-show-raw-insn " + path))) {
    if (line.starts_with("Disassembly of section "))
      in_stubs = line.find(" .plt") != std::string::npos;
    const size_t comment = line.find("# ");
    if (!in_stubs || line.find("jmp") == std::string::npos || comment == std::string::npos)
      continue;
    jumps.emplace_back(std::stoull(line, nullptr, 16),
                       std::stoull(line.substr(comment + 2), nullptr, 16));
  }
  return jumps;
}

}  // namespace

TEST_CASE("functions of every layout have the names that nm gives") {
  if (!have_tool("nm")) return;
  for (const std::string& path : subjects()) compare_with_nm(path, "");
}

TEST_CASE("functions of the system's libraries have the names that nm gives") {
  if (!have_tool("nm")) return;
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/libc.so.6",
                           "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/bin/python3"}) {
    if (fs::exists(path)) compare_with_nm(fs::canonical(path), "-D");
  }
}

TEST_CASE("of several names for one function the plainest is shown") {
  if (!have_tool("nm")) return;
  for (const std::string& path : subjects()) {
    auto addresses = addresses_by_name(path);
    CHECK(name_of(*load_alone(path), addresses.at("_plain_reserved") + 1) == "plain");
  }
}

TEST_CASE("a function without a size ends where the next one begins") {
  if (!have_tool("nm")) return;
  std::string path = subject("pie");
  auto module = load_alone(path);
  auto addresses = addresses_by_name(path);
  uint64_t one = addresses.at("unsized_one");
  uint64_t two = addresses.at("unsized_two");
  CHECK(name_of(*module, one) == "unsized_one");
  CHECK(name_of(*module, two - 1) == "unsized_one");
  CHECK(name_of(*module, two) == "unsized_two");
  CHECK(name_of(*module, addresses.at("unsized_end") - 1) == "unsized_two");
}

TEST_CASE("stripped functions keep their bounds and linkage stubs their names") {
  if (!have_tool("nm") || !have_tool("strip") || !have_tool("objdump") || !have_tool("readelf"))
    return;
  TemporaryFolder directory;
  for (const std::string& path : subjects()) {
    CAPTURE(path);
    std::string stripped = directory / "stripped";
    output_of("strip -o " + stripped + " " + path);
    auto full = load_alone(path);
    auto bare = load_alone(stripped);
    for (const char* name : {"main", "_ZN7subject6Worker3addEj", "_ZNK7subject6Worker5totalEv"}) {
      CAPTURE(name);
      uint64_t offset = *full->addresses().to_offset(addresses_by_name(path).at(name));
      auto symbol = bare->find(offset + 2);
      REQUIRE(symbol.has_value());
      CHECK(symbol->offset == offset);
      CHECK(symbol->size == full->find(offset)->size);
      CHECK(symbol->name == fmt::format("function@0x{:x}", offset));
      CHECK_FALSE(symbol->named);
    }
    // objdump does not know every linker's stubs, but where each jumps.
    const auto imports = imports_by_slot(stripped);
    std::set<std::string> stubs;
    for (const auto& [address, slot] : jumps_in_stubs(stripped)) {
      const auto import = imports.find(slot);
      if (import == imports.end()) continue;  // the common part's
      auto symbol = bare->find(*bare->addresses().to_offset(address));
      REQUIRE(symbol.has_value());
      CHECK(symbol->linkage_name == import->second + "@plt");
      CHECK(symbol->offset + symbol->size > *bare->addresses().to_offset(address));
      stubs.insert(import->second);
    }
    CHECK(stubs.size() > 3);
  }
}

TEST_CASE("names come from the debug file that the build-id names") {
  if (!have_tool("nm") || !have_tool("objcopy")) return;
  TemporaryFolder directory;
  std::string path = subject("nopie");
  std::string stripped = directory / "program";
  std::string id = load_alone(path)->build_id();
  REQUIRE(id.size() == 40);
  std::string folder = directory / (".build-id/" + id.substr(0, 2));
  fs::create_directories(folder);
  std::string debug = folder + "/" + id.substr(2) + ".debug";
  output_of("objcopy --only-keep-debug " + path + " " + debug);
  output_of("objcopy --strip-all " + path + " " + stripped);

  auto module = load_alone(stripped, {{directory.path()}});
  CHECK(module->debug_file() == debug);
  uint64_t main_address = addresses_by_name(path).at("main");
  uint64_t offset = *module->addresses().to_offset(main_address);
  CHECK(module->find(offset)->name == "main");
  auto frames = module->lines(offset);
  REQUIRE(!frames.empty());
  CHECK(frames.back().file.ends_with("subject.cc"));

  // The right name with the wrong content is refused.
  output_of("objcopy --only-keep-debug " + subject("pie") + " " + debug);
  CHECK(load_alone(stripped, {{directory.path()}})->debug_file().empty());
}

TEST_CASE("a debuglink counts only with the right checksum") {
  if (!have_tool("objcopy")) return;
  TemporaryFolder directory;
  std::string path = subject("pie");
  std::string stripped = directory / "program";
  std::string debug = directory / "program.debug";
  output_of("objcopy --only-keep-debug " + path + " " + debug);
  output_of("objcopy --strip-all --remove-section=.note.gnu.build-id --add-gnu-debuglink=" + debug +
            " " + path + " " + stripped);
  CHECK(load_alone(stripped)->debug_file() == debug);

  fs::create_directory(directory / ".debug");
  fs::rename(debug, directory / ".debug/program.debug");
  CHECK(load_alone(stripped)->debug_file() == directory / ".debug/program.debug");

  write_file(directory / ".debug/program.debug",
             read_file(directory / ".debug/program.debug") + "x");
  CHECK(load_alone(stripped)->debug_file().empty());
}

TEST_CASE("the compressed symbol table of .gnu_debugdata is read") {
  if (!have_tool("objcopy") || !have_tool("xz") || !have_tool("nm")) return;
  TemporaryFolder directory;
  std::string path = subject("pie");
  std::string mini = directory / "mini";
  std::string stripped = directory / "program";
  output_of("objcopy --strip-debug " + path + " " + mini + ".full && objcopy --only-keep-debug " +
            mini + ".full " + mini + " && xz -k " + mini);
  output_of("objcopy --strip-all --add-section .gnu_debugdata=" + mini + ".xz " + path + " " +
            stripped);
  auto module = load_alone(stripped);
  CHECK(name_of(*module, addresses_by_name(path).at("_ZL12local_helperi")) == "local_helper(int)");
}

TEST_CASE("a file that is not the one that ran is refused") {
  std::string right = subject("pie");
  std::string id = load_alone(right)->build_id();
  ModuleSource source;
  source.path = subject("nopie");
  source.build_id = id;
  auto refused = ModuleSymbols::load(std::move(source));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("is not the file that ran") != std::string::npos);
}

TEST_CASE("a deleted file is read through a descriptor that was opened in time") {
  TemporaryFolder directory;
  std::string copy = directory / "gone";
  fs::copy(subject("pie"), copy);
  ModuleSource source;
  source.path = copy;
  source.fd = shadowprof::UniqueFd(open(copy.c_str(), O_RDONLY | O_CLOEXEC));
  fs::remove(copy);
  auto module = ModuleSymbols::load(std::move(source), {{}});
  REQUIRE(module.has_value());
  bool found = false;
  for (const Symbol& symbol : (*module)->functions()) {
    if (symbol.name != "main") continue;
    found = true;
    CHECK(!(*module)->lines(symbol.offset).empty());
  }
  CHECK(found);
}

TEST_CASE("the vdso is read from memory") {
  std::vector<char> image;
  for (const std::string& line : split_lines(read_file("/proc/self/maps"))) {
    if (!line.ends_with("[vdso]")) continue;
    uint64_t start = std::stoull(line, nullptr, 16);
    uint64_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    image.assign(reinterpret_cast<const char*>(start), reinterpret_cast<const char*>(end));
  }
  REQUIRE(!image.empty());
  auto module = ModuleSymbols::load_image("[vdso]", std::move(image));
  REQUIRE(module.has_value());
  auto functions = (*module)->functions();
  CHECK(std::any_of(functions.begin(), functions.end(), [](const Symbol& symbol) {
    return symbol.name == "clock_gettime" || symbol.name == "__vdso_clock_gettime";
  }));
}

TEST_CASE("what is no 64-bit x86 ELF file is an error in one sentence") {
  TemporaryFolder directory;
  std::string path = directory / "file";
  for (const std::string& content : {std::string(), std::string("hello"),
                                     std::string("\x7f"
                                                 "ELF")}) {
    write_file(path, content);
    ModuleSource source;
    source.path = path;
    CHECK_FALSE(ModuleSymbols::load(std::move(source)).has_value());
  }
  ModuleSource missing;
  missing.path = directory / "missing";
  auto result = ModuleSymbols::load(std::move(missing));
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().errno_value == ENOENT);
}
