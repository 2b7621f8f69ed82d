// SPDX-License-Identifier: MIT
//
// libunwind asks for registers, words of memory and the table that covers an address; it keeps the
// rules that it has worked out. So a stack whose code has been met before costs a few reads.
#include "shadow/stack_unwinder.h"

#include <elf.h>
#include <libunwind.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <unordered_map>

#include "base/limits.h"

// Part of libunwind's interface for those who find tables themselves, but in none of its headers.
#define search_unwind_table UNW_OBJ(dwarf_search_unwind_table)
extern "C" int search_unwind_table(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t* info,
                                   unw_proc_info_t* found, int need_unwind_info, void* argument);

namespace shadowprof::shadow {
namespace {

constexpr size_t kMostCallers = 400;
constexpr size_t kCachedRules = 4096;
constexpr size_t kMostCachedPages = 4096;
// DWARF exception header encodings (LSB core specification, 10.5 and 10.6): the header's pointer,
// the count, and a table of pairs of signed 4-byte offsets from the header itself.
constexpr uint8_t kCountUdata4 = 0x03;
constexpr uint8_t kTableDatarelSdata4 = 0x3b;
constexpr uint8_t kPointerSizeMask = 0x0f;
constexpr uint8_t kSdata4 = 0x0b;
constexpr uint8_t kUdata4 = 0x03;
constexpr size_t kMostSegments = 64;
// The code at an entry point that has no unwind tables.
constexpr uint64_t kMostEntryBytes = 128;

struct UnwindTable {
  uint64_t header = 0;  // address of .eh_frame_hdr
  uint64_t entries = 0;
  uint64_t count = 0;
};

struct ImageFacts {
  std::optional<UnwindTable> table;  // where the index of its unwind tables is
  uint64_t entry = 0;                // 0: not known
};

// Nothing is known of an image that we cannot read.
template <typename Read>
ImageFacts find_facts(uint64_t image, Read read) {
  Elf64_Ehdr elf{};
  ImageFacts facts;
  if (!read(image, &elf, sizeof elf) || std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
      elf.e_phentsize != sizeof(Elf64_Phdr)) {
    return facts;
  }
  std::optional<uint64_t> first_load, header;
  for (size_t i = 0; i < std::min<size_t>(elf.e_phnum, kMostSegments); i++) {
    Elf64_Phdr segment{};
    if (!read(image + elf.e_phoff + i * sizeof segment, &segment, sizeof segment)) break;
    if (segment.p_type == PT_LOAD && !first_load) first_load = segment.p_vaddr - segment.p_offset;
    if (segment.p_type == PT_GNU_EH_FRAME) header = segment.p_vaddr;
  }
  if (!first_load) return facts;
  if (elf.e_entry != 0) facts.entry = image + (elf.e_entry - *first_load);
  if (!header) return facts;
  struct {
    uint8_t version, pointer, count, table;
  } head{};
  static_assert(sizeof head == 4);
  UnwindTable found;
  found.header = image + (*header - *first_load);
  uint32_t count = 0;
  const bool known = read(found.header, &head, sizeof head) && head.version == 1 &&
                     ((head.pointer & kPointerSizeMask) == kSdata4 ||
                      (head.pointer & kPointerSizeMask) == kUdata4) &&
                     head.count == kCountUdata4 && head.table == kTableDatarelSdata4;
  if (!known || !read(found.header + sizeof head + 4, &count, sizeof count)) return facts;
  found.entries = found.header + sizeof head + 8;
  found.count = count;
  facts.table = found;
  return facts;
}

// A file's code, or a region's without one.
struct CodeImage {
  GuestRange code;
  uint64_t image = 0;  // where the file's first byte is mapped
  uint64_t inode = 0;
  auto operator<=>(const CodeImage&) const = default;
};

// Linkers that do not align segments in the file map its first page once more with the code of
// small programs: the image begins with what is mapped before that.
size_t first_of_image(const std::vector<kernel::Mapping>& mappings, size_t k) {
  if (k == 0 || !mappings[k].executable) return k;
  const kernel::Mapping& before = mappings[k - 1];
  const bool begins = before.offset == 0 && !before.writable && !before.executable &&
                      before.range.end == mappings[k].range.start;
  return before.is_of_same_file(mappings[k]) && begins ? k - 1 : k;
}

std::vector<CodeImage> images_of(const std::vector<kernel::Mapping>& mappings) {
  std::vector<CodeImage> images;
  for (size_t i = 0; i < mappings.size(); i++) {
    const kernel::Mapping& m = mappings[i];
    if (!m.executable || (m.inode == 0 && m.path != "[vdso]")) continue;
    uint64_t image = m.range.start.value;
    for (size_t k = i + 1; k-- > 0;) {
      const kernel::Mapping& first = mappings[k];
      if (!first.is_of_same_file(m) || first.offset != 0 || m.inode == 0) continue;
      image = mappings[first_of_image(mappings, k)].range.start.value;
      break;
    }
    images.push_back({m.range, image, m.inode});
  }
  return images;
}

}  // namespace

struct StackUnwinder::State {
  unw_addr_space_t space = nullptr;
  std::vector<CodeImage> images;
  std::map<uint64_t, ImageFacts> facts;  // by image
  // For the process that is unwound: its stack is read once, code is kept from stack to stack.
  machine::MemorySource* memory = nullptr;
  const machine::Registers* registers = nullptr;
  using Page = std::array<uint8_t, limits::kPageBytes>;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> code_pages;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> data_pages;
  std::vector<GuestRange> read_only;  // of files
  bool lost = false;  // there was no table for an address

  const Page* page(uint64_t address) {
    const GuestAddr at(address & ~(limits::kPageBytes - 1));
    const bool constant = std::any_of(read_only.begin(), read_only.end(),
                                      [&](const GuestRange& r) { return r.contains(at); });
    auto& pages = constant ? code_pages : data_pages;
    if (pages.size() > kMostCachedPages) pages.clear();
    auto& known = pages[at.value];
    if (!known) {
      auto fresh = std::make_unique<Page>();
      if (memory->read_some(at, *fresh) < fresh->size()) {
        pages.erase(at.value);
        return nullptr;
      }
      known = std::move(fresh);
    }
    return known.get();
  }

  bool read(uint64_t from, void* to, size_t size) {
    auto* out = static_cast<uint8_t*>(to);
    while (size > 0) {
      const Page* p = page(from);
      if (p == nullptr) return false;
      const size_t offset = from % limits::kPageBytes;
      const size_t n = std::min(size, limits::kPageBytes - offset);
      std::memcpy(out, p->data() + offset, n);
      out += n;
      from += n;
      size -= n;
    }
    return true;
  }

  const CodeImage* image_at(uint64_t ip) const {
    const auto image = std::find_if(images.begin(), images.end(), [&](const CodeImage& i) {
      return i.code.contains(GuestAddr(ip));
    });
    return image == images.end() ? nullptr : &*image;
  }

  const ImageFacts& facts_of(const CodeImage& image) {
    const auto [entry, added] = facts.try_emplace(image.image);
    if (added) {
      entry->second = find_facts(
          image.image, [&](uint64_t from, void* to, size_t size) { return read(from, to, size); });
    }
    return entry->second;
  }

  // The kernel goes there, nobody calls it. The dynamic loader's has no tables.
  bool is_entry_code(uint64_t ip) {
    const CodeImage* image = image_at(ip);
    if (image == nullptr) return false;
    const uint64_t entry = facts_of(*image).entry;
    return entry != 0 && entry <= ip && ip - entry < kMostEntryBytes;
  }

  int find_proc_info(unw_word_t ip, unw_proc_info_t* found, int need_unwind_info) {
    const CodeImage* image = image_at(ip);
    int answer = -UNW_ENOINFO;
    if (image != nullptr) {
      if (const auto& table = facts_of(*image).table) {
        unw_dyn_info_t info{};
        info.format = UNW_INFO_FORMAT_REMOTE_TABLE;
        info.start_ip = image->code.start.value;
        info.end_ip = image->code.end.value;
        info.u.rti.segbase = table->header;
        info.u.rti.table_data = table->entries;
        // In words: an entry is two offsets of 4 bytes.
        info.u.rti.table_len = table->count;
        answer = search_unwind_table(space, ip, &info, found, need_unwind_info, this);
      }
    }
    if (answer < 0) lost = true;
    return answer;
  }

  // What a signal handler returns to: mov $15 (rt_sigreturn), %rax; syscall. Its own caller was
  // interrupted.
  bool is_trampoline(uint64_t ip) {
    constexpr uint8_t kCode[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
    uint8_t code[sizeof kCode] = {};
    return read(ip, code, sizeof code) && std::memcmp(code, kCode, sizeof code) == 0;
  }

  static State& of(void* argument) { return *static_cast<State*>(argument); }
  static unw_accessors_t accessors();
};

namespace {

// libunwind numbers registers as DWARF does.
bool read_register(const machine::Registers& r, unw_regnum_t number, unw_word_t* value) {
  const unsigned long long all[] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                                    r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
  static_assert(UNW_X86_64_RAX == 0 && UNW_X86_64_RDX == 1 && UNW_X86_64_R15 == 15 &&
                UNW_X86_64_RIP == 16);
  if (number < 0 || static_cast<size_t>(number) >= std::size(all)) return false;
  *value = all[number];
  return true;
}

}  // namespace

unw_accessors_t StackUnwinder::State::accessors() {
  unw_accessors_t a{};
  a.find_proc_info = [](unw_addr_space_t, unw_word_t ip, unw_proc_info_t* found, int need,
                        void* state) { return of(state).find_proc_info(ip, found, need); };
  a.put_unwind_info = [](unw_addr_space_t, unw_proc_info_t*, void*) {};
  a.get_dyn_info_list_addr = [](unw_addr_space_t, unw_word_t*, void*) { return -UNW_ENOINFO; };
  a.access_mem = [](unw_addr_space_t, unw_word_t address, unw_word_t* value, int write,
                    void* state) {
    const bool done = write == 0 && of(state).read(address, value, sizeof *value);
    return done ? 0 : -UNW_EINVAL;
  };
  a.access_reg = [](unw_addr_space_t, unw_regnum_t number, unw_word_t* value, int write,
                    void* state) {
    const bool done = write == 0 && read_register(*of(state).registers, number, value);
    return done ? 0 : -UNW_EBADREG;
  };
  a.access_fpreg = [](unw_addr_space_t, unw_regnum_t, unw_fpreg_t*, int, void*) {
    return -UNW_EBADREG;
  };
  a.resume = [](unw_addr_space_t, unw_cursor_t*, void*) { return -UNW_EINVAL; };
  a.get_proc_name = [](unw_addr_space_t, unw_word_t, char*, size_t, unw_word_t*, void*) {
    return -UNW_ENOINFO;
  };
  return a;
}

StackUnwinder::StackUnwinder() : state_(std::make_unique<State>()) {
  unw_accessors_t accessors = State::accessors();
  state_->space = unw_create_addr_space(&accessors, 0);
  if (state_->space == nullptr) throw std::bad_alloc();
  (void)unw_set_caching_policy(state_->space, UNW_CACHE_GLOBAL);
  (void)unw_set_cache_size(state_->space, kCachedRules, 0);
}

StackUnwinder::~StackUnwinder() {
  unw_destroy_addr_space(state_->space);
}

void StackUnwinder::set_mappings(const std::vector<kernel::Mapping>& mappings) {
  std::vector<CodeImage> images = images_of(mappings);
  if (images == state_->images) return;
  state_->images = std::move(images);
  state_->facts.clear();
  state_->code_pages.clear();
  state_->read_only.clear();
  for (const kernel::Mapping& m : mappings)
    if (!m.writable && (m.inode != 0 || m.path == "[vdso]")) state_->read_only.push_back(m.range);
  unw_flush_cache(state_->space, 0, 0);
}

CallStack StackUnwinder::unwind(machine::MemorySource& memory,
                                const machine::Registers& registers) {
  State& state = *state_;
  state.memory = &memory;
  state.registers = &registers;
  state.data_pages.clear();
  CallStack stack;
  unw_cursor_t cursor;
  if (unw_init_remote(&cursor, state.space, &state) != 0) return stack;
  unw_word_t ip = registers.rip;
  while (stack.callers.size() < kMostCallers) {
    const bool exact = state.is_trampoline(ip);
    state.lost = false;
    const int step = unw_step(&cursor);
    // Without a table libunwind guesses by frame pointers.
    if (state.lost || step < 0) {
      stack.whole = state.lost && state.is_entry_code(ip);
      break;
    }
    const bool ended = step == 0 || unw_get_reg(&cursor, UNW_REG_IP, &ip) != 0 || ip == 0;
    if (ended) {
      stack.whole = true;
      break;
    }
    stack.callers.push_back({GuestAddr(ip), exact});
  }
  return stack;
}

std::vector<trace::Word> start_of_trace(uint64_t sample_number, const CallStack* stack) {
  std::vector<trace::Word> words{0, static_cast<trace::Word>(sample_number),
                                 static_cast<trace::Word>(sample_number >> 32)};
  if (stack != nullptr) {
    words.push_back(stack->whole ? trace::StackStart::kWhole : 0);
    for (const CallStack::Caller& caller : stack->callers) {
      const uint64_t address =
          caller.address.value | (caller.exact ? trace::StackStart::kExactCaller : 0);
      words.push_back(static_cast<trace::Word>(address));
      words.push_back(static_cast<trace::Word>(address >> 32));
    }
  }
  words[0] = trace::special_word(trace::SpecialKind::sample_start,
                                 static_cast<uint32_t>(words.size()));
  return words;
}

}  // namespace shadowprof::shadow
