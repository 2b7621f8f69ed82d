// SPDX-License-Identifier: MIT
//
// `shadowprof syscalls`: prints what happens to each system call in a replica, for people as
// columns and for programs as JSON. The output is built whole and written once, so that a failed
// write is noticed.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "kernel/table.h"

namespace shadowprof::cli {
namespace {

std::string table_as_text() {
  size_t name_width = 0;
  size_t words_width = 0;
  for (const kernel::SyscallRow& row : kernel::all_syscalls()) {
    name_width = std::max(name_width, row.name.size());
    if (row.note.empty()) words_width = std::max(words_width, describe(row).size());
  }
  std::string text;
  const auto add = [&](std::string_view nr, std::string_view name, std::string_view syscall_class,
                       std::string_view happens, std::string_view reason) {
    text += fmt::format("{:>3}  {:<{}}  {:<6}  {:<{}}  ({})\n", nr, name, name_width, syscall_class,
                        happens, words_width, reason);
  };
  add("nr", "name", "class", "in a replica", "reason");
  for (const kernel::SyscallRow& row : kernel::all_syscalls())
    add(std::to_string(row.nr), row.name, to_string(row.syscall_class), describe(row), row.reason);
  return text;
}

std::string table_as_json() {
  // Ordered: the keys of a row read in the order of the columns.
  auto rows = nlohmann::ordered_json::array();
  for (const kernel::SyscallRow& row : kernel::all_syscalls()) {
    nlohmann::ordered_json one;
    one["nr"] = row.nr;
    one["name"] = row.name;
    one["class"] = to_string(row.syscall_class);
    one["effects"] = kernel::to_strings(row.effects);
    one["in_a_replica"] = describe(row);
    one["flags"] = kernel::to_strings(row.flags);
    one["reason"] = row.reason;
    rows.push_back(std::move(one));
  }
  return rows.dump(2) + "\n";
}

}  // namespace

int syscalls_main(int argc, char** argv) {
  CLI::App app("Prints what happens to each system call in a replica of the program, and why.",
               "shadowprof syscalls");
  bool json = false;
  app.add_flag("--json", json, "print an array of objects instead of columns");
  const Usage usage = {"",
                       {"shadowprof syscalls",
                        "shadowprof syscalls --json | jq '.[] | select(.class==\"unsafe\").name'"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (const Status printed = print(json ? table_as_json() : table_as_text()); !printed) {
    error("{}", printed.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
