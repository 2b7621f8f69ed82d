// SPDX-License-Identifier: MIT
//
// Hot data streams: sequences of references (load or store instruction, cache line) that recur
// exactly (docs/streams.md, collect/streams/stream_collector.h).
//
// A row is all streams of one set of instructions: they are what can be changed, and what another
// run has too, where addresses differ. Of its streams the hottest one is there as a whole, by lines
// relative to that of its first reference.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

// How a stream goes through its lines, mostly.
enum class StreamOrder : uint8_t {
  contiguous,  // next to one that it has just been at, or all on one line
  strided,     // as far on as the same instruction went before
  scattered,
};
inline constexpr const char* kStreamOrderNames[] = {"contiguous", "strided", "scattered"};
inline constexpr size_t kStreamOrders = std::size(kStreamOrderNames);
inline const char* to_string(StreamOrder order) {
  return kStreamOrderNames[static_cast<size_t>(order)];
}
std::optional<StreamOrder> stream_order_from(std::string_view name);

struct StreamReference {
  uint32_t insn = 0;  // index in `insns`
  int64_t line = 0;   // less that of the first reference
};

struct StreamRow {
  std::vector<CodeRef> insns;  // the key: by offset; unique
  uint64_t heat = 0;           // references of all its streams
  uint64_t error = 0;          // of the heat: confidence.h
  uint64_t occurrences = 0;
  uint64_t streams = 0;        // different ones; of several runs the most
  uint64_t line_accesses = 0;  // references to the lines of its streams, theirs included
  // These are of the hottest stream; in several runs that with most references.
  uint64_t hottest_heat = 0;
  bool is_cycle = false;  // no reference is the first one
  std::vector<StreamReference> references;
  std::vector<std::string> texts{};  // of insns, disassembled; not in the file's table
  const std::vector<CodeRef>& key() const { return insns; }
};

using StreamTable = std::vector<StreamRow>;  // by instructions; unique

// What follows from the references of the hottest stream.
struct StreamShape {
  StreamOrder order = StreamOrder::contiguous;
  uint64_t lines = 0;  // different ones
  uint64_t span = 0;   // lines from the lowest to the highest
  int64_t stride = 0;  // of strided ones, in lines: the most frequent
};
StreamShape shape_of(const StreamRow& row);

// Sorts instructions as the key wants them. Numbers of modules depend on which profile came first,
// so offsets come before them.
bool comes_before(const CodeRef& a, const CodeRef& b);

// `b` has the same instructions, and becomes part of `a`.
void add_streams(StreamRow& a, const StreamRow& b);

inline constexpr Columns kStreamColumns{
    column<&StreamRow::heat>("heat").sum(),
    column<&StreamRow::error>("error").error().with_errors(),
    column<&StreamRow::occurrences>("occurrences").sum(),
    column<&StreamRow::streams>("streams").greatest(),
    column<&StreamRow::line_accesses>("line_accesses").sum(),
    column<&StreamRow::hottest_heat>("hottest_heat"),
    column<&StreamRow::is_cycle>("is_cycle"),
};
inline constexpr Columns kStreamInsnColumns{
    column<&CodeRef::module>("module").module_if(nullptr),
    column<&CodeRef::offset>("offset"),
};
// A line as its sign and its size. The sign is read first.
inline constexpr Columns kStreamReferenceColumns{
    column<&StreamReference::insn>("instruction"),
    Column<StreamReference>{
        .name = "backwards",
        .get = [](const StreamReference& r) { return uint64_t{r.line < 0}; },
        .set = [](StreamReference& r, uint64_t is) { r.line = is != 0 ? -1 : 1; }},
    Column<StreamReference>{
        .name = "line",
        .get =
            [](const StreamReference& r) {
              const auto line = static_cast<uint64_t>(r.line);
              return r.line < 0 ? -line : line;
            },
        .set = [](StreamReference& r, uint64_t size) { r.line *= static_cast<int64_t>(size); },
        .most = std::numeric_limits<int64_t>::max()},
};
using StreamInsns = ChildTable<&StreamRow::insns>;
using StreamReferences = ChildTable<&StreamRow::references>;
inline constexpr TableLayout<StreamRow, StreamInsns, StreamReferences> kStreamLayout{
    .name = "streams",
    .title = "data streams",
    .columns = kStreamColumns,
    .join = add_streams,
    .children = {
        StreamInsns{.name = "stream_instructions", .row = "stream", .columns = kStreamInsnColumns},
        StreamReferences{
            .name = "stream_references", .row = "stream", .columns = kStreamReferenceColumns}}};

// What the streams are a part of. References that repeat the one before are none (see the
// collector).
struct StreamCounts {
  bool collected = false;
  uint64_t references = 0;  // that were looked at
  uint64_t bursts = 0;      // sequences that they were looked at in
  uint64_t longer = 0;      // of these references: recur within sequences that are too long
  uint64_t pruned = 0;      // of streams that no row has
  uint64_t skipped = 0;     // loads and stores between bursts, or in ones that were too short
  uint64_t stack = 0;       // loads and stores near the stack pointer, which are left out
};
inline constexpr Columns kStreamCountColumns{
    column<&StreamCounts::references>("references").sum(),
    column<&StreamCounts::bursts>("bursts").sum(),
    column<&StreamCounts::longer>("longer").sum(),
    column<&StreamCounts::pruned>("pruned").sum(),
    column<&StreamCounts::skipped>("skipped").sum(),
    column<&StreamCounts::stack>("stack").sum(),
};
void add_stream_counts(StreamCounts& into, const StreamCounts& from);

}  // namespace shadowprof::profile
