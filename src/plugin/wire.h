// SPDX-License-Identifier: MIT
//
// How shadowprof and the processes of plug-ins talk to one another.
//
//   shadowprof ── control socket ──▶ keeper ── fork ──▶ a plug-in's process
//        │                              └─ its end: Shared::end            │
//        ├── socket: Request; the first answer is a Hello ─────────────────┤
//        └── shared memory: Shared, then kBatches batches of kBatchBytes ──┘
//
// The keeper is a child of nobody that waits for children of its own, so no wait of a tracer's sees
// it or a plug-in's process. All sockets keep messages whole, so copies of shadowprof can send
// requests, too. Requests are served in order. A batch is written, sent, read and, when
// Shared::done says so, written again: the batches are a ring.
//
// A batch is a row of sections: a SectionHead, then so many bytes, filled up to 8. Whatever comes
// from a plug-in's process is looked at before it is believed.
#pragma once

#include <shadowprof/collector.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace shadowprof::plugin {

inline constexpr uint32_t kBatches = 16;
inline constexpr size_t kBatchBytes = size_t{256} << 10;
inline constexpr size_t kSharedHeadBytes = 4096;
inline constexpr size_t kSharedBytes = kSharedHeadBytes + kBatches * kBatchBytes;

struct Shared {
  std::atomic<uint32_t> done;  // batches, since the beginning; a futex
  std::atomic<uint32_t> calls;  // that have returned: a batch has many
  std::atomic<uint32_t> end;   // 0: it lives; kEnded and a wait status: by the keeper
  std::atomic<uint32_t> hung;  // 1: and was killed for that
};
inline constexpr uint32_t kEnded = 1u << 31;
static_assert(sizeof(Shared) <= kSharedHeadBytes);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

enum class SectionKind : uint32_t { records = 1, place = 2 };
struct SectionHead {
  SectionKind kind;
  uint32_t bytes;
};

// Behind it: the code, the module's path, the function's name.
struct PlaceHead {
  uint64_t address = 0;
  uint64_t offset = 0;
  uint32_t number = 0;
  uint32_t kind = 0;
  uint32_t instructions = 0;
  uint32_t function_number = 0;
  uint16_t code_bytes = 0;
  uint16_t module_bytes = 0;
  uint16_t function_bytes = 0;
  uint16_t reserved = 0;
};

constexpr size_t padded(size_t bytes) {
  return (bytes + 7) & ~size_t{7};
}

enum class RequestKind : uint32_t {
  batch = 1,  // the next one of the ring has so many bytes
  table = 2,  // with a descriptor: what a copy of the process says, and then a TableEnd
};
struct Request {
  RequestKind kind;
  uint32_t bytes;
};

// What a process says of its plug-in.
struct Hello {
  char refusal[512];  // why it is of no use; "": it is
  uint32_t wants;
  uint32_t columns;
  char name[SHADOWPROF_LONGEST_NAME + 1];
  char weight[SHADOWPROF_LONGEST_NAME + 1];
  char column_names[SHADOWPROF_MOST_COLUMNS][SHADOWPROF_LONGEST_NAME + 1];
  uint8_t column_kinds[SHADOWPROF_MOST_COLUMNS];
};

// The bytes of a table: for each row its weight, and for each cell its number, or how long its text
// is and the text, filled up to 8. Then a TableTail by the copy, if it came so far, and a TableEnd
// by the process that made it.
struct TableTail {
  uint64_t mark;
  uint64_t rows;
  uint64_t others;
};
struct TableEnd {
  uint64_t mark;
  uint64_t wait_status;
};
inline constexpr uint64_t kTailMark = 0x7461'696c'7461'696cull;
inline constexpr uint64_t kEndMark = 0x656e'6420'656e'6420ull;
inline constexpr size_t kMostTableBytes = size_t{16} << 20;

enum class ControlKind : uint32_t {
  start = 1,  // with three descriptors: the file, the socket, the shared memory
  kill = 2,
};
struct Control {
  ControlKind kind;
  uint32_t number;  // of the process, as whoever starts it chose it
  char file[256];   // what messages call it
};

}  // namespace shadowprof::plugin
