// SPDX-License-Identifier: MIT
#include "kernel/host_checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

#include "base/unique_fd.h"

namespace shadowprof::kernel {
namespace {

// A profile of a large program has some tens of megabytes; it is written beside the old one.
constexpr uint64_t kEnoughSpace = uint64_t{256} << 20;
constexpr size_t kMostText = 64 << 10;

// A line of a file of /proc; "" where there is none.
std::string text_of(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::string text(kMostText, '\0');
  const ssize_t n = fd.valid() ? ::read(fd.get(), text.data(), text.size()) : 0;
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// The value behind "key : " in /proc/cpuinfo, of the first processor.
std::string cpu_field(std::string_view cpuinfo, std::string_view key) {
  size_t at = 0;
  while (at < cpuinfo.size()) {
    const std::string line = first_line(cpuinfo.substr(at));
    const size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(colon + 2);
    at += line.size() + 1;
  }
  return "";
}

bool has_word(const std::string& words, const std::string& word) {
  return (" " + words + " ").find(" " + word + " ") != std::string::npos;
}

}  // namespace

HostCheck check_ptrace_scope(std::string_view text, bool privileged) {
  HostCheck check{"ptrace_scope", true, "", ""};
  if (text.empty()) {
    check.finding = "not restricted (this kernel has no Yama)";
    return check;
  }
  const std::string scope = first_line(text);
  check.finding = "kernel.yama.ptrace_scope is " + scope;
  check.good = scope == "0" || (privileged && scope != "3");
  if (!check.good)
    check.advice =
        scope == "1"   ? "run works; attach needs root, or sysctl kernel.yama.ptrace_scope=0"
        : scope == "2" ? "only root may trace: sysctl kernel.yama.ptrace_scope=1 allows run to all"
                       : "nobody may trace until the next boot; set it to 1 in /etc/sysctl.d";
  return check;
}

HostCheck check_overcommit(std::string_view text) {
  HostCheck check{"overcommit", true, "vm.overcommit_memory is " + first_line(text), ""};
  if (text.empty()) check.finding = "vm.overcommit_memory cannot be read";
  check.good = first_line(text) != "2";
  if (!check.good)
    check.advice =
        "programs with much memory are profiled in bursts instead of replicas; sysctl "
        "vm.overcommit_memory=0";
  return check;
}

HostCheck check_cpu(std::string_view cpuinfo) {
  const std::string flags = cpu_field(cpuinfo, "flags");
  HostCheck check{"cpu", true, cpu_field(cpuinfo, "model name"), ""};
  if (check.finding.empty()) check.finding = "unknown processor";
  check.good = has_word(flags, "constant_tsc") && has_word(flags, "nonstop_tsc");
  if (!check.good)
    check.advice =
        "its time stamp counter may change speed: latency profiles are not to be trusted here";
  return check;
}

HostCheck check_cores(unsigned usable) {
  HostCheck check{"cores", usable > 1, fmt::format("{} usable", usable), ""};
  if (!check.good)
    check.advice = "replicas take time from the program: give it a second core for shadow mode";
  return check;
}

HostCheck check_space(std::string_view directory, uint64_t free_bytes, bool writable) {
  HostCheck check{"output", true, fmt::format("{} MiB free in {}", free_bytes >> 20, directory),
                  ""};
  check.good = writable && free_bytes >= kEnoughSpace;
  if (!writable)
    check.advice = "it cannot be written: name another place with -o";
  else if (!check.good)
    check.advice = "a large program's profile may not fit: name another place with -o";
  return check;
}

std::vector<HostCheck> check_host(const std::string& directory) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const bool known = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0;
  struct statvfs fs {};
  const bool sized = ::statvfs(directory.c_str(), &fs) == 0;
  return {check_ptrace_scope(text_of("/proc/sys/kernel/yama/ptrace_scope"), ::geteuid() == 0),
          check_overcommit(text_of("/proc/sys/vm/overcommit_memory")),
          check_cpu(text_of("/proc/cpuinfo")),
          check_cores(known ? static_cast<unsigned>(CPU_COUNT(&cpus)) : 1),
          check_space(directory, sized ? uint64_t{fs.f_bavail} * fs.f_frsize : 0,
                      ::access(directory.c_str(), W_OK) == 0)};
}

}  // namespace shadowprof::kernel
