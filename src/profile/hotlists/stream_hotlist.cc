// SPDX-License-Identifier: MIT
//
// The ranking of hot data streams, with what could be done.
#include "profile/hotlists/hotlist_rows.h"

namespace shadowprof::profile {
namespace {

// Lines are a stream's own if it has so much of what is done to them.
constexpr double kOwnShare = 0.9;

std::string advice_for(const HotDataStream& s) {
  if (s.order == StreamOrder::contiguous) return "";
  if (s.order == StreamOrder::strided)
    return "strided: prefetch, or make what is used of each element an array";
  return s.together >= kOwnShare ? "always together: place together"
                                 : "scattered and recurring: prefetch";
}

// What the loads among a stream's instructions take.
std::optional<double> mean_cycles_of(const Profile& profile, const StreamRow& row) {
  uint64_t cycles = 0, served = 0;
  for (const LatencyRow& load : profile.tables.latencies) {
    if (!std::ranges::binary_search(row.insns, load.at, comes_before)) continue;
    cycles += load.cycles;
    served += load.served();
  }
  if (served == 0) return std::nullopt;
  return share_of(cycles, served);
}

Margin margin_of(const Profile& profile, const StreamRow& row) {
  const StreamCounts& counts = profile.coverage.streams;
  if (profile.confidence.exact && counts.skipped != 0) return std::nullopt;
  return margin_of(profile, row.error, counts.references);
}

HotDataStream listed(const Profile& profile, const LineLookup& lines, const StreamRow& row) {
  HotDataStream stream;
  const StreamShape shape = shape_of(row);
  stream.heat = row.heat;
  stream.share = share_of(row.heat, profile.coverage.streams.references);
  stream.share_error = margin_of(profile, row);
  stream.occurrences = row.occurrences;
  stream.streams = row.streams;
  stream.length = row.references.size();
  stream.lines = shape.lines;
  stream.span_lines = shape.span;
  stream.order = shape.order;
  stream.stride_lines = shape.stride;
  stream.is_cycle = row.is_cycle;
  stream.together = std::min(1.0, share_of(row.heat, row.line_accesses));
  stream.advice = advice_for(stream);
  stream.mean_cycles = mean_cycles_of(profile, row);
  for (size_t i = 0; i < row.insns.size(); i++) {
    const auto of_it = std::ranges::count(row.references, i, &StreamReference::insn);
    stream.instructions.push_back({place_of(profile, lines, row.insns[i]),
                                   i < row.texts.size() ? row.texts[i] : "",
                                   static_cast<uint64_t>(of_it)});
  }
  stream.references = row.references;
  return stream;
}

}  // namespace

void add_stream_hotlist(const Profile& profile, size_t limit, const LineLookup& lines,
                        Hotlists& lists) {
  const StreamTable& rows = profile.tables.streams;
  for (const size_t i : hottest(rows, limit, [](const StreamRow& s) { return s.heat; })) {
    lists.data_streams.push_back(listed(profile, lines, rows[i]));
    lists.data_streams.back().rank = static_cast<uint32_t>(lists.data_streams.size());
  }
}

}  // namespace shadowprof::profile
