// SPDX-License-Identifier: MIT
//
// Holds the rows of syscalls.inc, an index by number, and the compile-time checks: rows are sorted
// and say why, and every call of the system's header has its row under the same name.
#include "kernel/table.h"

#include <array>
#include <cstddef>

namespace shadowprof::kernel {
namespace {

consteval auto make_rows() {
  using enum SyscallClass;
  using enum SyscallFlag;
#define SYSCALL(nr, name, syscall_class, flags, reason) \
  SyscallRow{nr, #name, syscall_class, flags, reason},
  return std::to_array<SyscallRow>({
#include "kernel/syscalls.inc"
  });
#undef SYSCALL
}

constexpr auto kRows = make_rows();
constexpr size_t kNumbers = static_cast<size_t>(kRows.back().nr) + 1;
constexpr uint16_t kNoRow = UINT16_MAX;

consteval bool rows_are_sorted() {
  for (size_t i = 1; i < kRows.size(); ++i)
    if (kRows[i - 1].nr >= kRows[i].nr) return false;
  return kRows.front().nr >= 0;
}
static_assert(rows_are_sorted(), "syscalls.inc is not in ascending order of the numbers");

consteval bool rows_say_why() {
  for (const SyscallRow& row : kRows)
    if (row.name.empty() || row.reason.empty()) return false;
  return true;
}
static_assert(rows_say_why(), "syscalls.inc has a row without a name or a reason");

consteval auto make_index() {
  std::array<uint16_t, kNumbers> index{};
  index.fill(kNoRow);
  for (size_t i = 0; i < kRows.size(); ++i)
    index[static_cast<size_t>(kRows[i].nr)] = static_cast<uint16_t>(i);
  return index;
}
constexpr auto kRowOfNumber = make_index();

consteval bool has_row(int nr, std::string_view name) {
  if (nr < 0 || static_cast<size_t>(nr) >= kNumbers) return false;
  const uint16_t row = kRowOfNumber[static_cast<size_t>(nr)];
  return row != kNoRow && kRows[row].name == name;
}

// Made by list_syscalls.py out of <asm/unistd_64.h> of the compiler that builds this file.
#define CHECK_ROW(name, nr) \
  static_assert(has_row(nr, #name), "syscalls.inc has no row for " #name ", number " #nr);
#include "kernel/syscalls_of_header.inc"
#undef CHECK_ROW

struct FlagName {
  SyscallFlag flag;
  std::string_view name;
};
constexpr FlagName kFlagNames[] = {
    {SyscallFlag::returns_count, "returns_count"},
    {SyscallFlag::time, "time"},
    {SyscallFlag::pid, "pid"},
    {SyscallFlag::blocks, "blocks"},
    {SyscallFlag::memory_map, "memory_map"},
    {SyscallFlag::signal, "signal"},
    {SyscallFlag::fd, "fd"},
    {SyscallFlag::process, "process"},
    {SyscallFlag::thread_state, "thread_state"},
};

}  // namespace

std::string_view to_string(SyscallClass c) {
  switch (c) {
    case SyscallClass::benign:
      return "benign";
    case SyscallClass::output:
      return "output";
    case SyscallClass::input:
      return "input";
    case SyscallClass::misc:
      return "misc";
    case SyscallClass::unsafe:
      return "unsafe";
  }
  return "unsafe";
}

std::vector<std::string_view> to_strings(SyscallFlag flags) {
  std::vector<std::string_view> names;
  for (const FlagName& f : kFlagNames)
    if ((static_cast<uint16_t>(flags) & static_cast<uint16_t>(f.flag)) != 0)
      names.push_back(f.name);
  return names;
}

const SyscallRow* find_syscall(long nr) {
  if (nr < 0 || static_cast<size_t>(nr) >= kNumbers) return nullptr;
  const uint16_t row = kRowOfNumber[static_cast<size_t>(nr)];
  return row == kNoRow ? nullptr : &kRows[row];
}

std::span<const SyscallRow> all_syscalls() {
  return kRows;
}

}  // namespace shadowprof::kernel
