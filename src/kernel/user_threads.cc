// SPDX-License-Identifier: MIT
#include "kernel/user_threads.h"

#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernel/proc.h"

namespace shadowprof::kernel {
namespace {

// So far from its bound a count need not be exact.
constexpr uint64_t kEnough = 64;

// Of the machine: "0.20 0.18 0.12 1/80 11206", of which 80.
std::optional<uint64_t> threads_of_all() {
  std::ifstream file("/proc/loadavg");
  std::string word;
  for (int i = 0; i < 4; i++) file >> word;
  const size_t slash = word.find('/');
  if (!file || slash == std::string::npos) return std::nullopt;
  uint64_t all = 0;
  std::istringstream(word.substr(slash + 1)) >> all;
  return all;
}

}  // namespace

uint64_t threads_of_user(uint32_t user, const std::string& processes) {
  uint64_t threads = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(processes, ignored)) {
    const std::string name = entry.path().filename();
    if (!std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c); })) continue;
    std::ifstream file(entry.path() / "status");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto status = parse_status(text);  // not, if it has ended meanwhile
    if (status && status->uids[0] == user) threads += status->threads;
  }
  return threads;
}

std::optional<ThreadBound> user_thread_bound(Tid process) {
  rlimit limit{};
  if (::prlimit(process.value, RLIMIT_NPROC, nullptr, &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const auto status = read_status(process);
  if (!status || status->uids[0] == 0) return std::nullopt;
  const auto all = threads_of_all();
  if (all && *all + kEnough < limit.rlim_cur) return ThreadBound{limit.rlim_cur, *all};
  return ThreadBound{limit.rlim_cur, threads_of_user(status->uids[0], "/proc")};
}

}  // namespace shadowprof::kernel
