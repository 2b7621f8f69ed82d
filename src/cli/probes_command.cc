// SPDX-License-Identifier: MIT
//
// `shadowprof probes`: the language of --probe in short, and examples. Tests run each of them.
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"

namespace shadowprof::cli {
namespace {

struct Example {
  const char* what;
  const char* probe;
};

constexpr Example kExamples[] = {
    {"how much is copied, by who asks for it (names of a library's functions: see below)",
     "sizes: on entry mem*@plt capture arg2 key caller => log2"},
    {"what is divided by, and for whom", "divisors: on div capture divisor key caller"},
    {"arguments of a function", "arguments: on entry main capture arg0"},
    {"which locks, or other atomic variables, are written from where",
     "locks: on atomic capture addr key pc"},
    {"vector loads that are not aligned", "alignment: on vector load capture addr % size key pc"},
    {"where calls go", "targets: on call capture target key pc"},
    {"by which calls a program comes to its divisions", "ways: on div key pc, stack 4"},
    {"stores of zero in one module", "zeros: on store key pc when value == 0"},
    {"how many cycles loads take, by instruction (burst mode needs --engine translator)",
     "cycles: on load capture latency key pc => log2"},
    {"what the threads with such a name load",
     "workers: on load in thread worker* capture size key pc"},
    {"one in 100 of large blocks, after the first 1,000",
     "large: on entry *alloc*@plt capture arg0 when arg0 >= 4096 and after 1000 and every 100"},
};

constexpr const char* kGrammar =
    R"(shadowprof run --probe '[NAME:] [on] PATTERN [capture EXPR, ...] [key EXPR, ...]
                        [when CONDITION] [=> ACTION]' PROGRAM

PATTERN    entry FUNCTION                the first instruction of a function
           [CLASS ...] [insn MNEMONIC] [in FUNCTION] [at FILE:LINE[-LINE]]
           either also [in thread NAME]
CLASS      load store call ret branch jump atomic div vector any; all that are named
FUNCTION   a name, or MODULE!NAME; * and ? stand for any characters
EXPR       value addr size target caller pc divisor latency; arg0 to arg5 at
           entries, calls and jumps; rax to r15; numbers;
           + - * / % & | ^ << >> ~ ( );
           or by itself: stack, stack N (the N innermost calls; 8)
CONDITION  the same with == != < <= > >= and or not; every N, after N
ACTION     values (what captures are counted by), log2 (by powers of two), count

Examples:
)";

std::string as_text() {
  std::string text = kGrammar;
  for (const Example& example : kExamples)
    text += fmt::format("\n  {}\n    {}\n", example.what, example.probe);
  text +=
      "\nThe C library chooses how memcpy is done when a program starts, and the function that "
      "does\n"
      "it has no name in a stripped library. The stub that a program calls it by has: "
      "memcpy@plt.\n";
  return text;
}

std::string as_json() {
  auto rows = nlohmann::ordered_json::array();
  for (const Example& example : kExamples)
    rows.push_back({{"what", example.what}, {"probe", example.probe}});
  return rows.dump(2) + "\n";
}

}  // namespace

int probes_main(int argc, char** argv) {
  CLI::App app("Prints the language of --probe in short, and examples.", "shadowprof probes");
  bool json = false;
  app.add_flag("--json", json, "print the examples, as an array of objects");
  const Usage usage = {
      "",
      {"shadowprof probes", "shadowprof run --probe 'divisors: on div capture divisor' ./program"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (const Status printed = print(json ? as_json() : as_text()); !printed) {
    error("{}", printed.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
