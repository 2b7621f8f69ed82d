// SPDX-License-Identifier: MIT
//
// The guest's executable memory as the translator sees it: regions by module, bytes by page.
//
// Executable mappings come and go only through system calls that stop at the tracer, which then
// calls mappings_changed(). What can be written while it is executable, or is shared with somebody
// who may write it, is marked as may_change and never cached.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emu/code_source.h"
#include "kernel/proc.h"
#include "ptrace/remote_memory.h"
#include "trace/block_table.h"

namespace shadowprof::cache {

class GuestCode : public emu::CodeSource {
 public:
  GuestCode(Tid process, trace::BlockTable& table)
      : process_(process), memory_(process), table_(table) {}

  emu::CodeRegion region(GuestAddr address) override;
  size_t fetch(GuestAddr address, std::span<uint8_t> out) override;
  std::span<const uint8_t> at_hand(GuestAddr address) override;

  // Forgets what is known of `range` and reads the list of mappings again before its next use.
  void mappings_changed(GuestRange range);
  // Is any of `range` executable, as far as is known?
  bool has_code(GuestRange range);
  // The program can write its memory without writing to it (through /proc/PID/mem): from now on
  // all code may change.
  void everything_may_change();
  bool may_all_change() const { return everything_may_change_; }
  // From now on the code is read from another process, a later replica of the same program. Returns
  // where it may differ from what was read before; the translations there have to go.
  std::vector<GuestRange> rebind(Tid process, const std::vector<kernel::Mapping>& mappings);
  // Would rebind() find no difference? Nothing is changed, so code may go on being read from the
  // process that it was.
  bool agrees_with(Tid process, const std::vector<kernel::Mapping>& mappings);
  // The same memory, seen through another thread of the process: one that has ended has none.
  void look_through(Tid thread) {
    process_ = thread;
    memory_ = ptrace::RemoteMemory(thread);
  }
  // Code without a file behind it is what a JIT wrote, and rewrites while nobody looks.
  void distrust_generated_code() { distrust_generated_ = true; }
  // Our own executable mapping is not guest code.
  void exclude(GuestRange range) { excluded_ = range; }

  ptrace::RemoteMemory& memory() { return memory_; }
  // Finds a `syscall` instruction of the guest, unless the one that is known is there still.
  Status find_syscall_insn(const std::vector<kernel::Mapping>& mappings);
  bool has_syscall_insn();
  // As it was last found.
  GuestAddr syscall_insn() const { return syscall_insn_; }

 private:
  struct Page {
    std::array<uint8_t, limits::kPageBytes> bytes;
  };

  void refresh();
  void take(const std::vector<kernel::Mapping>& mappings);
  std::vector<emu::CodeRegion> regions_of(const std::vector<kernel::Mapping>& mappings);
  ModuleId module_of(const kernel::Mapping& m, const std::vector<kernel::Mapping>& mappings);
  const emu::CodeRegion* find(GuestAddr address) const;
  bool may_change(const kernel::Mapping& mapping) const;
  std::vector<GuestAddr> rewritten_pages(Tid process);

  Tid process_;
  ptrace::RemoteMemory memory_;
  trace::BlockTable& table_;
  bool stale_ = true;
  bool everything_may_change_ = false;
  bool distrust_generated_ = false;
  GuestRange excluded_;
  GuestAddr syscall_insn_;
  std::vector<emu::CodeRegion> regions_;  // ascending
  std::vector<ModuleId> modules_;         // that this address space has had
  std::unordered_map<GuestAddr, std::unique_ptr<Page>> pages_;
  // The page that was read last, and whose it is; null where it may not be what it was.
  const Page* last_page_ = nullptr;
  GuestAddr last_page_at_;
};

}  // namespace shadowprof::cache
