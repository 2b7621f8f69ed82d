// SPDX-License-Identifier: MIT
//
// From a guest address to its fragment, translated if need be. A stop for that takes as long as
// some twenty translations. So with a new fragment come those that its exits lead to and its calls
// return to, then those behind these, `least_ahead` at least if there are as many. Where it is
// known what an earlier run has executed behind it (foresight.h), that is translated in their
// place. Code that may change may not be written yet then: it is compared with memory before it
// runs, by its fragment, or by whoever handles the trap of one that is not translated.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "emu/code_cache.h"
#include "emu/translate/foresight.h"
#include "emu/translate/translator.h"
#include "trace/block_table.h"

namespace shadowprof::emu {

struct TranslationCost {
  uint64_t fragments = 0;
  double seconds = 0;
};

class FragmentFinder {
 public:
  // `make_room` empties the cache (CodeCache::flush) when it is full. Without it nothing new is
  // found then.
  FragmentFinder(CodeCache& cache, Translator& translator, const trace::BlockTable& table,
                 CapturePlan plan, TranslationCost& cost, std::function<void()> make_room,
                 Foresight* foresight, size_t least_ahead)
      : cache_(cache),
        translator_(translator),
        table_(table),
        plan_(plan),
        cost_(cost),
        make_room_(std::move(make_room)),
        foresight_(foresight),
        least_ahead_(least_ahead) {}

  // Nothing: there is no code at `pc`. `site`: the indirect branch that leads there, if one does.
  std::optional<FragmentId> find(GuestAddr pc, std::optional<RunId> site);
  // The fragments behind this one, as find() makes them for a new one.
  void look_ahead(FragmentId id);

 private:
  std::optional<FragmentId> translate(GuestAddr pc, std::optional<RunId> site);
  // What is only expected empties no cache: the fragment that it was expected behind has to stay.
  std::optional<FragmentId> translate_ahead(GuestAddr pc, std::optional<RunId> site);
  std::optional<FragmentId> take(const Translator::Translation& made);
  bool translate_foreseen(FragmentId id);
  void translate_following(FragmentId id);
  void translate_successors(FragmentId id);
  void translate_return_to(const trace::Block& caller);
  std::optional<FragmentId> translate_following_at(GuestAddr pc, std::optional<RunId> site);
  BlockId first_block(FragmentId id) const;

  CodeCache& cache_;
  Translator& translator_;
  const trace::BlockTable& table_;
  const CapturePlan plan_;
  TranslationCost& cost_;
  const std::function<void()> make_room_;
  Foresight* const foresight_;
  const size_t least_ahead_;
  std::vector<FragmentId> following_;  // what was translated ahead now
};

}  // namespace shadowprof::emu
