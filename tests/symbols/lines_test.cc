// SPDX-License-Identifier: MIT
//
// Source positions compared with addr2line on random addresses.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "symbols/module_symbols.h"
#include "tools.h"

using namespace shadowprof::symbols;
using namespace symbols_test;

namespace {

std::unique_ptr<ModuleSymbols> load(const std::string& path) {
  ModuleSource source;
  source.path = path;
  auto module = ModuleSymbols::load(std::move(source));
  REQUIRE_MESSAGE(module.has_value(), module.error().message);
  return std::move(*module);
}

// "file:line" of each frame, innermost first; file names without their directories, since tools
// differ in how much of "./../" they take out.
std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::vector<std::string>> addr2line(const std::string& path,
                                                const std::vector<uint64_t>& addresses) {
  TemporaryDirectory directory;
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
