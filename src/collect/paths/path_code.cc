// SPDX-License-Identifier: MIT
#include "collect/paths/path_code.h"

#include <atomic>
#include <utility>

#include "base/code_writer.h"

namespace shadowprof::collect {
namespace {

// Exits are at the end of the memory, the first node's last.
constexpr uint32_t kExitBytes = 24;
constexpr uint32_t kExitJump = 3;   // in an exit: to the first comparison, when there is one
constexpr uint32_t kExitLeave = 8;  // in an exit: out of here
constexpr uint32_t kMostEdgeBytes = 96;
constexpr uint32_t kFrameBytes = 64;

}  // namespace

// What stays in registers:
//   rsi  the record
//   rbx  where the next call's site is put
//   r14  counters
//   r15  where rbx is left
// rdi is the node, when one is left.
class PathCode::Writer : public CodeWriter {
 public:
  using CodeWriter::CodeWriter;

  void enter() {
    bytes({0x53, 0x41, 0x56, 0x41, 0x57});              // push rbx, r14, r15
    bytes({0x49, 0x89, 0xcf});                          // mov r15, rcx
    bytes({0x49, 0x8b, 0x1f});                          // mov rbx, [r15]
    bytes({0x49, 0x89, 0xd6});                          // mov r14, rdx
    bytes({0xff, 0xe7});                                // jmp rdi
  }
  void leave() {
    bytes({0x49, 0x89, 0x1f});                          // mov [r15], rbx
    bytes({0x48, 0x89, 0xf0});                          // mov rax, rsi
    bytes({0x89, 0xfa});                                // mov edx, edi
    bytes({0x41, 0x5f, 0x41, 0x5e, 0x5b});              // pop r15, r14, rbx
    byte(0xc3);                                         // ret
  }

  void exit(uint32_t node, uint32_t leave) {
    byte(0xe9);                                         // jmp behind itself, as yet
    u32(0);
    byte(0xbf);                                         // mov edi, node
    u32(node);
    jump(leave);
  }

  // Displacements that change later are where one store changes them.
  void align_comparison() {
    while ((offset() + kDisplacement) % 4 != 0) byte(0x90);  // nop
  }
  // Returns where the displacement is.
  uint32_t compare(uint32_t run, uint32_t if_other) {
    bytes({0x81, 0x3e});                                // cmp dword [rsi], run
    u32(run);
    bytes({0x0f, 0x85});                                // jne if_other
    displacement(if_other);
    return offset() - 4;
  }
  void take(const PathEdge& edge) {
    const uint32_t record = edge.words * uint32_t{sizeof(trace::Word)};
    bytes({0x48, static_cast<uint8_t>(record < 128 ? 0x83 : 0x81), 0xc6});  // add rsi, record
    if (record < 128) {
      byte(static_cast<uint8_t>(record));
    } else {
      u32(record);
    }
    if (edge.site != 0) {
      bytes({0xc7, 0x03});                              // mov dword [rbx], site
      u32(edge.site);
      bytes({0x48, 0x83, 0xc3, sizeof(uint32_t)});      // add rbx, 4
    }
    if (edge.returns) bytes({0x48, 0x83, 0xeb, sizeof(uint32_t)});  // sub rbx, 4
    if (!edge.ends) return;
    bytes({0x49, 0x83, 0x86});                          // add qword [r14 + counter], 1
    u32(*edge.ends * uint32_t{sizeof(uint64_t)});
    byte(1);
  }
  // To the code of the table's slot for the record's run, when it is that run's.
  void look_up(const void* table, uint32_t spread, uint8_t shift, uint32_t if_other) {
    bytes({0x8b, 0x06});                                // mov eax, [rsi]
    bytes({0x69, 0xc8});                                // imul ecx, eax, spread
    u32(spread);
    bytes({0xc1, 0xe9, shift});                         // shr ecx, shift
    bytes({0x48, 0xba});                                // mov rdx, table
    u64(reinterpret_cast<uint64_t>(table));
    bytes({0x39, 0x04, 0xca});                          // cmp [rdx + rcx * 8], eax
    bytes({0x0f, 0x85});                                // jne if_other
    displacement(if_other);
    bytes({0x8b, 0x4c, 0xca, 0x04});                    // mov ecx, [rdx + rcx * 8 + 4]
    bytes({0x48, 0x8d, 0x05});                          // lea rax, the code's first byte
    displacement(0);
    bytes({0x48, 0x01, 0xc8});                          // add rax, rcx
    bytes({0xff, 0xe0});                                // jmp rax
  }

 private:
  static constexpr uint32_t kDisplacement = 8;  // in what compare() writes
};

namespace {

void redirect(uint8_t* code, uint32_t displacement, uint32_t target) {
  auto* at = reinterpret_cast<uint32_t*>(code + displacement);
  std::atomic_ref<uint32_t>(*at).store(target - (displacement + 4), std::memory_order_release);
}

}  // namespace

PathCode::PathCode(uint64_t* counters) : counters_(counters) {
  if (Result<OwnCode> memory = OwnCode::create("shadowprof-paths", kBytes))
    memory_.emplace(std::move(*memory));
  if (!memory_) return;
  Writer w({memory_->writable(), kFrameBytes});
  w.enter();
  leave_ = w.offset();
  w.leave();
  used_ = kFrameBytes;
  function_ = reinterpret_cast<Function>(reinterpret_cast<uint64_t>(memory_->executable()));
}

uint32_t PathCode::exit_of(uint32_t node) const {
  return static_cast<uint32_t>(memory_->size()) - kExitBytes * (node + 1);
}

uint32_t PathCode::entry_of(uint32_t node) const {
  const uint32_t entry = places_[node].entry;
  return entry != 0 ? entry : exit_of(node) + kExitJump;
}

bool PathCode::has_room() const {
  return places_.size() < kMostNodes && exit_of(kMostNodes) - used_ >= kMostEdgeBytes;
}

void PathCode::make_node() {
  const auto node = static_cast<uint32_t>(places_.size());
  const uint32_t exit = exit_of(node);
  Writer w({memory_->writable(), exit + kExitBytes});
  w.skip_to(exit + kExitJump);
  w.exit(node, leave_);
  places_.push_back({.open = exit + kExitJump + 1});
}

void PathCode::add(uint32_t from, const PathEdge& edge, uint32_t to) {
  if (falls_to_ && *falls_to_ != from) finish();
  Writer w({memory_->writable(), used_ + kMostEdgeBytes});
  w.skip_to(used_);
  Place& place = places_[from];
  if (place.comparisons < kMostComparisons) {
    w.align_comparison();
    const uint32_t begin = w.offset();
    const uint32_t before =
        std::exchange(place.open, w.compare(edge.run, exit_of(from) + kExitLeave));
    if (place.entry == 0) place.entry = begin;
    place.comparisons++;
    take(w, edge, to);
    redirect(memory_->writable(), before, begin);
    return;
  }
  if (place.table == 0) {
    if (tables_.size() == kMostTables) return;
    const uint32_t leave = exit_of(from) + kExitLeave;
    tables_.push_back(std::make_unique<Table>());
    tables_.back()->fill({kFree, leave});
    place.table = static_cast<uint16_t>(tables_.size());
    w.look_up(tables_.back()->data(), kSpread, kTableShift, leave);
    redirect(memory_->writable(), place.open, used_);
  }
  Slot& slot = (*tables_[place.table - 1])[edge.run * kSpread >> kTableShift];
  if (slot.run != kFree) return;
  slot = {edge.run, w.offset()};
  take(w, edge, to);
}

// What an edge does, and how it goes on.
void PathCode::take(Writer& w, const PathEdge& edge, uint32_t to) {
  w.take(edge);
  falls_to_.reset();
  if (places_[to].entry == 0) {
    falls_to_ = to;
  } else {
    w.jump(places_[to].entry);
  }
  used_ = w.offset();
}

void PathCode::finish() {
  if (!falls_to_) return;
  Writer w({memory_->writable(), used_ + kMostEdgeBytes});
  w.skip_to(used_);
  w.jump(entry_of(*falls_to_));
  used_ = w.offset();
  falls_to_.reset();
}

}  // namespace shadowprof::collect
