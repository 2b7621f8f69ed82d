// SPDX-License-Identifier: MIT
#include "emu/translate/prefill.h"

#include <algorithm>
#include <array>

namespace shadowprof::emu {

bool ends_with_call(std::span<const uint8_t, kLongestCall> code) {
  const auto at = [&](size_t back) { return code[code.size() - back]; };
  if (at(5) == 0xe8) return true;
  for (size_t back : {2, 3, 4, 6, 7}) {
    if (at(back) == 0xff && (at(back - 1) >> 3 & 7) == 2) return true;
  }
  return false;
}

bool is_return_point(CodeSource& source, GuestAddr address) {
  if (source.region(address).range.size() == 0) return false;
  std::array<uint8_t, kLongestCall> before{};
  return source.fetch(address - before.size(), before) == before.size() && ends_with_call(before);
}

size_t Prefill::translate(CodeCache& cache, FragmentFinder& finder, std::span<const GuestAddr> pcs,
                          size_t limit) {
  const uint64_t flushes = cache.flushes();
  const size_t before = cache.fragment_count();
  for (GuestAddr pc : pcs) {
    const auto id = finder.find(pc, std::nullopt);
    // Much of it is where calls and returns lead; when counting that takes who branches there, too.
    if (id && !has_counts(cache.recording())) (void)cache.add_entry(*id, {});
  }
  // New fragments come behind those that lead to them: first what is near.
  size_t next = std::min(followed_, before);
  const size_t end = next + limit;
  for (; next < cache.fragment_count() && next < end && cache.flushes() == flushes; next++) {
    finder.look_ahead(FragmentId(static_cast<uint32_t>(next)));
  }
  followed_ = cache.fragment_count();
  return cache.flushes() == flushes ? cache.fragment_count() - before : 0;
}

}  // namespace shadowprof::emu
