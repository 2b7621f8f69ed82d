// SPDX-License-Identifier: MIT
#include "sample/wanted_part.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "emu/translate/prefill.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::sample {

WantedPart::WantedPart(const std::string& text, int64_t started)
    : named_(table_, {FunctionPattern::from(text)}, started) {}

ModuleId WantedPart::module_of(const kernel::Mapping& mapping) {
  trace::Module module;
  module.path = mapping.path;
  module.range = mapping.range;
  module.inode = mapping.inode;
  module.device = mapping.device();
  module.file_start = mapping.file_start();
  for (uint32_t i = 0; i < table_.module_count(); i++) {
    if (table_.module(ModuleId(i)).is_as(module)) return ModuleId(i);
  }
  return table_.add_module(std::move(module));
}

void WantedPart::learn_code(Tid process) {
  const auto pages = kernel::read_statm(process);
  Mapped& mapped = processes_[process];
  if (!pages || (pages->mapped == mapped.pages && !mapped.code.empty())) return;
  const auto mappings = kernel::read_maps(process);
  if (!mappings) return;
  mapped = {pages->mapped, {}};
  for (const kernel::Mapping& m : *mappings) {
    if (!m.executable || m.inode == 0) continue;
    mapped.code.push_back({m.range, module_of(m)});
    trace::Block first;
    first.start = m.range.start;
    first.module = mapped.code.back().module;
    (void)named_.find(first);  // reads its symbols
  }
}

bool WantedPart::has(const Mapped& mapped, GuestAddr at) {
  const auto behind = std::ranges::upper_bound(mapped.code, at, {},
                                               [](const Code& code) { return code.range.start; });
  if (behind == mapped.code.begin() || !std::prev(behind)->range.contains(at)) return false;
  trace::Block here;
  here.start = at;
  here.module = std::prev(behind)->module;
  return named_.find(here).patterns != 0;
}

bool WantedPart::is_called_from(Tid process, const Mapped& mapped, GuestAddr stack) {
  ptrace::RemoteMemory memory(process);
  std::array<uint64_t, kStackWords> words;
  const size_t read =
      memory.read_some(stack, {reinterpret_cast<uint8_t*>(words.data()), sizeof words});
  for (size_t i = 0; i < read / sizeof words[0]; i++) {
    const GuestAddr behind(words[i]);
    std::array<uint8_t, emu::kLongestCall> code{};
    if (words[i] < code.size() || !has(mapped, behind - 1)) continue;
    if (memory.read_some(behind - code.size(), code) == code.size() && emu::ends_with_call(code))
      return true;
  }
  return false;
}

bool WantedPart::is_executed(Tid process, std::span<const shadow::PausedThread> threads) {
  const bool found = is_there(process, threads);
  if (!tries_again_) {
    first_looks_++;
    found_at_first_ += found;
  }
  tries_again_ = !found;
  return found;
}

bool WantedPart::is_there(Tid process, std::span<const shadow::PausedThread> threads) {
  const auto known = processes_.find(process);
  if (known == processes_.end()) return false;
  const Mapped& mapped = known->second;
  return std::ranges::any_of(threads, [&](const shadow::PausedThread& thread) {
    return has(mapped, thread.registers.pc()) ||
           is_called_from(process, mapped, thread.registers.sp());
  });
}

Status check_part(WantedPart* part, shadow::Pause& stopped) {
  if (part == nullptr || part->is_executed(stopped.process(), stopped.threads())) return {};
  return fail_errno(ECANCELED, "the program is elsewhere");
}

}  // namespace shadowprof::sample
