// SPDX-License-Identifier: MIT
#include "tools.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace symbols_test {

using shadowprof::symbols::ModuleSymbols;

std::unique_ptr<ModuleSymbols> load(const std::string& path,
                                    const shadowprof::symbols::SymbolOptions& options) {
  shadowprof::symbols::ModuleSource source;
  source.path = path;
  auto module = ModuleSymbols::load(std::move(source), options);
  REQUIRE_MESSAGE(module.has_value(), module.error().message);
  return std::move(*module);
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 65536> buffer;
  while (size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), got);
  int status = pclose(pipe);
  INFO(command);
  REQUIRE(status == 0);
  return text;
}

bool have_tool(const std::string& name) {
  std::string command = "command -v " + name + " >/dev/null 2>&1";
  if (std::system(command.c_str()) == 0) return true;
  MESSAGE("skipped: " << name << " is not installed");
  return false;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> subjects() {
  const char* list = std::getenv("SYMBOLS_SUBJECTS");
  REQUIRE_MESSAGE(list != nullptr, "run this through meson test: it names the subject programs");
  std::istringstream stream(list);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string subject(const std::string& layout) {
  for (const std::string& path : subjects()) {
    if (path.ends_with("subject_" + layout)) return path;
  }
  FAIL("no subject with layout " << layout);
  return {};
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  REQUIRE_MESSAGE(file.good(), path);
}

}  // namespace symbols_test
