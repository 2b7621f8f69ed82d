// SPDX-License-Identifier: MIT
//
// Source positions compared with addr2line on random addresses.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "../temporary_folder.h"
#include "base/unique_fd.h"
#include "symbols/module_symbols.h"
#include "symbols/unpacked_debug.h"
#include "tools.h"

using namespace shadowprof::symbols;
using namespace symbols_test;
using shadowprof::test::TemporaryFolder;

namespace {

// "file:line" of each frame, innermost first; file names without their directories, since tools
// differ in how much of "./../" they take out.
std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::vector<std::string>> addr2line(const std::string& path,
                                                const std::vector<uint64_t>& addresses) {
  TemporaryFolder directory;
  std::ofstream list(directory / "addresses");
  for (uint64_t address : addresses) list << std::hex << address << "\n";
  list.close();
  std::vector<std::vector<std::string>> answers;
  for (const std::string& line :
       split_lines(output_of("addr2line -iae " + path + " < " + (directory / "addresses")))) {
    if (line.starts_with("0x")) {
      answers.emplace_back();
    } else {
      std::string place = line.substr(0, line.find(" (discriminator"));
      size_t colon = place.rfind(':');
      std::string number = place.substr(colon);
      answers.back().push_back(base_name(place.substr(0, colon)) +
                               (number == ":?" ? ":0" : number));
    }
  }
  return answers;
}

// Random addresses inside of functions.
std::vector<uint64_t> some_addresses(const ModuleSymbols& module, size_t count) {
  std::vector<Symbol> functions = module.functions();
  std::mt19937_64 random(11);
  std::vector<uint64_t> addresses;
  while (addresses.size() < count) {
    const Symbol& function = functions[random() % functions.size()];
    addresses.push_back(*module.addresses().to_vaddr(function.offset + random() % function.size));
  }
  return addresses;
}

// Keeps ":58" of "file.c:58".
std::string line_of(const std::string& place) {
  return place.substr(place.rfind(':'));
}

enum class Compare { files_and_lines, lines };

void compare_with_addr2line(const std::string& path, const std::string& debug_path, Compare what,
                            size_t count) {
  CAPTURE(path);
  auto module = load(path);
  std::vector<uint64_t> addresses = some_addresses(*module, count);
  auto expected = addr2line(debug_path, addresses);
  REQUIRE(expected.size() == addresses.size());
  size_t known = 0;
  size_t different = 0;
  for (size_t i = 0; i < addresses.size(); ++i) {
    std::vector<std::string> ours;
    for (const SourceFrame& frame : module->lines(*module->addresses().to_offset(addresses[i]))) {
      ours.push_back(base_name(frame.file) + ":" + std::to_string(frame.line));
    }
    if (ours.empty()) ours.push_back("??:0");
    if (ours[0] != "??:0") ++known;
    if (what == Compare::lines) {
      for (std::string& place : ours) place = line_of(place);
      for (std::string& place : expected[i]) place = line_of(place);
    }
    // Where nothing is known, addr2line shows the name of the object file.
    if (ours[0] == "??:0" && expected[i][0].ends_with(":0")) continue;
    // addr2line of binutils 2.40 misses inlined calls in clang's DWARF 5.
    if (expected[i].size() == 1 && ours.size() > 1) ours.resize(1);
    if (ours == expected[i]) continue;
    ++different;
    MESSAGE(addresses[i] << ": " << ours[0] << " x" << ours.size() << ", addr2line "
                         << expected[i][0] << " x" << expected[i].size());
  }
  CHECK(known > count / 10);
  CHECK(different <= count / 200);
}

}  // namespace

TEST_CASE("lines and inlined calls are those of addr2line, in every layout") {
  if (!have_tool("addr2line")) return;
  for (const std::string& path : subjects()) {
    compare_with_addr2line(path, path, Compare::files_and_lines, 1000);
  };
}

TEST_CASE("lines and inlined calls of compressed debug information are those of addr2line") {
  if (!have_tool("addr2line") || !have_tool("objcopy")) return;
  TemporaryFolder directory;
  const std::string packed = directory / "packed";
  output_of("objcopy --compress-debug-sections=zlib " + subject("pie") + " " + packed);
  compare_with_addr2line(packed, subject("pie"), Compare::files_and_lines, 1000);
}

TEST_CASE("what is unpacked is what was packed, and no more than is read") {
  if (!have_tool("objcopy")) return;
  TemporaryFolder directory;
  const std::string packed = directory / "packed";
  output_of("objcopy --compress-debug-sections=zlib " + subject("pie") + " " + packed);
  const auto open_file = [](const std::string& path) {
    return shadowprof::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  };
  const auto plain_fd = open_file(subject("pie"));
  const auto packed_fd = open_file(packed);
  const auto plain = ElfFile::from_fd(plain_fd.get(), "plain");
  const auto compressed = ElfFile::from_fd(packed_fd.get(), "packed");
  REQUIRE(plain);
  REQUIRE(compressed);
  CHECK(!unpack_debug_sections(*plain));
  const auto image = unpack_debug_sections(*compressed);
  // As clang writes DWARF 5; libdw unpacks it.
  if (plain->section(".debug_addr")) {
    CHECK(!image);
    return;
  }
  REQUIRE(image);
  const auto unpacked = ElfFile::from_memory(image->span(), "unpacked");
  REQUIRE(unpacked);
  for (const char* name : {".debug_info", ".debug_abbrev", ".debug_line", ".debug_str"}) {
    CAPTURE(name);
    REQUIRE(plain->section(name));
    REQUIRE(unpacked->section(name));
    CHECK((unpacked->section(name)->header.sh_flags & SHF_COMPRESSED) == 0);
    CHECK(std::ranges::equal(plain->bytes(*plain->section(name)),
                             unpacked->bytes(*unpacked->section(name))));
  }
  for (const char* name : {".debug_loclists", ".debug_loc", ".text", ".symtab"}) {
    CAPTURE(name);
    CHECK(unpacked->section(name) == nullptr);
  }
}

TEST_CASE("lines from a separate debug file are those of addr2line") {
  const char* libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
  if (!have_tool("addr2line") || !std::filesystem::exists(libc)) return;
  std::string debug = load(libc)->debug_file();
  if (debug.empty()) {
    MESSAGE("skipped: the C library's debug file is not installed");
    return;
  }
  // For a function out of an included file, addr2line of binutils 2.40 names the including one.
  compare_with_addr2line(libc, debug, Compare::lines, 1000);
}

TEST_CASE("an inlined chain names its functions from the inside out") {
  auto module = load(subject("pie"));
  bool seen = false;
  for (const Symbol& function : module->functions()) {
    if (function.name != "subject::Worker::total() const") continue;
    for (uint64_t at = 0; at < function.size; ++at) {
      auto frames = module->lines(function.offset + at);
      if (frames.size() != 3 || frames[0].function != "subject::scramble(unsigned int)") continue;
      seen = true;
      CHECK(frames[1].function == "subject::twice(unsigned int)");
      CHECK(frames[2].function == "subject::Worker::total() const");
      CHECK(frames[0].file.ends_with("tests/symbols/subject.cc"));
      CHECK(frames[2].function_line > 0);
      CHECK(frames[2].line > frames[2].function_line);
    }
  }
  CHECK(seen);
}

TEST_CASE("a lambda that was inlined is named with the function it is written in") {
  auto module = load(subject("pie"));
  std::string lambda;
  for (const Symbol& function : module->functions()) {
    if (function.name != "local_helper(int)") continue;
    for (uint64_t at = 0; at < function.size; ++at) {
      auto frames = module->lines(function.offset + at);
      if (frames.size() == 3) lambda = frames[0].function;
    }
  }
  CHECK(lambda.starts_with("subject::with_lambda"));
  CHECK(lambda.find("::{lambda") != std::string::npos);
  CHECK(lambda.find("::operator()") != std::string::npos);
}

TEST_CASE("stretches have the inlined calls that each of their addresses has") {
  for (const std::string& path : subjects()) {
    CAPTURE(path);
    auto module = load(path);
    size_t inlined = 0;
    for (const Symbol& function : module->functions()) {
      const auto stretches = module->inlined(function.offset, function.size);
      uint64_t expected = function.offset;
      for (const InlinedStretch& stretch : stretches) {
        REQUIRE(stretch.start == expected);
        REQUIRE(stretch.end > stretch.start);
        expected = stretch.end;
        for (const uint64_t at : {stretch.start, stretch.end - 1}) {
          const auto frames = module->lines(at);
          uint32_t call = stretch.call;
          for (size_t i = 0; i + 1 < frames.size(); i++) {
            REQUIRE(call != kNoInlinedCall);
            const InlinedCall named = module->inlined_call(call);
            CHECK(named.function == frames[i].function);
            CHECK(named.line == frames[i].function_line);
            CHECK(named.call_line == frames[i + 1].line);
            CHECK(named.call_file == frames[i + 1].file);
            if (named.line != 0) CHECK(!named.file.empty());
            call = named.outer;
            inlined++;
          }
          CHECK(call == kNoInlinedCall);
          if (!frames.empty()) CHECK(stretch.known);
        }
      }
      if (function.size != 0) CHECK(expected == function.offset + function.size);
    }
    CHECK(inlined > 0);
  }
}

TEST_CASE("code without debug information is not known") {
  if (!have_tool("strip")) return;
  TemporaryFolder directory;
  const std::string stripped = directory / "stripped";
  output_of("strip -o " + stripped + " " + subject("pie"));
  auto module = load(stripped);
  const Symbol function = module->functions().at(0);
  const auto stretches = module->inlined(function.offset, 8);
  REQUIRE(stretches.size() == 1);
  CHECK(!stretches[0].known);
  CHECK(stretches[0].call == kNoInlinedCall);
}

TEST_CASE("several threads may ask one module") {
  auto module = load(subject("pie"));
  std::vector<uint64_t> addresses = some_addresses(*module, 500);
  auto ask = [&](std::vector<uint32_t>& lines) {
    for (uint64_t address : addresses) {
      auto frames = module->lines(*module->addresses().to_offset(address));
      lines.push_back(frames.empty() ? 0 : frames[0].line);
    }
  };
  std::vector<std::vector<uint32_t>> answers(4);
  std::vector<std::thread> threads;
  for (auto& answer : answers) threads.emplace_back(ask, std::ref(answer));
  for (std::thread& thread : threads) thread.join();
  for (const auto& answer : answers) CHECK(answer == answers[0]);
}
