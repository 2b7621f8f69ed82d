// SPDX-License-Identifier: MIT
//
// What a run loads and stores, in the order in which it happens, ready to be taken from records
// with address registers; and the instructions that do so (sites), by number. Collectors that
// follow memory through a thread share it.
//
// An instruction's loads come before its stores. Not known is where thread-local data is, what
// gathers and scatters access, and what depends on a mask, a condition or a count. The words of the
// thread's control block that programs read all the time (its own address, the stack's guard) are
// left out: libraries write them when they make a thread, and nobody later.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/recorded_words.h"
#include "trace/block_table.h"

namespace shadowprof::collect {

enum class AccessEvent : uint8_t {
  load,
  store,
  unknown_load,  // somewhere
  unknown_store,
  drain,  // a locked instruction: earlier stores are in the cache when it goes on
};

inline constexpr uint32_t kMostAccessBytes = 64;

// What a store does, as far as the record tells (decoder::StoredOperand).
struct PlannedValue {
  decoder::StoredOperand::How how = decoder::StoredOperand::How::none;
  uint8_t shift = 0;
  uint16_t before_word = kNoWord;  // what was there
  uint16_t word = kNoWord;         // the register; kNoWord: `constant` is all
  uint64_t constant = 0;
  uint64_t mask = 0;  // of the bits that are stored

  // Is what is stored there already?
  bool is_silent(const trace::Word* words) const {
    using How = decoder::StoredOperand::How;
    const uint64_t before = value_at(words, before_word) & mask;
    uint64_t value = constant;
    if (word != kNoWord) value += value_at(words, word);
    value = value >> shift & mask;
    switch (how) {
      case How::move:
        return value == before;
      case How::set_bits:
        return (before | value) == before;
      case How::clear_bits:
        return (before & value) == before;
      case How::change:
        return value == 0;
      case How::none:
        break;
    }
    return false;
  }
};

struct PlannedAccess {
  uint64_t fixed = 0;
  uint32_t site = 0;
  uint16_t base_word = kNoWord;  // kNoWord: no register
  uint16_t index_word = kNoWord;
  uint16_t insn = 0;  // of the run
  AccessEvent event = AccessEvent::load;
  uint8_t scale = 0;
  uint8_t bytes = 0;  // 1 to kMostAccessBytes of a load or store
  uint32_t value = 0;     // of a store: which one, for value_of(); 0: not known
  bool on_stack = false;  // through rsp

  uint64_t address(const trace::Word* words) const {
    uint64_t address = fixed;
    if (base_word != kNoWord) address += value_at(words, base_word);
    if (index_word != kNoWord) address += value_at(words, index_word) * scale;
    return address;
  }
};

struct PlannedRun {
  uint64_t executions = 0;  // that were looked at
  uint64_t unknown = 0;     // accesses, of one execution
  uint32_t words = 0;       // 0: not seen yet
  uint32_t insns = 0;
  uint32_t first_access = 0;
  uint32_t first_site = 0;
  uint32_t now = 0;  // executions in this observation
  uint16_t accesses = 0;
  uint16_t sites = 0;
  uint16_t begins_word = kNoWord;  // the time stamp before it, if it has one
  uint16_t ends_word = kNoWord;    // and that behind its last access
  bool leaves = false;  // for the kernel, or for code that is not traced
};

class AccessPlans {
 public:
  // As many fit into the key of a pair (access_pairs.h); instructions beyond have number 0.
  static constexpr uint32_t kMostSites = (1u << 22) - 1;

  struct Site {
    GuestAddr address;
    ModuleId module;
    BlockId block;            // one that has it
    uint64_t executions = 0;  // by count_sites()
    uint64_t unknown = 0;     // of which it could not be told
    // By end_observation().
    uint64_t now = 0;
    double squares = 0;
    uint32_t observations = 0;
  };

  explicit AccessPlans(const trace::BlockTable& table);

  // Null: there is no such run.
  PlannedRun* run(RunId id) {
    PlannedRun& run = runs_[id.value];
    if (run.words == 0) [[unlikely]]
      plan(id);
    return run.words == 0 ? nullptr : &run;
  }
  std::span<const PlannedAccess> accesses(const PlannedRun& run) const {
    return std::span(accesses_).subspan(run.first_access, run.accesses);
  }
  // Not of an access whose `value` is 0.
  const PlannedValue& value_of(const PlannedAccess& access) const { return values_[access.value]; }
  void count(PlannedRun& run) {
    run.executions++;
    if (!errors_ || run.now++ != 0) return;
    touched_.push_back(static_cast<uint32_t>(&run - &runs_[0]));
  }

  // Executions are to be told apart by observations.
  void keep_errors() { errors_ = true; }
  bool keeps_errors() const { return errors_; }
  // An observation has ended. `sites()[n].now` is how often site n was executed in it while use()
  // runs.
  template <typename Use>
  void end_observation(Use use) {
    gather_now();
    use();
    settle_now();
  }

  // How often each site was executed.
  void count_sites();
  uint64_t unknown_accesses() const;
  Site& site(uint32_t number) { return sites_[number]; }
  const Site& site(uint32_t number) const { return sites_[number]; }
  std::string text_of(const Site& site) const;

 private:
  void plan(RunId id);
  void plan_insn(const decoder::Insn& insn, const RecordedWords& recorded, PlannedAccess access,
                 PlannedRun& run);
  uint32_t plan_value(const decoder::Insn& insn, const RecordedWords& recorded);
  uint32_t site_of(const trace::Block& block, BlockId id, GuestAddr address);
  std::span<const uint32_t> sites_of(const PlannedRun& run) const {
    return std::span(run_sites_).subspan(run.first_site, run.sites);
  }
  void gather_now();
  void settle_now();

  const trace::BlockTable& table_;
  ReservedArray<PlannedRun> runs_;
  std::vector<PlannedAccess> accesses_;
  std::vector<PlannedValue> values_;
  std::vector<uint32_t> run_sites_;
  std::vector<Site> sites_;
  std::unordered_map<uint64_t, uint32_t> by_place_;
  std::vector<uint32_t> touched_;  // runs, in this observation
  std::vector<uint32_t> touched_sites_;
  bool errors_ = false;
};

}  // namespace shadowprof::collect
