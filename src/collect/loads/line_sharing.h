// SPDX-License-Identifier: MIT
//
// Which cache lines several threads access in one stretch of time, one of them writing, and how
// often such a line can have gone from one to the other.
//
// Traces do not tell the order of two threads' accesses, only stretches: a thread's records from
// one moment that is known to the next. A line counts for two threads whose stretches with accesses
// to it overlap; what one thread did with a line before the other began with it is no sharing.
//
// Within them it is counted how often a thread can have had to get the line: once for each
// kVisitInsns instructions of its own in which it accessed it (a visit). That is about what a line
// takes to come from another core, so whoever accesses it more often in that time has it still. Of
// two instructions with m and n visits the line has gone to and fro at most min(m, n) times: twice
// that is the count, and a bound. Rows of one line are not to be added.
//
// Memory is bounded: each thread has kPlaces lines, found by their number alone. A line that has
// many visits gives its place to others only after as many of them asked for it. Of a line the
// first kMostUses instructions are told apart. What was forgotten has no count.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "collect/loads/access_follower.h"
#include "collect/loads/access_plan.h"
#include "collect/table_builder.h"
#include "profile/tables/sharing_table.h"
#include "trace/special_record.h"

namespace shadowprof::collect {

inline constexpr int kVisitBits = 8;
inline constexpr uint64_t kVisitInsns = uint64_t{1} << kVisitBits;
// A sample has one thread, mostly. Those of different threads whose numbers are so near are taken
// to be of one stretch.
inline constexpr uint64_t kNearSamples = 4;

class SharedLines;

// What all threads found out.
class LineSharing {
 public:
  static constexpr size_t kMostPairs = size_t{1} << 16;
  static constexpr size_t kMostRows = 20'000;

  explicit LineSharing(Moments moments) : moments_(moments) {}

  // A buffer has come, with records up to that time stamp.
  void next_buffer(uint64_t until) { now_ = moments_ == Moments::recorded ? until : now_ + 1; }
  // The plans' sites have been counted.
  void finish(const AccessPlans& plans, const trace::BlockTable& table, const TableBuilder& builder,
              profile::Profile& into);

 private:
  friend class SharedLines;
  struct Pair {
    uint64_t count = 0;
    uint64_t stretches = 0;
    std::vector<uint32_t> lines;  // hashes of different ones, at most kMostSharedLines
    // The line that most of it is about, by majority; its masks since it was chosen.
    uint64_t line = 0;
    uint64_t lead = 0;
    uint64_t line_count = 0;
    uint64_t from_bytes = 0;
    uint64_t to_bytes = 0;
  };
  // What two instructions of different threads had of one line, in one stretch.
  struct Shared {
    uint64_t key;
    uint64_t count;
    uint64_t from_bytes;
    uint64_t to_bytes;
  };
  void add(uint64_t line, const Shared& shared);

  const Moments moments_;
  uint64_t now_ = 0;
  std::vector<SharedLines*> threads_;
  std::unordered_map<uint64_t, Pair> pairs_;  // by kind, from, to
  uint64_t pruned_ = 0;
  uint64_t crowded_ = 0;
};

// The lines of one thread.
class SharedLines {
 public:
  static constexpr size_t kPlaces = size_t{1} << 13;
  static constexpr size_t kMostUses = 4;

  SharedLines(LineSharing& sharing, const AccessPlans& plans);
  SharedLines(const SharedLines&) = delete;
  SharedLines& operator=(const SharedLines&) = delete;

  // A buffer of `thread` in `process` begins and ends.
  void enter(const trace::Chunk& chunk);
  void leave();
  // A sample begins, or the thread's trace.
  void begin(const trace::SampleStart& start);
  // What follows was made after that moment, what came before by then.
  void note_moment(uint64_t time);
  // How many instructions the thread has executed before the accesses that follow.
  void at_insn(uint64_t insns) { visit_ = static_cast<uint32_t>(insns >> kVisitBits); }

  void access(uint64_t address, uint32_t bytes, uint32_t site, bool writes) {
    const auto first = static_cast<uint32_t>(address % profile::kCacheLineBytes);
    const uint64_t mask = (bytes >= 64 ? ~uint64_t{0} : (uint64_t{1} << bytes) - 1);
    const uint64_t line = address / profile::kCacheLineBytes;
    use(line, {mask << first, site, writes});
    if (first + bytes > profile::kCacheLineBytes) [[unlikely]]
      use(line + 1, {mask >> (64 - first), site, writes});
  }

 private:
  struct Line {
    uint64_t line = 0;
    uint64_t begin = 0;       // when the first stretch with an access began
    uint64_t end = 0;         // and the last one ended; valid behind leave()
    uint32_t generation = 0;  // older ones are of what was forgotten
    uint16_t stretch = 0;     // of the present buffer
    uint8_t patience = 0;     // how many others have to want its place
    bool is_touched = false;  // in the present buffer
    uint32_t visits = 0;      // with no other thread's beside them yet
    uint32_t last_visit = 0;
    uint32_t writers = 0;                     // which of the instructions, a bit each
    std::array<uint32_t, kMostUses> sites{};  // 0: none
    std::array<uint32_t, kMostUses> visits_of{};
    std::array<uint32_t, kMostUses> last_of{};
    std::array<uint64_t, kMostUses> bytes{};
    bool writes(size_t use) const { return (writers >> use & 1) != 0; }
  };
  static_assert(sizeof(Line) == 128);
  struct Access {
    uint64_t bytes;
    uint32_t site;
    bool writes;
  };

  static size_t home(uint64_t line) { return (line ^ line >> 13 ^ line >> 26) % kPlaces; }
  void use(uint64_t number, const Access& access) {
    Line& line = lines_[home(number)];
    if (line.line != number || line.generation != generation_) [[unlikely]] {
      if (!take_place(line, number)) return;
    }
    for (size_t i = 0; i < kMostUses; i++) {
      if (line.sites[i] != access.site) continue;
      if (line.last_of[i] != visit_ || line.stretch != stretch_ || !line.is_touched) [[unlikely]]
        count_visit(line, i, access);
      line.bytes[i] |= access.bytes;
      line.writers |= uint32_t{access.writes} << i;
      return;
    }
    add_use(line, access);
  }

  bool take_place(Line& line, uint64_t number);
  void count_visit(Line& line, size_t use, const Access& access);
  void add_use(Line& line, const Access& access);
  void settle(Line& line);
  void compare(Line& own, Line& other);
  LineSharing::Shared shared_by(const Line& own, size_t use, const Line& other,
                                size_t others_use) const;
  void settle_touched();
  bool is_beside(const SharedLines& other, const Line& own, const Line& others) const;
  void close_stretch(uint64_t end);

  LineSharing& sharing_;
  const AccessPlans& plans_;
  std::vector<Line> lines_;
  std::vector<uint32_t> touched_;       // places, in this buffer
  std::vector<uint64_t> stretch_ends_;  // of this buffer
  Tid thread_{};
  Tid guest_{};  // the program's thread
  Tid process_{};
  uint64_t sample_ = 0;
  uint64_t began_ = 0;  // the present stretch
  uint32_t generation_ = 1;
  uint32_t visit_ = 0;
  uint16_t stretch_ = 0;
};

}  // namespace shadowprof::collect
