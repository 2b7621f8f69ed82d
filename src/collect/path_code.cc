// SPDX-License-Identifier: MIT
#include "collect/path_code.h"

#include <atomic>

#include "base/check.h"
#include "base/code_writer.h"

namespace shadowprof::collect {
namespace {

// Exits are at the end of the memory, the first node's last.
constexpr uint32_t kExitBytes = 24;
constexpr uint32_t kExitJump = 3;   // in an exit: to the first comparison, when there is one
constexpr uint32_t kExitLeave = 8;  // in an exit: out of here
constexpr uint32_t kMostEdgeBytes = 96;
constexpr uint32_t kFrameBytes = 64;

// What stays in registers:
//   rsi  the record
//   rbx  where the next call's site is put
//   r14  counters
//   r15  where rbx is left
// rdi is the node, when one is left.
class Writer : public CodeWriter {
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
    u32(if_other - (offset() + 4));
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
  void jump(uint32_t target) {
    byte(0xe9);                                         // jmp target
    u32(target - (offset() + 4));
  }

 private:
  static constexpr uint32_t kDisplacement = 8;  // in what compare() writes
};

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
  places_.push_back({0, exit + kExitJump + 1});
}

void PathCode::add(uint32_t from, const PathEdge& edge, uint32_t to) {
  if (falls_to_ && *falls_to_ != from) finish();
  Writer w({memory_->writable(), used_ + kMostEdgeBytes});
  w.skip_to(used_);
  w.align_comparison();
  Place& place = places_[from];
  const uint32_t begin = w.offset();
  const uint32_t before = place.open;
  place.open = w.compare(edge.run, exit_of(from) + kExitLeave);
  w.take(edge);
  const bool is_new = places_[to].entry == 0 && to != from;
  if (!is_new) w.jump(to == from && place.entry == 0 ? begin : entry_of(to));
  used_ = w.offset();
  if (place.entry == 0) place.entry = begin;
  redirect(memory_->writable(), before, begin);
  falls_to_ = is_new ? std::optional(to) : std::nullopt;
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
