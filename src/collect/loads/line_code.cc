// SPDX-License-Identifier: MIT
#include "collect/loads/line_code.h"

#include <vector>

#include "base/code_writer.h"

namespace shadowprof::collect {
namespace {

// No run's code is longer.
constexpr size_t kMostRunBytes = 256;
constexpr size_t kMostOtherBytes = 80;
constexpr size_t kEntryBytes = 256;

bool fits_byte(uint64_t v) {
  return v + 128 < 256;
}
bool fits_word(uint64_t v) {
  return v + 0x8000'0000 < 0x1'0000'0000;
}

// What stays in registers:
//   rbx  LineCounts::ways()      r13  the record
//   rbp  Progress::accesses      r14  entries
//   r12  limit                   r15  the code's first byte
// rax is an access's address; rcx, rdx and rsi are for use on the way.
class Writer : public CodeWriter {
 public:
  using CodeWriter::CodeWriter;

  // Stops here; the first thing of all, at offset 0.
  void leave() {
    bytes({0x4c, 0x89, 0xe8});                          // mov rax, r13
    bytes({0x48, 0x89, 0xea});                          // mov rdx, rbp
    bytes(
        {0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b});  // pop r15 .. r12, rbp, rbx
    byte(0xc3);                                         // ret
  }

  void enter(const void* ways, const void* entries, const void* code) {
    bytes(
        {0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57});  // push rbx, rbp, r12 .. r15
    bytes({0x48, 0xbb});                                // mov rbx, ways
    pointer(ways);
    bytes({0x49, 0xbe});                                // mov r14, entries
    pointer(entries);
    bytes({0x49, 0xbf});                                // mov r15, code
    pointer(code);
    bytes({0x31, 0xed});                                // xor ebp, ebp
    bytes({0x49, 0x89, 0xfd});                          // mov r13, rdi
    bytes({0x49, 0x89, 0xf4});                          // mov r12, rsi
  }

  // To the code of the record at r13.
  void go_on() {
    bytes({0x4d, 0x39, 0xe5});                          // cmp r13, r12
    jump_if(kAboveOrEqual, 0);
    bytes({0x41, 0x8b, 0x45, 0x00});                    // mov eax, [r13]
    byte(0x3d);                                         // cmp eax, kMaxRuns
    u32(static_cast<uint32_t>(limits::kMaxRuns));
    jump_if(kAboveOrEqual, 0);
    bytes({0x41, 0x8b, 0x04, 0x86});                    // mov eax, [r14 + rax * 4]
    bytes({0x4c, 0x01, 0xf8});                          // add rax, r15
    bytes({0xff, 0xe0});                                // jmp rax
  }

  // Called with a way that has another page than the address's: open(lines, address).
  void call_open_way(LineCounts* lines, void (*open)(LineCounts*, uint64_t)) {
    bytes({0x50, 0x52});                                // push rax, rdx
    bytes({0x48, 0xbf});                                // mov rdi, lines
    pointer(lines);
    bytes({0x48, 0x89, 0xc6});                          // mov rsi, rax
    bytes({0x48, 0xb8});                                // mov rax, open
    pointer(reinterpret_cast<const void*>(open));
    bytes({0xff, 0xd0});                                // call rax
    bytes({0x5a, 0x58});                                // pop rdx, rax
    byte(0xc3);                                         // ret
  }

  // rax = the address.
  void address(const LineAccess& a) {
    load(0x85, a.base_word);
    if (a.index_scale != 0) {
      load(0x8d, a.index_word);
      uint8_t sib = 0x08;
      switch (a.index_scale) {
        case 1: break;
        case 2: sib = 0x48; break;
        case 4: sib = 0x88; break;
        case 8: sib = 0xc8; break;
        default: bytes({0x48, 0x6b, 0xc9, a.index_scale});  // imul rcx, rcx, scale
      }
      bytes({0x48, 0x8d, 0x04, sib});                   // lea rax, [rax + rcx * scale]
    }
    if (a.fixed == 0) return;
    if (fits_word(a.fixed)) {
      bytes({0x48, 0x05});                              // add rax, fixed
      u32(static_cast<uint32_t>(a.fixed));
    } else {
      bytes({0x48, 0xb9});                              // mov rcx, fixed
      u64(a.fixed);
      bytes({0x48, 0x01, 0xc8});                        // add rax, rcx
    }
  }

  // rdx = the offset of the way that has the page of the address in rax.
  void find_way(uint32_t open_way) {
    bytes({0x48, 0x89, 0xc1});                          // mov rcx, rax
    bytes({0x48, 0xc1, 0xe9, kPageShift});              // shr rcx, 12
    bytes({0x89, 0xca});                                // mov edx, ecx
    bytes({0x81, 0xe2});                                // and edx, kWays - 1
    u32(LineCounts::kWays - 1);
    bytes({0xc1, 0xe2, kWayShift});                     // shl edx, 4
    bytes({0x48, 0x39, 0x0c, 0x13});                    // cmp [rbx + rdx], rcx
    bytes({0x74, 0x05});                                // je over the call
    byte(0xe8);                                         // call open_way
    displacement(open_way);
  }
  // If what is `span` bytes behind rax is in another page. Returns where the displacement is.
  uint32_t jump_if_leaves_page(uint32_t span) {
    bytes({0x48, 0x8d, 0x88});                          // lea rcx, [rax + span]
    u32(span);
    bytes({0x48, 0x31, 0xc1});                          // xor rcx, rax
    bytes({0x48, 0x81, 0xf9});                          // cmp rcx, 4096
    u32(limits::kPageBytes);
    return jcc_forward(kAboveOrEqual);
  }
  void origin() {
    bytes({0x48, 0x8b, 0x4c, 0x13, offsetof(LineCounts::Way, origin)});  // mov rcx, [rbx + rdx + 8]
  }
  // Counts the line that is `distance` bytes behind rax.
  void count(uint32_t distance, uint64_t what) {
    bytes({0x48, 0x8d, 0x90});                          // lea rdx, [rax + distance]
    u32(distance);
    bytes({0x48, 0xc1, 0xea, kLineShift});              // shr rdx, 6
    if (fits_byte(what)) {
      bytes(
          {0x48, 0x83, 0x04, 0xd1, static_cast<uint8_t>(what)});  // add qword [rcx + rdx * 8], what
    } else {
      bytes({0x48, 0xbe});                              // mov rsi, what
      u64(what);
      bytes({0x48, 0x01, 0x34, 0xd1});                  // add [rcx + rdx * 8], rsi
    }
  }

  void advance(uint32_t words, uint32_t accesses) {
    bytes({0x49, 0x81, 0xc5});                          // add r13, bytes of the record
    u32(words * sizeof(trace::Word));
    bytes({0x48, 0x81, 0xc5});                          // add rbp, accesses
    u32(accesses);
  }

  void increment(const uint64_t* counter) {
    bytes({0x48, 0xb8});                                // mov rax, counter
    pointer(counter);
    bytes({0x48, 0x83, 0x00, 0x01});                    // add qword [rax], 1
  }

 private:
  static constexpr uint8_t kAboveOrEqual = 3;
  static constexpr uint8_t kPageShift = 12;
  static constexpr uint8_t kLineShift = 6;
  static constexpr uint8_t kWayShift = 4;
  static_assert(1 << kPageShift == limits::kPageBytes &&
                1 << kLineShift == profile::kCacheLineBytes);
  static_assert(1 << kWayShift == sizeof(LineCounts::Way) && offsetof(LineCounts::Way, page) == 0);

  void pointer(const void* p) { u64(reinterpret_cast<uint64_t>(p)); }
  void jump_if(uint8_t condition, uint32_t target) {
    bytes({0x0f, static_cast<uint8_t>(0x80 | condition)});
    displacement(target);
  }
  void load(uint8_t modrm, uint16_t word) {             // mov r, [r13 + displacement]
    bytes({0x49, 0x8b, modrm});
    u32(word * uint32_t{sizeof(trace::Word)});
  }
};

}  // namespace

LineCode::LineCode(LineCounts& lines, size_t bytes) : entries_(limits::kMaxRuns) {
  if (Result<OwnCode> memory = OwnCode::create("shadowprof-lines", bytes))
    memory_.emplace(std::move(*memory));
  if (!memory_) return;
  Writer w({memory_->writable(), kEntryBytes});
  w.leave();
  open_way_ = w.offset();
  w.call_open_way(&lines, [](LineCounts* l, uint64_t address) noexcept { l->open_way(address); });
  const uint32_t entry = w.offset();
  w.enter(lines.ways(), entries_.data(), memory_->executable());
  w.go_on();
  used_ = kEntryBytes;
  function_ = reinterpret_cast<Function>(reinterpret_cast<uint64_t>(memory_->executable()) + entry);
}

namespace {

// Accesses that are one after the other through the same register, and so mostly in one page.
struct Group {
  std::span<const LineAccess> accesses;
  uint32_t slow = 0;  // the displacement of the jump to what counts each by itself
  uint32_t after = 0;

  uint32_t distance(const LineAccess& a) const {
    return static_cast<uint32_t>(a.fixed - accesses.front().fixed);
  }
};

std::vector<Group> groups_of(std::span<const LineAccess> accesses) {
  std::vector<Group> groups;
  for (size_t i = 0; i < accesses.size();) {
    const LineAccess& first = accesses[i];
    size_t end = i + 1;
    while (end < accesses.size() && accesses[end].through() == first.through() &&
           accesses[end].fixed - first.fixed < limits::kPageBytes)
      end++;
    groups.push_back({accesses.subspan(i, end - i)});
    i = end;
  }
  return groups;
}

void write_group(Writer& w, Group& group, uint32_t open_way) {
  w.address(group.accesses.front());
  w.find_way(open_way);
  if (group.accesses.size() > 1)
    group.slow = w.jump_if_leaves_page(group.distance(group.accesses.back()));
  w.origin();
  for (const LineAccess& a : group.accesses) w.count(group.distance(a), a.what);
  group.after = w.offset();
}

void write_slow_group(Writer& w, const Group& group, uint32_t open_way) {
  w.land_rel32(group.slow);
  for (size_t i = 0; i < group.accesses.size(); i++) {
    Group alone{group.accesses.subspan(i, 1)};
    write_group(w, alone, open_way);
  }
  w.jump(group.after);
}

}  // namespace

bool LineCode::add(RunId run, uint32_t words, std::span<const LineAccess> accesses, uint32_t known,
                   uint64_t* executions) {
  const size_t most = accesses.size() * kMostRunBytes + kMostOtherBytes;
  if (!memory_ || most > memory_->size() - used_) return false;
  Writer w(std::span(memory_->writable(), used_ + most));
  w.skip_to(used_);
  std::vector<Group> groups = groups_of(accesses);
  for (Group& g : groups) write_group(w, g, open_way_);
  if (executions) w.increment(executions);
  w.advance(words, known);
  w.go_on();
  for (const Group& g : groups)
    if (g.accesses.size() > 1) write_slow_group(w, g, open_way_);
  entries_[run.value] = used_;
  used_ = w.offset();
  return true;
}

}  // namespace shadowprof::collect
