// SPDX-License-Identifier: MIT
//
// `shadowprof doctor`: what works on this host, and what helps where something does not. What is
// needed is tried out and not inferred; in the end a program (this one, printing its version) is
// profiled in each mode.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/pipe.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "clock/cpu_clock.h"
#include "inject/bursts.h"
#include "kernel/features.h"
#include "kernel/host_checks.h"
#include "ptrace/hardware_breakpoint.h"
#include "ptrace/id_space.h"
#include "report/columns.h"
#include "symbols/source_lines.h"

extern char** environ;

namespace shadowprof::cli {
namespace {

struct Finding {
  std::string name;
  std::string state;  // ok, limited, fails
  std::string text;
  std::string advice;
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return text;
}

// Profiles this program. "" when it went well, else what it said.
std::string trial(const std::string& mode) {
  Pipe words_said;
  if (!words_said.open()) return "cannot make a pipe";
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, words_said.writer.get(), STDERR_FILENO);
  const std::vector<std::string> words = {"shadowprof", "run", "--mode",         mode,       "-o",
                                          "/dev/null",  "--",  "/proc/self/exe", "--version"};
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  words_said.writer.reset();
  if (error != 0) return "cannot start this program again";
  std::string said = read_all(words_said.reader.get());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return said.empty() ? "the program did not end as it should" : said;
}

// Which source of processor time a run would have (sample/time_watch.h).
Finding time_source() {
  constexpr std::chrono::milliseconds kPeriod{10};
  const auto clock = clock::CpuClock::open(kPeriod);
  if (!clock)
    return {"time", "limited", "no processor time: " + clock.error().message,
            "--time looks tells it roughly; where the setting is the reason: "
            "sysctl kernel.perf_event_paranoid=2"};
  if (!clock->sees_kernel())
    return {"time", "limited", "by the kernel's clock, in user mode only",
            "the kernel's time is a sum, and no function's: sysctl kernel.perf_event_paranoid=1"};
  if (clock->whose() == clock::EventsOf::threads)
    return {"time", "limited", "by the kernel's clock, one for each thread",
            "programs that switch threads often pay for that; one for each processor: as root, or "
            "sysctl kernel.perf_event_paranoid=0"};
  return {"time", "ok", "by the kernel's clock, one for each processor", ""};
}

// What some hypervisors hide or take without effect.
void examine_processor(std::vector<Finding>& findings) {
  const bool traps = ptrace::hardware_breakpoints_trap();
  findings.push_back({"debug_registers", traps ? "ok" : "limited",
                      traps ? "breakpoints of the processor trap"
                            : "breakpoints of the processor are taken, and do not trap",
                      "rseq(2) is refused in full mode: programs do without, as on older kernels"});
  const bool has_bases = inject::Bursts::check_host(false).has_value();
  findings.push_back({"gs_base", has_bases ? "ok" : "limited",
                      has_bases ? "user instructions for it (FSGSBASE)"
                                : "no user instructions for it (FSGSBASE)",
                      "--mode burst --engine translator records counts only; other engines and "
                      "modes do not need them"});
}

void examine_id_space(std::vector<Finding>& findings) {
  const bool has_own = ptrace::IdSpace::is_permitted();
  findings.push_back({"process_ids", has_own ? "ok" : "limited",
                      has_own ? "--deterministic gives a program process ids of its own"
                              : "no PID and user namespaces for us",
                      "--deterministic leaves the real process ids: who prints them, or draws "
                      "numbers by them, counts differently in each run"});
}

Finding finding_of(const kernel::Feature& f) {
  if (f.works) return {std::string(f.name), "ok", std::string(f.purpose), ""};
  if (f.without.empty()) return {std::string(f.name), "fails", std::string(f.purpose), f.problem};
  return {std::string(f.name), "limited", fmt::format("{}: {}", f.purpose, f.without), f.problem};
}

// What was found out, and the modes that work.
struct Examination {
  std::vector<Finding> findings;
  std::vector<std::string> modes;
};

constexpr std::array<std::string_view, 3> kTriedModes = {"full", "shadow", "burst"};

Examination examine() {
  Examination found;
  std::vector<Finding>& findings = found.findings;
  for (const kernel::Feature& f : kernel::probe_features()) findings.push_back(finding_of(f));
  for (kernel::HostCheck& c : kernel::check_host("."))
    findings.push_back({std::string(c.name), c.good ? "ok" : "limited", std::move(c.finding),
                        std::move(c.advice)});
  examine_processor(findings);
  examine_id_space(findings);
  findings.push_back(time_source());
  const symbols::DebugLibrary library = symbols::debug_library();
  findings.push_back({"split_dwarf", library.reads_packages ? "ok" : "limited",
                      library.name + (library.reads_packages ? " reads .dwo and .dwp files"
                                                             : " reads .dwo files, .dwp files not"),
                      library.reads_packages
                          ? ""
                          : "code whose debug information is in a .dwp file has lines, but no "
                            "inlined calls: keep its .dwo files, or use elfutils 0.191 or later"});
  for (const std::string_view mode : kTriedModes) {
    const std::string said = trial(std::string(mode));
    findings.push_back({std::string(mode), said.empty() ? "ok" : "fails",
                        fmt::format("profiled a program in {} mode", mode), said});
    if (said.empty()) found.modes.emplace_back(mode);
  }
  return found;
}

std::string as_text(const Examination& found) {
  std::string text;
  for (const Finding& f : found.findings) {
    const bool tried = f.state == "fails" && std::ranges::count(kTriedModes, f.name) != 0;
    text += fmt::format("{:<8} {:<20} {}\n", f.state, f.name,
                        report::printable(tried ? "could not be tried out" : f.text));
    if (f.state != "ok") text += fmt::format("{:>29} {}\n", "->", report::printable(f.advice));
  }
  if (found.modes.empty()) return text + "\nProfiling does not work here.\n";
  if (found.modes.size() == kTriedModes.size()) return text + "\nProfiling works here.\n";
  return text +
         fmt::format("\nProfiling works here in {} mode alone.\n", fmt::join(found.modes, " and "));
}

std::string as_json(const Examination& found) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Finding& f : found.findings) {
    Json one = {{"name", f.name}, {"state", f.state}, {"finding", f.text}};
    if (f.state != "ok" && !f.advice.empty()) one["advice"] = f.advice;
    list.push_back(std::move(one));
  }
  const Json json = {{"works", !found.modes.empty()}, {"findings", std::move(list)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int doctor_main(int argc, char** argv) {
  CLI::App app("Says what works on this host, and what helps where something does not.",
               "shadowprof doctor");
  bool json = false;
  app.add_flag("--json", json, "print an object instead of lines");
  const Usage usage = {"",
                       {"shadowprof doctor",
                        "shadowprof doctor --json | jq '.findings[] | select(.state != \"ok\")'"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  const Examination found = examine();
  if (const Status printed = print(json ? as_json(found) : as_text(found)); !printed) {
    error("{}", printed.error().message);
    return kExitOwnFailure;
  }
  return found.modes.empty() ? kExitOwnFailure : kExitOk;
}

}  // namespace shadowprof::cli
