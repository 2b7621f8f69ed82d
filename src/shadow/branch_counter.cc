// SPDX-License-Identifier: MIT
#include "shadow/branch_counter.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "base/code_writer.h"
#include "base/limits.h"
#include "cache/arena.h"

namespace shadowprof::shadow {
namespace {

constexpr uint64_t kRoomBytes = 2 * limits::kPageBytes;
// From the place, up and down: far from where a heap grows and libraries are mapped.
constexpr uint64_t kDistances[] = {0x2000'0000, 0x1000'0000, 0x3000'0000};
constexpr uint64_t kMargin = 0x10'0000;  // that nobody else has on either side, bytes
constexpr uint64_t kReach = uint64_t{1} << 31;

// A counter's instructions, and a page behind them its data, from the counter's beginning.
constexpr uint64_t kCounterBytes = 64;
constexpr uint64_t kSavedRcx = limits::kPageBytes;
constexpr uint64_t kCount = kSavedRcx + 8;

struct CounterCode {
  std::array<uint8_t, kCounterBytes> bytes{};
  uint32_t saved = 0;     // here rcx is in memory
  uint32_t restored = 0;  // here rcx is the guest's again
  uint32_t end = 0;
};

// At `counter`. Neither lea nor mov changes a flag.
CounterCode counter_code(GuestAddr counter, const CountedPlace& place) {
  CounterCode code;
  CodeWriter out(code.bytes);
  const auto rcx_and = [&](uint8_t opcode, uint64_t data) {
    out.bytes({0x48, opcode, 0x0d});
    out.displacement(static_cast<uint32_t>(data));
  };
  constexpr uint8_t kStore = 0x89;
  constexpr uint8_t kLoad = 0x8b;
  rcx_and(kStore, kSavedRcx);
  code.saved = out.offset();
  rcx_and(kLoad, kCount);
  out.bytes({0x48, 0x8d, 0x49, 0x01});  // lea rcx, [rcx + 1]
  rcx_and(kStore, kCount);
  rcx_and(kLoad, kSavedRcx);
  code.restored = out.offset();
  if (place.insn) out.copy(std::span(place.insn->bytes).first(place.insn->length));
  out.jump(static_cast<uint32_t>(place.target.value - counter.value));
  code.end = out.offset();
  return code;
}

bool reaches(GuestAddr from, GuestAddr to) {
  const uint64_t apart = from < to ? to.value - from.value : from.value - to.value;
  return apart + kRoomBytes < kReach;
}

// What of a place is changed.
struct Patch {
  GuestAddr at;
  std::array<uint8_t, emu::kJumpBytes> bytes{};
  size_t size = 0;
  std::span<const uint8_t> span() const { return std::span(bytes).first(size); }
};

int32_t displacement(GuestAddr from, GuestAddr to) {
  return static_cast<int32_t>(to - from);
}

Patch patch_to(const CountedPlace& place, GuestAddr counter) {
  Patch patch;
  const bool is_branch = !place.insn;
  patch.size = is_branch ? sizeof(int32_t) : emu::kJumpBytes;
  patch.at = is_branch ? place.next - sizeof(int32_t) : place.at;
  if (!is_branch) patch.bytes[0] = 0xe9;
  const int32_t apart = displacement(patch.at + patch.size, counter);
  std::memcpy(patch.bytes.data() + (is_branch ? 0 : 1), &apart, sizeof apart);
  return patch;
}

// As it is without us.
Patch original(const CountedPlace& place) {
  if (!place.insn) return patch_to(place, place.target);
  Patch patch{place.at, {}, emu::kJumpBytes};
  std::copy_n(place.insn->bytes.begin(), patch.size, patch.bytes.begin());
  return patch;
}

Status apply(ptrace::RemoteMemory& memory, const Patch& patch) {
  return memory.write_code(patch.at, patch.span());
}

// `rooms`: so many may be there already, of which the mappings do not tell.
GuestAddr place_near(const std::vector<kernel::Mapping>& mappings, size_t rooms, GuestAddr place) {
  for (const uint64_t distance : kDistances) {
    const uint64_t apart = distance + rooms * kRoomBytes;
    for (const uint64_t at : {place.page().value - apart, place.page().value + apart}) {
      const GuestRange wanted{GuestAddr(at - kMargin), GuestAddr(at + kRoomBytes + kMargin)};
      const bool wraps = at - kMargin > place.value + apart;
      if (!wraps && cache::is_free(mappings, wanted)) return GuestAddr(at);
    }
  }
  return GuestAddr();
}

}  // namespace

const BranchCounter::Room* BranchCounter::room_for(const CountedPlace& place) const {
  const auto room = std::ranges::find_if(rooms_, [&](const Room& r) {
    return r.code.contains(place.at) && reaches(place.at, r.page) && reaches(place.target, r.page);
  });
  return room == rooms_.end() ? nullptr : &*room;
}

bool BranchCounter::has_room_for(CountedPlaces places) const {
  return std::ranges::all_of(places, [&](const CountedPlace& b) { return room_for(b); });
}

Status BranchCounter::make_room(ptrace::RemoteSyscalls& remote,
                                const std::vector<kernel::Mapping>& mappings,
                                CountedPlaces places) {
  for (const CountedPlace& place : places) {
    if (room_for(place)) continue;
    const auto code = std::ranges::find_if(
        mappings, [&](const kernel::Mapping& m) { return m.range.contains(place.at); });
    const bool is_fit = code != mappings.end() && code->inode != 0 && code->executable &&
                        !code->writable && !code->shared;
    if (!is_fit) return fail("no private code of a file");
    const GuestAddr room = place_near(mappings, rooms_.size(), place.at);
    if (room == GuestAddr()) return fail("no place");
    SP_TRY(remote.mmap(room, kRoomBytes, PROT_READ | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE));
    SP_TRY(remote.mprotect(room + limits::kPageBytes, limits::kPageBytes, PROT_READ | PROT_WRITE));
    rooms_.push_back({code->range, room});
    if (!room_for(place)) return fail("its target is out of reach");
  }
  return {};
}

bool BranchCounter::is_unchanged(const CountedPlace& place) {
  const Patch patch = original(place);
  std::span<const uint8_t> code = patch.span();
  if (place.insn) code = std::span(place.insn->bytes).first(place.insn->length);
  decltype(emu::MovableInsn::bytes) bytes{};
  const auto there = std::span(bytes).first(code.size());
  return memory_.read(patch.at, there) && std::ranges::equal(code, there);
}

Status BranchCounter::attach(CountedPlaces places) {
  SP_CHECK(attached_ == 0 && places.size() <= NativePace::kMostPlaces, "counted already");
  const auto can_count = [&](const CountedPlace& b) { return room_for(b) && is_unchanged(b); };
  if (!std::ranges::all_of(places, can_count)) return {};
  for (size_t k = counters_.size(); k < places.size(); k++) {
    const GuestAddr at = room_for(places[k])->page + k * kCounterBytes;
    const CounterCode code = counter_code(at, places[k]);
    SP_TRY(memory_.write_code(at, std::span(code.bytes).first(code.end)));
    counters_.push_back({places[k], at});
  }
  for (const auto& [place, code] : counters_) {
    SP_TRY(apply(memory_, patch_to(place, code)));
    attached_++;
  }
  return {};
}

Result<std::vector<uint64_t>> BranchCounter::passes() {
  std::vector<uint64_t> passes;
  for (const auto& [place, code] : std::span(counters_).first(attached_)) {
    SP_ASSIGN(const auto count, memory_.read_value<uint64_t>(code + kCount));
    passes.push_back(count);
  }
  return passes;
}

Status BranchCounter::detach() {
  for (const auto& [place, code] : std::span(counters_).first(std::exchange(attached_, 0)))
    SP_TRY(apply(memory_, original(place)));
  return {};
}

Status BranchCounter::outside(ptrace::Registers& guest) {
  for (const auto& [place, counter] : std::span(counters_).first(attached_)) {
    const CounterCode code = counter_code(counter, place);
    const uint64_t at = guest.rip - counter.value;
    if (at >= code.end) continue;
    if (at >= code.saved && at < code.restored) {
      SP_ASSIGN(guest.rcx, memory_.read_value<uint64_t>(counter + kSavedRcx));
    }
    const bool is_to_come = place.insn && at <= code.restored;
    guest.rip = is_to_come ? place.at.value : place.target.value;
  }
  return {};
}

}  // namespace shadowprof::shadow
