// SPDX-License-Identifier: MIT
#include "emu/interpret/emulator.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "emu/interpret/handlers.h"
#include "emu/interpret/signal_stack.h"

namespace shadowprof::emu {
namespace {

constexpr size_t kChunkOps = size_t{1} << 15;
constexpr size_t kMostChunks = 256;  // 256 MiB; then everything is lowered anew
constexpr size_t kImageBytes = 16384;
constexpr size_t kImageAlignment = 64;
// All of them are fetched before anything can be stopped.
constexpr uint64_t kMostPagesOfAnInstruction = 4096;
// x87, SSE, AVX and AVX-512. Not protection keys, which are the executing thread's, nor tiles.
constexpr uint64_t kVectorComponents = 0xe7;

using machine::Registers;

// Those of rflags that lahf stores.
constexpr uint64_t kLahfFlags = machine::flags::kCarry | machine::flags::kParity |
                                machine::flags::kAdjust | machine::flags::kZero |
                                machine::flags::kSign;

uint64_t* gpr_of(Registers& r, size_t i) {
  static constexpr size_t kOffsets[16] = {
      offsetof(user_regs_struct, rax), offsetof(user_regs_struct, rcx),
      offsetof(user_regs_struct, rdx), offsetof(user_regs_struct, rbx),
      offsetof(user_regs_struct, rsp), offsetof(user_regs_struct, rbp),
      offsetof(user_regs_struct, rsi), offsetof(user_regs_struct, rdi),
      offsetof(user_regs_struct, r8),  offsetof(user_regs_struct, r9),
      offsetof(user_regs_struct, r10), offsetof(user_regs_struct, r11),
      offsetof(user_regs_struct, r12), offsetof(user_regs_struct, r13),
      offsetof(user_regs_struct, r14), offsetof(user_regs_struct, r15)};
  return reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(&r) + kOffsets[i]);
}

[[gnu::target("xsave")]] uint64_t enabled_components() {
  return _xgetbv(0);
}

}  // namespace

// Code as the guest sees it: with what it has written itself. What cannot be written is known to
// the source from one sample to the next.
class Emulator::ViewedCode : public CodeSource {
 public:
  explicit ViewedCode(CodeSource& source) : source_(source) {}
  void view(machine::MemoryView& memory) { memory_ = &memory; }
  CodeRegion region(GuestAddr address) override { return source_.region(address); }
  size_t fetch(GuestAddr address, std::span<uint8_t> out) override {
    is_sources_ = !source_.region(address).may_change && !is_written(address, out.size());
    if (is_sources_) return source_.fetch(address, out);
    const size_t got = memory_->read_some(address, out);
    return got != 0 ? got : source_.fetch(address, out);
  }
  std::span<const uint8_t> at_hand(GuestAddr address) override {
    return is_sources_ ? source_.at_hand(address) : std::span<const uint8_t>();
  }
  // The guest may have written where it was read.
  void look_again() { is_sources_ = false; }

 private:
  bool is_written(GuestAddr from, size_t size) const {
    return memory_->has_written({from, from + size});
  }

  CodeSource& source_;
  machine::MemoryView* memory_ = nullptr;
  bool is_sources_ = false;  // what was read last
};

void Emulator::FreeState::operator()(State* state) const {
  delete state;
}
void Emulator::FreeImage::operator()(uint8_t* image) const {
  ::operator delete[](image, std::align_val_t{kImageAlignment});
}

Emulator::Emulator(trace::BlockTable& table, CodeSource& source, EmulatorOptions options)
    : code_(std::make_unique<ViewedCode>(source)),
      lowering_(table, *code_, cells_, options.exact_flags),
      state_(new State),
      vectors_(new (std::align_val_t{kImageAlignment}) uint8_t[kImageBytes]) {
  std::memset(vectors_.get(), 0, kImageBytes);
  state_->vectors = vectors_.get();
  state_->vector_mask = enabled_components() & kVectorComponents;
}

Emulator::~Emulator() = default;

void Emulator::begin(machine::MemoryView& memory, CapturePlan plan) {
  SP_CHECK(!plan.load_cycles, "an interpreter cannot time loads");
  memory_ = &memory;
  code_->view(memory);
  if (!(plan == plan_)) drop_all();
  plan_ = plan;
  for (GuestAddr start : std::exchange(of_this_process_, {})) drop_if_there(start);
  for (const auto& fragment : dropped_) by_op_.erase(fragment->first);
  dropped_.clear();
  clear_targets();
  memory_changed();
  keep_spare_chunk();
}

void Emulator::memory_changed() {
  clear_tlb();
}

void Emulator::clear_tlb() {
  std::fill(std::begin(state_->read_tlb), std::end(state_->read_tlb), TlbEntry{});
  std::fill(std::begin(state_->write_tlb), std::end(state_->write_tlb), TlbEntry{});
}

void Emulator::clear_targets() {
  std::fill(std::begin(state_->targets), std::end(state_->targets), Target{});
  // Where a jump to that address would be looked up.
  state_->targets[target_index(kNoTarget)].pc = kNoTarget + 1;
}

void Emulator::load(const Registers& registers, std::span<const uint8_t> extended) {
  registers_ = registers;
  for (size_t i = 0; i < 16; i++) state_->gpr[i] = *gpr_of(registers_, i);
  state_->gpr[kFsSlot] = registers.fs_base;
  state_->gpr[kGsSlot] = registers.gs_base;
  const uint64_t flags = registers.eflags;
  state_->flags = ((flags & kLahfFlags) | 2) << 8 | ((flags & machine::flags::kOverflow) ? 1u : 0u);
  state_->backwards = (flags & machine::flags::kDirection) != 0;
  state_->other_flags = flags & ~(machine::flags::kArithmetic | machine::flags::kDirection);
  pc_ = registers.pc();
  vector_bytes_ = std::min(extended.size(), kImageBytes);
  std::memcpy(vectors_.get(), extended.data(), vector_bytes_);
}

void Emulator::store(Registers& registers, std::vector<uint8_t>& extended) const {
  registers = registers_;
  for (size_t i = 0; i < 16; i++) *gpr_of(registers, i) = state_->gpr[i];
  registers.fs_base = state_->gpr[kFsSlot];
  registers.gs_base = state_->gpr[kGsSlot];
  uint64_t flags = state_->other_flags | ((state_->flags >> 8) & kLahfFlags);
  if (state_->flags & 1) flags |= machine::flags::kOverflow;
  if (state_->backwards) flags |= machine::flags::kDirection;
  registers.eflags = flags;
  registers.set_pc(pc_);
  extended.resize(vector_bytes_);
  std::memcpy(extended.data(), vectors_.get(), vector_bytes_);
}

// To clear a chunk takes as long as a short burst, in which somebody waits.
void Emulator::keep_spare_chunk() {
  const bool is_needed = chunks_.empty() || chunk_used_ > kChunkOps / 2;
  if (is_needed && !spare_chunk_) spare_chunk_ = std::make_unique<Op[]>(kChunkOps);
}

Op* Emulator::place_for(size_t count) {
  SP_CHECK(count <= kChunkOps, "a fragment of {} ops", count);
  if (chunks_.empty() || chunk_used_ + count > kChunkOps) {
    chunks_.push_back(spare_chunk_ ? std::move(spare_chunk_) : std::make_unique<Op[]>(kChunkOps));
    chunk_used_ = 0;
  }
  Op* place = &chunks_.back()[chunk_used_];
  chunk_used_ += count;
  return place;
}

Emulator::Fragment* Emulator::fragment_at(GuestAddr pc) {
  const auto known = fragments_.find(pc);
  return known != fragments_.end() ? known->second.get() : make_fragment(pc);
}

Emulator::Fragment* Emulator::make_fragment(GuestAddr pc) {
  code_->look_again();
  auto lowered = lowering_.lower(pc, plan_);
  if (!lowered) return nullptr;
  auto fragment = std::make_unique<Fragment>();
  fragment->start = pc;
  fragment->first = place_for(lowered->ops.size());
  std::copy(lowered->ops.begin(), lowered->ops.end(), fragment->first);
  for (const auto& link : lowered->links) {
    fragment->first[link.from].link = fragment->first + link.to;
  }
  fragment->insns = std::move(lowered->insns);
  fragment->ranges = std::move(lowered->ranges);
  fragment->unsupported_reason = lowered->unsupported_reason;
  bool of_this_process = lowered->may_change;
  for (const GuestRange& range : fragment->ranges) {
    of_this_process |= memory_->has_written(range);
    for (GuestAddr page = range.start.page(); page < range.end; page = page + kPageMask + 1) {
      fragments_of_page_[page.value].push_back(pc);
      TlbEntry& entry = state_->write_tlb[(page.value >> 12) & (kTlbEntries - 1)];
      if (entry.page == page.value) entry = {};
    }
  }
  if (of_this_process) of_this_process_.push_back(pc);
  fragments_made_++;
  by_op_.insert_or_assign(by_op_.end(), fragment->first, fragment.get());
  return (fragments_[pc] = std::move(fragment)).get();
}

// Others may jump to it: its first op sends them to where its start is found again. It may be
// executing, so its other ops stay.
void Emulator::drop(Fragment& fragment) {
  Op& first = *fragment.first;
  first.handler = kForward;
  first.displacement = static_cast<int64_t>(fragment.start.value);
  first.link = nullptr;
  const auto owner = fragments_.find(fragment.start);
  dropped_.push_back(std::move(owner->second));
  fragments_.erase(owner);
}

void Emulator::drop_if_there(GuestAddr start) {
  if (const auto it = fragments_.find(start); it != fragments_.end()) drop(*it->second);
}

void Emulator::drop_all() {
  of_this_process_.clear();
  fragments_.clear();
  by_op_.clear();
  dropped_.clear();
  fragments_of_page_.clear();
  chunks_.clear();
  clear_targets();
}

void Emulator::invalidate(GuestRange range) {
  std::vector<Fragment*> gone;
  for (const auto& [start, fragment] : fragments_) {
    const bool hit = std::any_of(fragment->ranges.begin(), fragment->ranges.end(),
                                 [&](const GuestRange& r) { return r.overlaps(range); });
    if (hit) gone.push_back(fragment.get());
  }
  for (Fragment* fragment : gone) drop(*fragment);
}

void Emulator::code_written(GuestAddr page) {
  const auto there = fragments_of_page_.find(page.value);
  if (there == fragments_of_page_.end()) return;
  const std::vector<GuestAddr> starts = std::move(there->second);
  fragments_of_page_.erase(there);
  for (GuestAddr start : starts) drop_if_there(start);
}

bool Emulator::serve_miss() {
  const GuestAddr address(state_->miss_address);
  const GuestAddr page = address.page();
  uint8_t* place = memory_->page(address, state_->miss_writes);
  if (!place) return false;
  TlbEntry* tlb = state_->miss_writes ? state_->write_tlb : state_->read_tlb;
  tlb[(page.value >> 12) & (kTlbEntries - 1)] = {page.value,
                                                 reinterpret_cast<uint64_t>(place) - page.value};
  return true;
}

bool Emulator::has_code(GuestAddr address) const {
  return fragments_of_page_.contains(address.page().value);
}

// The op that has missed writes to a page that code was lowered from. It is executed by itself, and
// what it may have changed is dropped: the present fragment, perhaps, but for the op's successors.
bool Emulator::execute_store_to_code(const Op* op) {
  Op alone[2];
  alone[0] = *op;
  alone[1].handler = kPause;
  std::vector<GuestAddr> pages;
  do {
    if (state_->stop != Stop::miss) return false;
    if (state_->miss_writes) pages.push_back(GuestAddr(state_->miss_address).page());
    if (!serve_miss()) return false;
    (void)execute(*state_, alone);
  } while (state_->stop != Stop::pause);
  for (GuestAddr page : pages) code_written(page);
  return true;
}

const Emulator::Fragment& Emulator::fragment_of(const Op* op) const {
  const auto after = by_op_.upper_bound(op);
  SP_CHECK(after != by_op_.begin(), "an op of no fragment");
  return *std::prev(after)->second;
}

Stopped Emulator::stopped_at_op(const Op* op, Stopped stopped, StopReason reason) {
  const Fragment& fragment = fragment_of(op);
  pc_ = fragment.insns[op->use.insn];
  stopped.reason = reason;
  if (reason == StopReason::unsupported) stopped.detail = fragment.unsupported_reason;
  return stopped;
}

// An op that misses again and again in one execution, and has `most` pages fetched: memory of any
// size can be filled or copied by one instruction. (In a loop more is executed from miss to miss.)
bool Emulator::is_long_string(const Op* op, uint64_t most) {
  const Miss miss{op, state_->left};
  if (std::exchange(missed_, miss) != miss) news_at_miss_ = news();
  return news() - news_at_miss_ >= std::min(most, kMostPagesOfAnInstruction);
}

// Long because it is the one place that knows what each stop of the handlers means.
Stopped Emulator::run(std::span<trace::Word> buffer, uint64_t instructions, uint64_t news) {
  const SignalStack signal_stack;
  SP_CHECK(buffer.size() > limits::kMaxRecordWords, "a trace buffer of {} words", buffer.size());
  if (chunks_.size() > kMostChunks) drop_all();
  State& state = *state_;
  state.cursor = buffer.data();
  state.limit = buffer.data() + buffer.size() - limits::kMaxRecordWords;
  const uint64_t news_before = this->news();
  auto budget = static_cast<int64_t>(std::min<uint64_t>(instructions, INT64_MAX));
  state.left = budget;
  missed_ = {};
  const auto so_far = [&](StopReason reason) {
    Stopped stopped;
    stopped.reason = reason;
    stopped.instructions = static_cast<uint64_t>(budget - state.left);
    stopped.words = static_cast<size_t>(state.cursor - buffer.data());
    return stopped;
  };
  const auto enter = [&](GuestAddr pc) -> const Op* {
    pc_ = pc;
    const Fragment* fragment = fragment_at(pc);
    return fragment ? fragment->first : nullptr;
  };

  const Op* op = enter(pc_);
  while (op) {
    if (this->news() - news_before >= news && state.left > 0) {
      budget -= std::exchange(state.left, 0);
    }
    op = execute(state, op);
    switch (state.stop) {
      case Stop::miss: {
        const bool to_code = state.miss_writes && has_code(GuestAddr(state.miss_address));
        if (to_code && execute_store_to_code(op)) {
          op++;
          break;
        }
        if (!to_code && is_long_string(op, news))
          return stopped_at_op(op, so_far(StopReason::long_string), StopReason::long_string);
        if (!to_code && serve_miss()) break;
        Stopped stopped = so_far(StopReason::fault);
        if (state.stop == Stop::miss) stopped.address = GuestAddr(state.miss_address);
        return stopped_at_op(op, stopped, StopReason::fault);
      }
      case Stop::unlinked: {
        const Op* target = enter(GuestAddr(static_cast<uint64_t>(op->displacement)));
        if (target) const_cast<Op*>(op)->link = target;
        op = target;
        break;
      }
      case Stop::indirect: {
        op = enter(GuestAddr(state.target));
        if (op) state.targets[target_index(state.target)] = {state.target, op};
        break;
      }
      case Stop::full:
        pc_ = op->handler == kExitIndirect ? GuestAddr(state.target)
                                           : GuestAddr(static_cast<uint64_t>(op->displacement));
        return so_far(state.left > 0 ? StopReason::buffer_full : StopReason::budget);
      case Stop::system_call:
        pc_ = GuestAddr(static_cast<uint64_t>(op->displacement)) - machine::kSyscallInsnBytes;
        return so_far(StopReason::system_call);
      case Stop::cell_fault:
        return stopped_at_op(op, so_far(StopReason::fault), StopReason::fault);
      case Stop::unsupported:
        return stopped_at_op(op, so_far(StopReason::unsupported), StopReason::unsupported);
      case Stop::none:
      case Stop::pause:
      case Stop::vectors:
        SP_CHECK(false, "the interpreter stopped for no reason");
    }
  }
  return so_far(StopReason::no_code);
}

}  // namespace shadowprof::emu
