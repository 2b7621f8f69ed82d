// SPDX-License-Identifier: MIT
//
// Parse, dispatch a subcommand, exit code.
#include <fmt/format.h>

#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/short_memory.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/version.h"
#include "kernel/elf_kind.h"

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
    {"top", cli::top_main, "watch a process: what is hot, live"},
    {"ctl", cli::ctl_main, "ask or tell a run that samples"},
    {"stat", cli::stat_main, "exact counts of a program, on one screen"},
    {"report", cli::report_main, "hotlists of a profile as text, HTML or JSON"},
    {"annotate", cli::annotate_main, "a function's source and instructions with counts"},
    {"compare", cli::compare_main, "measure a sampled profile by a perfect one"},
    {"diff", cli::diff_main, "what changed between two profiles"},
    {"check", cli::check_main, "the gate for CI: exit status 3 when a limit is exceeded"},
    {"baseline", cli::baseline_main, "keep profiles, made small, for check"},
    {"merge", cli::merge_main, "many profiles as one"},
    {"export", cli::export_main, "a profile as the file of another tool"},
    {"doctor", cli::doctor_main, "what works on this host, and what helps where it does not"},
    {"probes", cli::probes_main, "the language of probes, and examples"},
    {"syscalls", cli::syscalls_main, "what happens to each system call in a replica"},
};

int print_text(std::string_view text) {
  if (const Status printed = cli::print(text); !printed) {
    error("{}", printed.error().message);
    return cli::kExitOwnFailure;
  }
  return cli::kExitOk;
}

int print_help() {
  std::string text =
      "Usage: shadowprof COMMAND [OPTIONS] ...\n\n"
      "Examples:\n  shadowprof ./app input\n  shadowprof report\n\nCommands:\n";
  for (const Command& c : kCommands) text += fmt::format("  {:<10} {}\n", c.name, c.summary);
  text +=
      "\nshadowprof PROGRAM is shadowprof run PROGRAM.\n"
      "shadowprof help COMMAND says more about a command.\n";
  return print_text(text);
}

const Command* find_command(std::string_view name) {
  for (const Command& c : kCommands)
    if (c.name == name) return &c;
  return nullptr;
}

std::string nearest_command(std::string_view name, size_t most) {
  std::vector<std::string> names = {"help"};
  for (const Command& c : kCommands) names.emplace_back(c.name);
  return cli::nearest(name, names, most);
}

int no_such_command(std::string_view name) {
  const std::string near = nearest_command(name, 2);
  if (near.empty())
    error("there is no command '{}' and no such program (see shadowprof --help)", name);
  else
    error("there is no command '{}': did you mean {}?", name, near);
  return cli::kExitOwnFailure;
}

int help_main(int argc, char** argv) {
  if (argc < 2) return print_help();
  const Command* command = find_command(argv[1]);
  if (command == nullptr) return no_such_command(argv[1]);
  char option[] = "--help";
  char* words[] = {argv[1], option, nullptr};
  return command->run(2, words);
}

// What is no command may be a program to run. One that is called nearly like a command is not
// guessed at; a name with a slash is never a command.
int run_program(int argc, char** argv) {
  const std::string name = argv[1];
  if (name != "--" && name.find('/') == std::string::npos) {
    if (!kernel::find_program(name)) return no_such_command(name);
    if (const std::string near = nearest_command(name, 1); !near.empty()) {
      error("'{}' may be a program or a slip for {}: say shadowprof run {} for the program", name,
            near, name);
      return cli::kExitOwnFailure;
    }
  }
  return cli::run_main(argc, argv);
}

int dispatch(int argc, char** argv) {
  if (argc < 2) {
    error("no command given (see shadowprof --help)");
    return cli::kExitOwnFailure;
  }
  const std::string_view name = argv[1];
  if (name == "--help" || name == "-h") return print_help();
  if (name == "help") return help_main(argc - 1, argv + 1);
  if (name == "--version" || name == "-V") {
    return print_text(fmt::format("shadowprof {}\n", cli::version()));
  }
  if (const Command* command = find_command(name)) return command->run(argc - 1, argv + 1);
  if (name.size() > 1 && name.starts_with('-') && name != "--") {
    error("there is no option '{}' without a command (see shadowprof --help)", name);
    return cli::kExitOwnFailure;
  }
  return run_program(argc, argv);
}

// Before all objects at file scope, which get memory, too; lower priorities are the compiler's.
[[gnu::constructor(101)]] void begin_process() {
  prepare_for_short_memory();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const std::bad_alloc&) {
    error("{}", kMemoryIsShort);
    return cli::kExitOwnFailure;
  }
}
