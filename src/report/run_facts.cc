// SPDX-License-Identifier: MIT
#include "report/run_facts.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include "report/columns.h"

namespace shadowprof::report {

int64_t started_us(const std::string& utc) {
  tm parts{};
  const char* end = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return 0;
  return int64_t{::timegm(&parts)} * 1'000'000;
}

std::string command_line(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::string program_name(const profile::Run& run) {
  return run.command.empty() ? "" : file_name(run.command[0]);
}

uint64_t duration_ns(const profile::Run& run) {
  return static_cast<uint64_t>(std::clamp(run.duration_s, 0.0, 1e9) * 1e9);
}

uint64_t tick_ns(const profile::ProcessorTime& time) {
  if (time.ticks == 0) return 0;
  return static_cast<uint64_t>(std::clamp(time.seconds(), 0.0, 1e9) * 1e9 /
                               static_cast<double>(time.ticks));
}

int64_t as_signed(uint64_t n) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(std::min(n, kMost));
}

std::vector<uint64_t> module_ends(const profile::Profile& profile) {
  std::vector<uint64_t> end(profile.modules.size(), 1);
  const auto reach = [&](profile::CodeRef at, uint64_t size) {
    end[at.module] = std::max(end[at.module], at.offset + size);
  };
  for (const profile::BlockCount& b : profile.tables.blocks) reach(b.at, b.size);
  for (const profile::ContextRow& c : profile.tables.contexts)
    if (is_code(c)) reach(c.at, 1);
  for (const profile::TimeRow& t : profile.tables.time) reach(t.at, 1);
  return end;
}

}  // namespace shadowprof::report
