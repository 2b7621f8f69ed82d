// SPDX-License-Identifier: MIT
//
// The moving half of the trace contract: a trace is a sequence of 4-byte words, per guest thread.
//
//   run record      [run id < 2^31] [slot words ...]      length: Run::words
//   special record  [2^31 | length << 8 | kind] [payload]  length counts all its words, 1..65535
//
// special_record.h reads special records. Engines write, Reader validates while it iterates: a
// corrupt trace is an Error with an offset, never undefined behaviour. Every slot is 8 bytes, so a
// record is 1 + 2 * slots words.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "trace/block_table.h"

namespace shadowprof::trace {

using Word = uint32_t;

inline constexpr Word kSpecialBit = 0x8000'0000u;

enum class SpecialKind : uint8_t {
  sample_start = 1,  // payload: sample number (2 words), and perhaps a stack: see StackStart
  gap = 2,           // payload: GapReason; what follows is not the successor of what was before
  sample_end = 3,    // payload: EndReason
};

enum class GapReason : uint8_t {
  signal_delivered = 1,  // a handler starts here
  signal_returned = 2,   // a handler has returned to what it interrupted
  native = 3,            // something ran outside the engine
  lost = 4,              // records were lost (counted as dropped)
};
const char* to_string(GapReason r);

enum class EndReason : uint8_t {
  exited = 1,       // the thread, or its process
  executed = 2,     // another program
  killed = 3,       // without a chance to fetch its last records
  left_engine = 4,  // it went on natively
  budget = 5,       // a shadow that executed all it was asked to
  shadow_ended = 6, // a shadow that could not go on
  pauses = 7,       // a shadow that will be recorded again: another sample, but no independent one
  left_region = 8, // of the program that alone is looked at
};
const char* to_string(EndReason r);

// The stack that a sample starts below, where that is known: behind the number of a sample_start a
// word of flags, and then two words for each caller, the innermost first: the address where it goes
// on. An address that is no return address (the code that a signal interrupted) has kExactCaller.
struct StackStart {
  static constexpr Word kWhole = 1;  // the last caller is the thread's first function
  static constexpr uint64_t kExactCaller = uint64_t{1} << 63;
};

constexpr Word special_word(SpecialKind kind, uint32_t length_words) {
  return kSpecialBit | (length_words << 8) | static_cast<Word>(kind);
}
constexpr std::array<Word, 3> sample_start(uint64_t number) {
  return {special_word(SpecialKind::sample_start, 3), static_cast<Word>(number),
          static_cast<Word>(number >> 32)};
}
constexpr std::array<Word, 2> gap(GapReason reason) {
  return {special_word(SpecialKind::gap, 2), static_cast<Word>(reason)};
}
constexpr std::array<Word, 2> sample_end(EndReason reason) {
  return {special_word(SpecialKind::sample_end, 2), static_cast<Word>(reason)};
}
// Numbers of brief samples have this bit: they are short, and as long as one another.
constexpr uint64_t kBriefSample = uint64_t{1} << 63;
constexpr bool is_brief(uint64_t number) {
  return (number & kBriefSample) != 0;
}
constexpr bool is_special(Word w) { return (w & kSpecialBit) != 0; }
constexpr SpecialKind special_kind(Word w) { return static_cast<SpecialKind>(w & 0xff); }
constexpr uint32_t special_length(Word w) {
  return (w >> 8) & 0xffff;
}

// A piece of one guest thread's trace, in order. Chunks of a thread arrive in order; a record
// never spans two chunks.
struct Chunk {
  Tid thread;
  std::span<const Word> words;
  // Threads with the same number that run at the same time share their memory.
  Tid process{};
  uint64_t until = 0;  // time stamp of the processor when all of it had been written; 0: not known
  Tid guest{};         // the program's thread, where `thread` is a stream of a replica's
  // What the kernel calls the program's thread, when the chunk is handed over. Nothing: nobody has
  // asked for it, or it is not known.
  std::array<char, 16> name{};
  // Threads that only a replica has are numbered from here on: no process id is as large.
  static constexpr int32_t kFirstOfReplica = 1 << 22;
  // 0: only a replica has it.
  Tid program_thread() const {
    const Tid tid = guest == Tid() ? thread : guest;
    return tid.value < kFirstOfReplica ? tid : Tid();
  }
};

struct Record {
  size_t offset = 0;  // of its first word
  std::span<const Word> words;

  bool special() const { return is_special(words[0]); }
  RunId run() const { return RunId(words[0]); }
  SpecialKind kind() const { return special_kind(words[0]); }
  uint64_t slot(size_t i) const {
    return words[1 + 2 * i] | static_cast<uint64_t>(words[2 + 2 * i]) << 32;
  }
};

// Iterates over a chunk. next() gives a record, nothing at the end, or an error that names the
// word offset; after an error it gives nothing more.
class Reader {
 public:
  Reader(const BlockTable& table, std::span<const Word> words) : table_(table), words_(words) {}
  Result<std::optional<Record>> next();

 private:
  const BlockTable& table_;
  std::span<const Word> words_;
  size_t at_ = 0;
};

}  // namespace shadowprof::trace
