// SPDX-License-Identifier: MIT
//
// What src/symbols says about addresses of a file: for bench/symbols.py.
//
//   bench_symbolise FILE [--time] <ADDRESSES
//
// ADDRESSES are link-time ones in hexadecimal, one a line. For each it prints
// "address<TAB>function", where nothing may stand behind the tab, and from the debug information
// "<TAB>function<TAB>file:line" for each inlined call and the function, innermost first. With
// --time nothing but how long the answers took and how much memory the process had at most.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "symbols/module_symbols.h"

namespace {

using shadowprof::symbols::ModuleSource;
using shadowprof::symbols::ModuleSymbols;
using shadowprof::symbols::SourceFrame;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void print(const ModuleSymbols& module, uint64_t address) {
  const auto offset = module.addresses().to_offset(address);
  const auto symbol = offset ? module.find(*offset) : std::nullopt;
  fmt::print("{:#x}\t{}\n", address, symbol ? symbol->name : "");
  if (!offset) return;
  for (const SourceFrame& f : module.lines(*offset))
    fmt::print("\t{}\t{}:{}\n", f.function, f.file, f.line);
}

}  // namespace

int main(int argc, char** argv) {
  const bool timed = argc == 3 && std::string_view(argv[2]) == "--time";
  if (argc != 2 && !timed) {
    std::cerr << "usage: bench_symbolise FILE [--time] <ADDRESSES\n";
    return 125;
  }
  std::vector<uint64_t> addresses;
  for (std::string line; std::getline(std::cin, line);)
    addresses.push_back(std::strtoull(line.c_str(), nullptr, 16));
  const auto start = std::chrono::steady_clock::now();
  ModuleSource source;
  source.path = argv[1];
  const auto module = ModuleSymbols::load(std::move(source));
  if (!module) {
    std::cerr << module.error().message << '\n';
    return 125;
  }
  if (!timed) {
    for (const uint64_t address : addresses) print(**module, address);
    return 0;
  }
  size_t known = 0;
  for (const uint64_t address : addresses)
    if (const auto offset = (*module)->addresses().to_offset(address))
      known += (*module)->lines(*offset).empty() ? 0 : 1;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("{} addresses, {} with a line, {:.2f} s, {} MB\n", addresses.size(), known,
             seconds_since(start), usage.ru_maxrss / 1024);
}
