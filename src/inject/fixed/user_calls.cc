// SPDX-License-Identifier: MIT
#include "inject/fixed/user_calls.h"

#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "machine/machine_facts.h"

namespace shadowprof::inject {
namespace {

using Register = unsigned long long machine::Registers::*;

constexpr uint32_t kUser = machine::kUserId, kGroup = machine::kGroupId;
constexpr uint32_t kUnchanged = ~uint32_t{0};

enum class What { asked, told, taken_on, given };

// The owner in the structure that the kernel fills; both ids are 32 bits wide.
struct Owner {
  Register at = nullptr;  // where the structure is
  size_t user = 0, group = 0;
};

struct UserRow {
  unsigned number;
  What what;
  std::optional<int64_t> (*answer)(const UserCall&);  // of what is asked and taken on
  Owner owner;                                        // of what is told
  Register user, group;                               // of what is given
};

uint32_t id_in(uint64_t argument) {
  return static_cast<uint32_t>(argument);
}

template <uint32_t kId>
std::optional<int64_t> tell_id(const UserCall&) {
  return kId;
}

template <uint32_t kId>
std::optional<int64_t> tell_three_ids(const UserCall& call) {
  for (const uint64_t address : {call.regs.rdi, call.regs.rsi, call.regs.rdx})
    if (!call.memory.put(address, kId)) return -EFAULT;
  return 0;
}

std::optional<int64_t> tell_groups(const UserCall& call) {
  const auto room = static_cast<int>(call.regs.rdi);
  if (room < 0) return -EINVAL;
  if (room > 0 && !call.memory.put(call.regs.rsi, kGroup)) return -EFAULT;
  return 1;
}

template <uint32_t kId>
std::optional<int64_t> become(const UserCall& call) {
  return id_in(call.regs.rdi) == kId ? std::optional<int64_t>(0) : std::nullopt;
}

// The answer of such a call is who it was before.
template <uint32_t kId>
std::optional<int64_t> become_for_files(const UserCall& call) {
  const uint32_t wanted = id_in(call.regs.rdi);
  return wanted == kId || wanted == kUnchanged ? std::optional<int64_t>(kId) : std::nullopt;
}

template <uint32_t kId, size_t kCount>
std::optional<int64_t> become_all(const UserCall& call) {
  const uint64_t wanted[] = {call.regs.rdi, call.regs.rsi, call.regs.rdx};
  const bool is_same = std::all_of(wanted, wanted + kCount, [](uint64_t argument) {
    return id_in(argument) == kId || id_in(argument) == kUnchanged;
  });
  return is_same ? std::optional<int64_t>(0) : std::nullopt;
}

constexpr UserRow asked(unsigned number, std::optional<int64_t> (*answer)(const UserCall&)) {
  return {number, What::asked, answer, {}, nullptr, nullptr};
}
constexpr UserRow taken_on(unsigned number, std::optional<int64_t> (*answer)(const UserCall&)) {
  return {number, What::taken_on, answer, {}, nullptr, nullptr};
}
constexpr UserRow given(unsigned number, Register user, Register group) {
  return {number, What::given, nullptr, {}, user, group};
}
constexpr UserRow told(unsigned number, Register at) {
  const Owner owner{at, offsetof(struct stat, st_uid), offsetof(struct stat, st_gid)};
  return {number, What::told, nullptr, owner, nullptr, nullptr};
}
constexpr UserRow told_more(unsigned number, Register at) {
  const Owner owner{at, offsetof(struct statx, stx_uid), offsetof(struct statx, stx_gid)};
  return {number, What::told, nullptr, owner, nullptr, nullptr};
}

using R = machine::Registers;
constexpr UserRow kUserRows[] = {
    asked(SYS_getuid, tell_id<kUser>),
    asked(SYS_geteuid, tell_id<kUser>),
    asked(SYS_getgid, tell_id<kGroup>),
    asked(SYS_getegid, tell_id<kGroup>),
    asked(SYS_getresuid, tell_three_ids<kUser>),
    asked(SYS_getresgid, tell_three_ids<kGroup>),
    asked(SYS_getgroups, tell_groups),
    told(SYS_stat, &R::rsi),
    told(SYS_lstat, &R::rsi),
    told(SYS_fstat, &R::rsi),
    told(SYS_newfstatat, &R::rdx),
    told_more(SYS_statx, &R::r8),
    taken_on(SYS_setuid, become<kUser>),
    taken_on(SYS_setgid, become<kGroup>),
    taken_on(SYS_setfsuid, become_for_files<kUser>),
    taken_on(SYS_setfsgid, become_for_files<kGroup>),
    taken_on(SYS_setreuid, become_all<kUser, 2>),
    taken_on(SYS_setregid, become_all<kGroup, 2>),
    taken_on(SYS_setresuid, become_all<kUser, 3>),
    taken_on(SYS_setresgid, become_all<kGroup, 3>),
    given(SYS_chown, &R::rsi, &R::rdx),
    given(SYS_lchown, &R::rsi, &R::rdx),
    given(SYS_fchown, &R::rsi, &R::rdx),
    given(SYS_fchownat, &R::rdx, &R::r10),
};

constexpr auto kNumbers = [] {
  std::array<unsigned, std::size(kUserRows)> numbers{};
  std::ranges::transform(kUserRows, numbers.begin(), &UserRow::number);
  return numbers;
}();

const UserRow* row_of(const UserCall& call) {
  if (call.has_changed) return nullptr;
  const auto* it = std::ranges::find_if(kUserRows, [&](const UserRow& row) {
    return static_cast<long>(row.number) == call.number();
  });
  return it == std::end(kUserRows) ? nullptr : it;
}

}  // namespace

std::span<const unsigned> user_calls() {
  return kNumbers;
}

bool concerns_user(const UserCall& call) {
  return row_of(call) != nullptr;
}

std::optional<int64_t> answer_user_call(const UserCall& call) {
  const UserRow* row = row_of(call);
  return row != nullptr && row->answer != nullptr ? row->answer(call) : std::nullopt;
}

std::optional<machine::Registers> call_in_its_place(const UserCall& call) {
  const UserRow* row = row_of(call);
  if (row == nullptr || row->what != What::given) return std::nullopt;
  machine::Registers other = call.regs;
  if (id_in(other.*row->user) == kUser) other.*row->user = kUnchanged;
  if (id_in(other.*row->group) == kGroup) other.*row->group = kUnchanged;
  return other;
}

void mend_user_call(const UserCall& call) {
  const UserRow* row = row_of(call);
  if (row == nullptr) return;
  if (row->what == What::taken_on) call.has_changed = true;
  if (row->what != What::told) return;
  const uint64_t at = call.regs.*row->owner.at;
  (void)call.memory.put(at + row->owner.user, kUser);
  (void)call.memory.put(at + row->owner.group, kGroup);
}

}  // namespace shadowprof::inject
