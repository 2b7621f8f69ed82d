// SPDX-License-Identifier: MIT
//
// Parse, dispatch a subcommand, exit code.
#include <fmt/format.h>

#include <string_view>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/version.h"
#include "report/columns.h"

namespace {

using namespace shadowprof;

struct Command {
  std::string_view name;
  int (*run)(int argc, char** argv);
  std::string_view summary;
};

constexpr Command kCommands[] = {
    {"run", cli::run_main, "profile a program from its start"},
    {"attach", cli::attach_main, "profile a running process"},
    {"report", cli::report_main, "hotlists of a profile as text, HTML or JSON"},
    {"annotate", cli::annotate_main, "a function's source and instructions with counts"},
    {"compare", cli::compare_main, "measure a sampled profile by a perfect one"},
    {"diff", cli::diff_main, "what changed between two profiles"},
    {"check", cli::check_main, "the gate for CI: exit status 3 when a limit is exceeded"},
    {"merge", cli::merge_main, "many profiles as one"},
    {"export", cli::export_main, "a profile as the file of another tool"},
    {"doctor", cli::doctor_main, "what works on this host, and what helps where it does not"},
    {"syscalls", cli::syscalls_main, "print the system call classification table"},
};

int print_text(std::string_view text) {
  if (const Status printed = cli::print(text); !printed) {
    error("{}", printed.error().message);
    return cli::kExitOwnFailure;
  }
  return cli::kExitOk;
}

int print_help() {
  std::string text = "Usage: shadowprof COMMAND [OPTIONS] ...\n\n";
  for (const Command& c : kCommands) text += fmt::format("  {:<10} {}\n", c.name, c.summary);
  text +=
      "\nshadowprof COMMAND --help says more about each.\n\n"
      "Example:\n  shadowprof run -o app.json -- ./app args\n  shadowprof report app.json\n";
  return print_text(text);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    error("no command given (see shadowprof --help)");
    return cli::kExitOwnFailure;
  }
  const std::string_view name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") return print_help();
  if (name == "--version") {
    return print_text(fmt::format("shadowprof {}\n", cli::version()));
  }
  for (const Command& c : kCommands) {
    if (c.name == name) return c.run(argc - 1, argv + 1);
  }
  error("unknown command '{}' (see shadowprof --help)", report::printable(name));
  return cli::kExitOwnFailure;
}
