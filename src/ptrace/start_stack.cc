// SPDX-License-Identifier: MIT
#include "ptrace/start_stack.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "machine/machine_facts.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::ptrace {
namespace {

constexpr std::array<uint8_t, 16> kNotRandom = {0x3b, 0x91, 0x5e, 0xc4, 0x27, 0xd8, 0x6a, 0xf0,
                                                0x8c, 0x13, 0xb5, 0x49, 0xe6, 0x72, 0x0d, 0xaf};

// The kernel maps at least so much of the stack below what it has written itself (fs/exec.c,
// setup_arg_pages).
constexpr uint64_t kWindowBytes = 128 << 10;
// Strings are scanned in pieces of this size, so what a scan executes depends on where they begin.
constexpr uint64_t kStringAlignment = 64;
// The program's path and its name have so much room each, or a multiple of it.
constexpr uint64_t kPathBytes = 512;
// Hosts without AMX are alike.
constexpr uint64_t kSignalStackUnit = 4096;

constexpr uint64_t kMinSignalStack = 51;  // AT_MINSIGSTKSZ, not in every <elf.h>
constexpr uint64_t kTold[] = {AT_HWCAP,  AT_PAGESZ, AT_CLKTCK,   AT_PHDR,        AT_PHENT,
                              AT_PHNUM,  AT_BASE,   AT_FLAGS,    AT_ENTRY,       AT_UID,
                              AT_EUID,   AT_GID,    AT_EGID,     AT_SECURE,      AT_RANDOM,
                              AT_HWCAP2, AT_EXECFN, AT_PLATFORM, kMinSignalStack};

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// What it says of whose the program is.
void describe(Elf64_auxv_t& entry, ToldUser user) {
  if (user == ToldUser::real) return;
  if (entry.a_type == AT_UID || entry.a_type == AT_EUID) entry.a_un.a_val = machine::kUserId;
  if (entry.a_type == AT_GID || entry.a_type == AT_EGID) entry.a_un.a_val = machine::kGroupId;
}

// What the vector says of `processor`, where a model says anything.
void describe(Elf64_auxv_t& entry, const machine::CpuModel& processor) {
  if (processor.is_host()) return;
  if (entry.a_type == AT_HWCAP) entry.a_un.a_val = processor.hwcap();
  if (entry.a_type == AT_HWCAP2) entry.a_un.a_val = 0;
}

// A string that the program is given: where it is, with its zero.
struct Text {
  uint64_t at = 0;
  std::vector<uint8_t> bytes;
};

// All of it, as the kernel has left it.
struct Start {
  std::vector<Text> arguments;
  std::vector<Text> environment;
  std::vector<Elf64_auxv_t> vector;
  Text path;      // AT_EXECFN
  Text platform;  // AT_PLATFORM

  uint64_t lowest_string() const {
    uint64_t lowest = path.at;
    for (const auto* texts : {&arguments, &environment})
      for (const Text& text : *texts) lowest = std::min(lowest, text.at);
    return lowest;
  }
  // The kernel puts the path last, before eight bytes of zero.
  uint64_t end_of_stack() const {
    return round_up(path.at + path.bytes.size() + sizeof(uint64_t), limits::kPageBytes);
  }
};

// Reads a start from a copy of the stack.
class StartReader {
 public:
  StartReader(uint64_t base, std::span<const uint8_t> bytes) : base_(base), bytes_(bytes) {}

  // Nothing: it is larger than the copy.
  std::optional<Start> read() {
    Start start;
    at_ = sizeof(uint64_t);  // behind the number of arguments
    if (!read_texts(start.arguments) || !read_texts(start.environment)) return std::nullopt;
    for (;; at_ += sizeof(Elf64_auxv_t)) {
      if (at_ + sizeof(Elf64_auxv_t) > bytes_.size()) return std::nullopt;
      Elf64_auxv_t entry;
      std::memcpy(&entry, bytes_.data() + at_, sizeof entry);
      if (entry.a_type == AT_NULL) break;
      start.vector.push_back(entry);
      Text* text = entry.a_type == AT_EXECFN     ? &start.path
                   : entry.a_type == AT_PLATFORM ? &start.platform
                                                 : nullptr;
      if (text != nullptr && !read_text(entry.a_un.a_val, *text)) return std::nullopt;
    }
    if (start.path.bytes.empty()) return std::nullopt;
    return start;
  }

 private:
  bool read_text(uint64_t address, Text& text) const {
    if (address < base_ || address - base_ >= bytes_.size()) return false;
    const auto from = bytes_.begin() + static_cast<ptrdiff_t>(address - base_);
    const auto zero = std::find(from, bytes_.end(), 0);
    if (zero == bytes_.end()) return false;
    text = {address, {from, zero + 1}};
    return true;
  }

  bool read_texts(std::vector<Text>& texts) {
    for (;;) {
      if (at_ + sizeof(uint64_t) > bytes_.size()) return false;
      uint64_t pointer = 0;
      std::memcpy(&pointer, bytes_.data() + at_, sizeof pointer);
      at_ += sizeof pointer;
      if (pointer == 0) return true;
      if (!read_text(pointer, texts.emplace_back())) return false;
    }
  }

  uint64_t base_;
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

// Writes a start anew, from `base` up.
class StartWriter {
 public:
  explicit StartWriter(uint64_t base) : base_(base) {}

  void write(const Start& start, const machine::CpuModel& processor, ToldUser user) {
    const size_t pointers = 1 + start.arguments.size() + 1 + start.environment.size() + 1;
    const size_t words = pointers + 2 * (std::size(kTold) + 1);
    image_.resize(round_up(words * sizeof(uint64_t), limits::kPageBytes));
    const uint64_t random = put(kNotRandom, kStringAlignment);
    const uint64_t platform = put(start.platform.bytes, kStringAlignment);
    const uint64_t path = put(start.path.bytes, kPathBytes);
    put_word(start.arguments.size());
    for (size_t i = 0; i < start.arguments.size(); i++)
      put_word(put(start.arguments[i].bytes, i == 0 ? kPathBytes : kStringAlignment));
    put_word(0);
    for (const Text& variable : start.environment) put_word(put(variable.bytes, kStringAlignment));
    put_word(0);
    for (const uint64_t type : kTold) {
      const auto it = std::ranges::find(start.vector, type, &Elf64_auxv_t::a_type);
      if (it == start.vector.end()) continue;
      Elf64_auxv_t entry = *it;
      describe(entry, processor);
      describe(entry, user);
      if (type == AT_RANDOM) entry.a_un.a_val = random;
      if (type == AT_PLATFORM) entry.a_un.a_val = platform;
      if (type == AT_EXECFN) entry.a_un.a_val = path;
      if (type == kMinSignalStack) entry.a_un.a_val = round_up(entry.a_un.a_val, kSignalStackUnit);
      put_word(entry.a_type);
      put_word(entry.a_un.a_val);
    }
  }

  // Up to `end`; what is not written is 0. Nothing: it is larger.
  std::optional<std::vector<uint8_t>> image_up_to(uint64_t end) const {
    if (base_ + image_.size() > end) return std::nullopt;
    std::vector<uint8_t> image = image_;
    image.resize(end - base_);
    return image;
  }

 private:
  void put_word(uint64_t word) {
    std::memcpy(image_.data() + next_word_, &word, sizeof word);
    next_word_ += sizeof word;
  }

  // Where it is; what follows begins at a multiple of `unit` behind it.
  uint64_t put(std::span<const uint8_t> bytes, uint64_t unit) {
    const size_t at = image_.size();
    image_.resize(at + round_up(bytes.size(), unit));
    std::ranges::copy(bytes, image_.begin() + static_cast<ptrdiff_t>(at));
    return base_ + at;
  }

  uint64_t base_;
  std::vector<uint8_t> image_;
  size_t next_word_ = 0;
};

// The address behind the zero that ends an array of pointers.
Result<GuestAddr> behind_pointers(RemoteMemory& memory, GuestAddr at) {
  for (;;) {
    SP_ASSIGN(const uint64_t pointer, memory.read_value<uint64_t>(at));
    at = at + sizeof pointer;
    if (pointer == 0) return at;
  }
}

// Calls change(entry) for each entry of the vector, which is kept where it is.
template <typename Change>
Status change_vector(RemoteMemory& memory, GuestAddr stack, const Change& change) {
  const GuestAddr arguments = stack + sizeof(uint64_t);  // behind their number
  SP_ASSIGN(const GuestAddr environment, behind_pointers(memory, arguments));
  SP_ASSIGN(GuestAddr at, behind_pointers(memory, environment));
  for (;; at = at + sizeof(Elf64_auxv_t)) {
    SP_ASSIGN(Elf64_auxv_t entry, memory.read_value<Elf64_auxv_t>(at));
    if (entry.a_type == AT_NULL) return {};
    SP_TRY(change(entry));
    SP_TRY(memory.write_value(at, entry));
  }
}

// The image of a fixed layout, and where it begins. Nothing: there is no room for it.
struct Layout {
  GuestAddr at;
  std::vector<uint8_t> image;
};
std::optional<Layout> new_layout(RemoteMemory& memory, GuestAddr stack,
                                 const machine::CpuModel& processor, ToldUser user) {
  std::vector<uint8_t> bytes(kWindowBytes);
  bytes.resize(memory.read_some(stack, bytes));
  const auto start = StartReader(stack.value, bytes).read();
  if (!start) return std::nullopt;
  const GuestAddr at(start->end_of_stack() - kWindowBytes);
  StartWriter writer(at.value);
  writer.write(*start, processor, user);
  auto image = writer.image_up_to(start->lowest_string());
  uint8_t first = 0;
  if (!image || memory.read_some(at, {&first, 1}) == 0) return std::nullopt;
  return Layout{at, std::move(*image)};
}

}  // namespace

Status fix_start(Tracee program, const machine::CpuModel& processor, ToldUser user) {
  Registers regs;
  if (!program.get_registers_if_alive(regs)) return thread_is_gone(program.tid());
  RemoteMemory memory(program.tid());
  if (const auto layout = new_layout(memory, regs.sp(), processor, user)) {
    SP_TRY(memory.write(layout->at, layout->image));
    regs.set_sp(layout->at);
    if (!program.set_registers_if_alive(regs)) return thread_is_gone(program.tid());
    return {};
  }
  return change_vector(memory, regs.sp(), [&](Elf64_auxv_t& entry) -> Status {
    describe(entry, processor);
    describe(entry, user);
    if (entry.a_type == AT_SYSINFO_EHDR) entry.a_type = AT_IGNORE;
    if (entry.a_type != AT_RANDOM) return {};
    return memory.write_value(GuestAddr(entry.a_un.a_val), kNotRandom);
  });
}

Status tell_processor(Tracee program, const machine::CpuModel& processor) {
  Registers regs;
  if (!program.get_registers_if_alive(regs)) return thread_is_gone(program.tid());
  RemoteMemory memory(program.tid());
  return change_vector(memory, regs.sp(), [&](Elf64_auxv_t& entry) -> Status {
    describe(entry, processor);
    return {};
  });
}

}  // namespace shadowprof::ptrace
