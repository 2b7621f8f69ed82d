// SPDX-License-Identifier: MIT
#include "probe/host_notes.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>

#include "probe/describe_host.h"

namespace shadowprof::probe {
namespace {

constexpr std::string_view kFirstLine = "shadowprof host notes 1\n";
constexpr std::string_view kLastLine = "end\n";
constexpr size_t kMostNoteBytes = 4096;

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string identity_of_host() {
  const std::string boot = boot_id();
  if (boot.empty()) return {};
  const profile::Host host = describe_host();
  return fmt::format("boot {}\ncpu {}\nkernel {}\ncores {}\nversion {}\n", boot, host.cpu,
                     host.kernel, host.cores, SHADOWPROF_VERSION);
}

// A line for each; empty: one of them is none.
std::vector<double> parse_numbers(std::string_view lines) {
  std::vector<double> numbers;
  while (!lines.empty()) {
    double number = 0;
    const auto [end, error] = std::from_chars(lines.data(), lines.data() + lines.size(), number);
    if (error != std::errc() || !std::isfinite(number)) return {};
    lines.remove_prefix(static_cast<size_t>(end - lines.data()));
    if (!lines.starts_with('\n')) return {};
    lines.remove_prefix(1);
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

HostNotes::HostNotes() : folder_(CacheFolder::of_user()), identity_(identity_of_host()) {
  if (identity_.empty()) folder_ = CacheFolder();
}

HostNotes::HostNotes(const std::string& folder, std::string identity)
    : folder_(CacheFolder::at(folder)), identity_(std::move(identity)) {}

std::vector<double> HostNotes::load(const std::string& name) const {
  const std::optional<std::string> whole = folder_.read(name, kMostNoteBytes);
  if (!whole) return {};
  std::string_view text = *whole;
  const std::string head = std::string(kFirstLine) + identity_;
  if (!text.starts_with(head) || !text.ends_with(kLastLine)) return {};
  text.remove_prefix(head.size());
  if (text.size() < kLastLine.size()) return {};
  text.remove_suffix(kLastLine.size());
  return parse_numbers(text);
}

void HostNotes::store(const std::string& name, std::span<const double> numbers) const {
  std::string text = std::string(kFirstLine) + identity_;
  for (const double number : numbers) text += fmt::format("{}\n", number);
  text += kLastLine;
  folder_.write(name, text);
}

}  // namespace shadowprof::probe
