// SPDX-License-Identifier: MIT
#include "cache/slots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/spread.h"
#include "ptrace/tracee.h"
#include "trace/block_table.h"

namespace shadowprof::cache {
namespace {

constexpr bool are_in_mask_bytes(ptrace::SignalMask signals) {
  for (const uint8_t byte : emu::kMaskBytes) signals &= ~(ptrace::SignalMask{0xff} << 8 * byte);
  return signals == 0;
}
static_assert(are_in_mask_bytes(ptrace::kInstructionSignals));

}  // namespace

Result<SlotGroup> SlotGroup::create(emu::Recording recording) {
  SlotGroup group;
  const size_t bytes = group.bytes = kSlotsPerGroup * emu::slot_bytes(recording);
  group.memfd = UniqueFd(::memfd_create("shadowprof-slots", MFD_CLOEXEC));
  if (!group.memfd.valid()) return fail_errno(errno, "cannot create trace buffers (memfd_create)");
  if (::ftruncate(group.memfd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail_errno(errno, "cannot size the trace buffers to {} bytes", bytes);
  }
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                   group.memfd.get(), 0);
  if (p == MAP_FAILED) return fail_errno(errno, "cannot map {} bytes of trace buffers", bytes);
  group.host = static_cast<uint8_t*>(p);
  return group;
}

Result<SlotGroup> SlotGroup::create_behind(const SlotGroup& first, size_t index,
                                           emu::Recording recording) {
  SlotGroup group;
  group.bytes = kSlotsPerGroup * emu::slot_bytes(recording);
  const auto offset = static_cast<off_t>(index * group.bytes);
  if (::ftruncate(first.memfd.get(), offset + static_cast<off_t>(group.bytes)) != 0) {
    return fail_errno(errno, "cannot size the trace buffers to {} groups", index + 1);
  }
  void* p = ::mmap(nullptr, group.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                   first.memfd.get(), offset);
  if (p == MAP_FAILED)
    return fail_errno(errno, "cannot map {} bytes of trace buffers", group.bytes);
  group.host = static_cast<uint8_t*>(p);
  return group;
}

SlotGroup& SlotGroup::operator=(SlotGroup&& other) noexcept {
  memfd = std::move(other.memfd);
  std::swap(host, other.host);
  guest_base = other.guest_base;
  bytes = other.bytes;
  return *this;
}

SlotGroup::SlotGroup(SlotGroup&& other) noexcept
    : memfd(std::move(other.memfd)),
      host(std::exchange(other.host, nullptr)),
      guest_base(other.guest_base),
      bytes(other.bytes) {}

SlotGroup::~SlotGroup() {
  if (host) ::munmap(host, bytes);
}

void Slot::trap_all_calls(bool all) {
  uint8_t* kinds = host + emu::kSyscallKindsOffset;
  for (unsigned nr = 0; nr < kListedCalls; nr++) {
    const bool traps = all || watched[nr];
    kinds[nr] = static_cast<uint8_t>(traps ? emu::SyscallKind::tracer : call_kinds(nr));
  }
}

void Slot::watch(unsigned number) {
  watched.set(number);
  (host + emu::kSyscallKindsOffset)[number] = static_cast<uint8_t>(emu::SyscallKind::tracer);
}

void Slot::unwatch(unsigned number) {
  watched.reset(number);
  (host + emu::kSyscallKindsOffset)[number] = static_cast<uint8_t>(call_kinds(number));
}

void Slot::trap_masks(bool all) {
  const bool are_all = state().masks_plain[0][0] == 0;  // as in a page that is new
  if (all == are_all) return;
  for (size_t i = 0; i < emu::kMaskBytes.size(); i++) {
    const auto raised = static_cast<uint8_t>(ptrace::kInstructionSignals >> 8 * emu::kMaskBytes[i]);
    for (unsigned byte = 0; byte < 256; byte++)
      state().masks_plain[i][byte] = !all && (byte & raised) == 0;
  }
}

void Slot::initialise(CallKinds kinds) {
  call_kinds = kinds;
  std::memset(host + emu::kSyscallKindsOffset, static_cast<int>(kinds(kListedCalls)),
              emu::kSyscallKindsBytes);
  trap_all_calls(false);
  state().log_left = emu::kLogEntries;
  for (unsigned i = 0; i < 256; i++) {
    state().mmap_prot_plain[i] = (i & PROT_EXEC) == 0;
    state().mmap_flags_plain[i] = (i & MAP_FIXED) == 0;
    state().open_flags_plain[i] = (i & O_ACCMODE) == O_RDONLY;
    state().signals_plain[i] = std::ranges::count(kOwnSignals, static_cast<int>(i)) == 0;
    state().trace_requests_plain[i] =
        i != (kTraceMe & 0xff) && i != (kTraceAttach & 0xff) && i != (kTraceSeize & 0xff);
  }
  trap_masks(false);
  initialised = true;
}

// From one bout to the next any number of executions is as likely as what is left of it, so that no
// rhythm of the program's is that of bouts.
void Slot::draw_bouts(double share) {
  constexpr double kMostExecutions = UINT32_MAX;
  std::array<double, emu::kBoutGaps> drawn;
  for (size_t i = 0; i < drawn.size(); i++) {
    const uint64_t mixed = spread(guest + i + 1);
    // The logarithm of what lies between 0 and 1.
    drawn[i] = -std::log((static_cast<double>(spread(mixed ^ mixed >> 32) >> 32) + 0.5) * 0x1p-32);
  }
  const double all = std::accumulate(drawn.begin(), drawn.end(), 0.0);
  const double mean = share <= 0 ? kMostExecutions : trace::kBoutExecutions * (1 / share - 1);
  emu::StatePage& page = state();
  for (size_t i = 0; i < drawn.size(); i++) {
    const double gap = std::min(kMostExecutions, mean * drawn[i] / all * emu::kBoutGaps);
    page.bout_gaps[i] = static_cast<uint32_t>(std::round(gap));
  }
  if (page.bout_left != 0) return;
  page.bout_left = trace::kBoutExecutions;
  page.bout_gap = page.bout_gaps[0];
}

}  // namespace shadowprof::cache
