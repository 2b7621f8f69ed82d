// SPDX-License-Identifier: MIT
//
// Holds the rows of syscalls.inc, an index by number, and the compile-time checks: rows are sorted
// and say why, and every call of the system's header has its row under the same name.
#include "kernel/table.h"

#include <array>
#include <cstddef>

namespace shadowprof::kernel {
namespace {

struct HandlerFacts {
  std::string_view name;
  SyscallClass syscall_class;
  SyscallEffects effects;
  std::string_view note;
};

consteval auto make_handlers() {
  using enum SyscallClass;
  using enum SyscallEffects;
#define HANDLER(name, syscall_class, effects, note) \
  HandlerFacts{#name, syscall_class, effects, note},
  return std::to_array<HandlerFacts>({
#include "kernel/syscall_handlers.inc"
  });
#undef HANDLER
}
constexpr auto kHandlers = make_handlers();

consteval SyscallRow make_row(int nr, std::string_view name, SyscallHandler handler,
                              SyscallFlag flags, KeptCall kept, std::string_view reason) {
  const HandlerFacts& facts = kHandlers[static_cast<size_t>(handler)];
  return {nr, name, handler, facts.syscall_class, facts.effects, facts.note, flags, kept, reason};
}

consteval auto make_rows() {
  using enum SyscallFlag;
#define SYSCALL(nr, name, handler, flags, kept, reason) \
  make_row(nr, #name, SyscallHandler::handler, flags, KeptCall::kept, reason),
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

// What a class promises holds for each of its handlers.
consteval bool handlers_suit_their_class() {
  using enum SyscallEffects;
  for (const HandlerFacts& handler : kHandlers) {
    if (handler.syscall_class == SyscallClass::output && !has(handler.effects, answered))
      return false;
    if (handler.syscall_class == SyscallClass::input && !has(handler.effects, ends)) return false;
    if (handler.note.empty() && handler.effects != made && handler.effects != ends) return false;
  }
  return true;
}
static_assert(handlers_suit_their_class(),
              "syscall_handlers.inc has an effect against its class, or one without a note");

consteval bool handlers_are_used() {
  for (size_t i = 0; i < kHandlers.size(); ++i) {
    bool used = false;
    for (const SyscallRow& row : kRows) used |= row.handler == static_cast<SyscallHandler>(i);
    if (!used) return false;
  }
  return true;
}
static_assert(handlers_are_used(), "syscall_handlers.inc has a handler that no row names");

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
    {SyscallFlag::returns_fd, "returns_fd"},
    {SyscallFlag::in_registers, "in_registers"},
};

struct EffectName {
  SyscallEffects effect;
  std::string_view name;   // in JSON
  std::string_view words;  // for people
};
constexpr EffectName kEffectNames[] = {
    {SyscallEffects::made, "made", "made"},
    {SyscallEffects::answered, "answered", "answered"},
    {SyscallEffects::ends, "ends", "ends the sample"},
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

std::vector<std::string_view> to_strings(SyscallEffects effects) {
  std::vector<std::string_view> names;
  for (const EffectName& e : kEffectNames)
    if (has(effects, e.effect)) names.push_back(e.name);
  return names;
}

std::string describe(const SyscallRow& row) {
  std::string text;
  for (const EffectName& e : kEffectNames) {
    if (!has(row.effects, e.effect)) continue;
    if (!text.empty()) text += " or ";
    text += e.words;
  }
  if (!row.note.empty()) (text += ": ") += row.note;
  if (has(row.effects, SyscallEffects::ends) && row.kept != KeptCall::not_kept)
    text += row.note.empty() ? ", if no answer to the program is kept"
                             : "; an answer to the program that is kept is taken instead";
  return text;
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
