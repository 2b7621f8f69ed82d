// SPDX-License-Identifier: MIT
#include "cli/process_names.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "base/file_name.h"
#include "base/printable.h"
#include "kernel/proc.h"
#include "report/columns.h"

namespace shadowprof::cli {
namespace {

constexpr size_t kMostListed = 6;
constexpr size_t kMostOfCommand = 40;  // letters

struct Candidate {
  int pid = 0;
  std::string command;
};

// We and our parents up to the first process: a shell script is not called for its own name.
std::set<int> own_line() {
  std::set<int> line;
  for (int pid = ::getpid(); pid > 0 && line.insert(pid).second;) {
    const auto status = kernel::read_status(Tid(pid));
    pid = status ? status->parent.value : 0;
  }
  return line;
}

bool is_called(int pid, const std::string& name, const std::vector<std::string>& command) {
  if (kernel::thread_name(Tid(pid), Tid(pid)) == name) return true;
  if (file_name(command.front()) == name) return true;
  std::error_code none;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), none).filename() == name;
}

// A process without a command is one of the kernel's, or has ended.
std::vector<Candidate> candidates(const std::string& name) {
  std::vector<Candidate> found;
  const std::set<int> ours = own_line();
  for (const Tid process : kernel::list_tasks("/proc").value_or(std::vector<Tid>())) {
    const int pid = process.value;
    const std::vector<std::string> command = kernel::read_command(process);
    if (command.empty() || ours.contains(pid) || !is_called(pid, name, command)) continue;
    // What tells them apart are arguments rather than folders.
    std::string text = file_name(command.front());
    for (size_t i = 1; i < command.size(); i++) text += " " + command[i];
    found.push_back({pid, report::fit(printable(text), kMostOfCommand)});
  }
  return found;
}

}  // namespace

bool is_process_name(const std::string& word) {
  return word.find_first_not_of("0123456789,") != std::string::npos;
}

Result<int> process_called(const std::string& name) {
  const std::vector<Candidate> found = candidates(name);
  if (found.empty())
    return fail("'{}' is not a process id, and no process is called so", printable(name));
  if (found.size() == 1) return found.front().pid;
  std::string list;
  for (size_t i = 0; i < std::min(found.size(), kMostListed); i++)
    list += fmt::format("{}{} ({})", i == 0 ? "" : ", ", found[i].pid, found[i].command);
  if (found.size() > kMostListed) list += fmt::format(", and {} more", found.size() - kMostListed);
  return fail("{} processes are called '{}', give the id of one: {}", found.size(),
              printable(name), list);
}

}  // namespace shadowprof::cli
