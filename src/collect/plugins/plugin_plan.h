// SPDX-License-Identifier: MIT
//
// The records that an execution of each run gives a plug-in, found out when its id first appears,
// and the places that they name.
#pragma once

#include <shadowprof/collector.h>

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/reserved_array.h"
#include "collect/loads/access_plan.h"
#include "collect/recorded_words.h"
#include "trace/block_table.h"

namespace shadowprof::collect {

// A record: what the words add up to, and of that some bits.
struct PlannedRecord {
  uint64_t fixed = 0;
  uint32_t place = 0;
  uint16_t base_word = kNoWord;
  uint16_t index_word = kNoWord;
  uint16_t size = 0;
  uint8_t kind = 0;
  uint8_t flags = 0;
  uint8_t scale = 0;
  uint8_t shift = 0;
  uint8_t bits = 64;
  bool elapsed = false;  // the word is two time stamps

  uint64_t number(const trace::Word* words) const {
    if (elapsed) return words[base_word + 1] - words[base_word];
    uint64_t sum = fixed;
    if (base_word != kNoWord) sum += value_at(words, base_word);
    if (index_word != kNoWord) sum += value_at(words, index_word) * scale;
    sum >>= shift;
    return bits < 64 ? sum & ((uint64_t{1} << bits) - 1) : sum;
  }
};

struct PluginRun {
  uint32_t words = 0;  // 0: not met yet
  uint32_t first = 0;
  uint32_t records = 0;
  uint32_t places = 0;  // that are to be known when its records come
};

// A block, or the instruction that is so many bytes into it.
struct PluggedPlace {
  BlockId block;
  uint16_t into = 0;
  uint16_t bytes = 0;
  bool is_block = false;
};

class PluginPlans {
 public:
  // `wants`: SHADOWPROF_WANTS_...
  PluginPlans(const trace::BlockTable& table, uint32_t wants);

  // Null: there is no such run.
  const PluginRun* run(RunId id) {
    PluginRun& run = runs_[id.value];
    if (run.words == 0) [[unlikely]]
      plan(id);
    return run.words == 0 ? nullptr : &run;
  }
  std::span<const PlannedRecord> records(const PluginRun& run) const {
    return std::span(records_).subspan(run.first, run.records);
  }
  // By their numbers.
  const std::vector<PluggedPlace>& places() const { return places_; }

 private:
  struct Step;
  bool wants(uint32_t what) const { return (wants_ & what) != 0; }
  void plan(RunId id);
  void plan_block(const trace::Run& run, size_t block, uint32_t executed);
  void plan_accesses(std::span<const PlannedAccess>& left, uint32_t index, const Step& step);
  void plan_result(const RecordedWords& recorded, const decoder::Insn& insn, const Step& step,
                   std::optional<PlannedRecord> element);
  uint32_t place_of(const Step& step);
  uint32_t number_of(const PluggedPlace& place, uint64_t key);

  const trace::BlockTable& table_;
  const uint32_t wants_;
  std::optional<AccessPlans> accesses_;  // where they are wanted
  ReservedArray<PluginRun> runs_;
  std::vector<PlannedRecord> records_;
  std::vector<PluggedPlace> places_;
  std::unordered_map<uint64_t, uint32_t> blocks_;        // places by block id
  std::unordered_map<uint64_t, uint32_t> instructions_;  // by address and module
};

}  // namespace shadowprof::collect
