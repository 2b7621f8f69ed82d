// SPDX-License-Identifier: MIT
//
// Running the tools whose answers ours are compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "symbols/module_symbols.h"

namespace symbols_test {

// Standard output of a shell command; fails the test if it fails.
std::string output_of(const std::string& command);
// False, with a message, if this tool is not installed: the caller then skips its comparison.
bool have_tool(const std::string& name);
std::vector<std::string> split_lines(const std::string& text);

// The test's build of subject.cc in all its layouts that this host can link.
std::vector<std::string> subjects();
std::string subject(const std::string& layout);

// Fails the test if it cannot.
std::unique_ptr<shadowprof::symbols::ModuleSymbols> load(
    const std::string& path, const shadowprof::symbols::SymbolOptions& options = {});

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

}  // namespace symbols_test
