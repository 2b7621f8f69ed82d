// SPDX-License-Identifier: MIT
#include "collect/streams/stream_rows.h"
#include "base/spread.h"

#include <algorithm>
#include <tuple>

namespace shadowprof::collect {
namespace {

// The rotation that is the first of all. Addresses of instructions decide between those of one
// line: numbers of sites depend on what was executed first.
void turn(std::vector<uint64_t>& cycle, const AccessPlans& plans) {
  const auto key = [&](size_t i) {
    const uint64_t terminal = cycle[i % cycle.size()];
    return std::tuple(line_of_terminal(terminal),
                      plans.site(site_of_terminal(terminal)).address.value);
  };
  size_t first = 0;
  for (size_t from = 1; from < cycle.size(); from++) {
    size_t k = 0;
    while (k < cycle.size() && key(from + k) == key(first + k)) k++;
    if (k < cycle.size() && key(from + k) < key(first + k)) first = from;
  }
  std::rotate(cycle.begin(), cycle.begin() + static_cast<ptrdiff_t>(first), cycle.end());
}

uint64_t hash_of(const std::vector<uint64_t>& stream) {
  uint64_t hash = stream.size();
  for (const uint64_t terminal : stream) {
    hash = spread(hash ^ terminal);
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

void StreamRows::add_burst(const AccessPlans& plans, const Sequitur& grammar,
                           const HotStreams& finder, const std::vector<HotStream>& hot,
                           uint64_t references) {
  counts.references += references;
  counts.bursts++;
  counts.longer += finder.longer();
  now_ += references;
  std::vector<uint32_t> rows_of_hot;
  for (const HotStream& stream : hot) rows_of_hot.push_back(add(plans, stream));
  if (!hot.empty()) count_lines(grammar, finder, hot, rows_of_hot);
}

uint32_t StreamRows::row_of(const std::vector<uint64_t>& stream) {
  std::vector<uint32_t> sites;
  for (const uint64_t terminal : stream) sites.push_back(site_of_terminal(terminal));
  std::ranges::sort(sites);
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  if (const auto found = by_sites_.find(sites); found != by_sites_.end()) return found->second;
  if (rows_.size() >= kMostRows) return kNoRow;
  const auto number = static_cast<uint32_t>(rows_.size());
  rows_.emplace_back().sites = sites;
  by_sites_.emplace(std::move(sites), number);
  return number;
}

uint32_t StreamRows::add(const AccessPlans& plans, const HotStream& stream) {
  const uint32_t number = row_of(stream.references);
  const uint64_t heat = stream.heat();
  if (number == kNoRow) {
    counts.pruned += heat;
    return kNoRow;
  }
  std::vector<uint64_t> references = stream.references;
  if (stream.is_cycle) turn(references, plans);
  Row& row = rows_[number];
  row.sums.heat += heat;
  row.sums.occurrences += stream.occurrences;
  if (row.now == 0) touched_.push_back(number);
  row.now += heat;
  const uint64_t its_heat = heat_of(references, heat, row);
  if (its_heat >= row.sums.hottest_heat) {
    row.sums.hottest_heat = its_heat;
    row.sums.is_cycle = stream.is_cycle;
    row.hottest = std::move(references);
  }
  return number;
}

// In all bursts so far; in this one, where there is no room to remember it.
uint64_t StreamRows::heat_of(const std::vector<uint64_t>& references, uint64_t heat, Row& row) {
  const uint64_t hash = hash_of(references);
  if (streams_.size() >= kMostStreams && !streams_.contains(hash)) return heat;
  const auto [known, is_new] = streams_.try_emplace(hash);
  row.sums.streams += is_new;
  return known->second += heat;
}

// All that was done in this burst to the lines of each row's streams.
void StreamRows::count_lines(const Sequitur& grammar, const HotStreams& finder,
                             const std::vector<HotStream>& hot,
                             const std::vector<uint32_t>& rows_of_hot) {
  std::unordered_map<uint64_t, uint64_t> accesses;
  std::vector<std::pair<uint32_t, uint64_t>> lines;  // by row
  for (size_t i = 0; i < hot.size(); i++) {
    if (rows_of_hot[i] == kNoRow) continue;
    for (const uint64_t terminal : hot[i].references) {
      accesses.try_emplace(line_of_terminal(terminal), 0);
      lines.emplace_back(rows_of_hot[i], line_of_terminal(terminal));
    }
  }
  finder.for_each_terminal(grammar, [&](uint64_t terminal, uint64_t count) {
    const auto line = accesses.find(line_of_terminal(terminal));
    if (line != accesses.end()) line->second += count;
  });
  std::ranges::sort(lines);
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  for (const auto& [row, line] : lines) rows_[row].sums.line_accesses += accesses[line];
}

void StreamRows::end_observation() {
  for (const uint32_t number : touched_) {
    Row& row = rows_[number];
    row.error.add(static_cast<double>(row.now), {static_cast<double>(now_)});
    row.now = 0;
  }
  touched_.clear();
  if (now_ == 0) return;
  observations_++;
  sizes_.add({static_cast<double>(now_)});
  now_ = 0;
}

profile::StreamRow StreamRows::finished(const Row& row, const AccessPlans& plans,
                                        const TableBuilder& builder, bool errors) const {
  profile::StreamRow done = row.sums;
  const auto place_of = [&](uint32_t site) {
    return builder.at(plans.site(site).address, plans.site(site).module);
  };
  std::vector<std::pair<profile::CodeRef, uint32_t>> places;
  for (const uint32_t site : row.sites) places.emplace_back(place_of(site), site);
  std::ranges::sort(
      places, [](const auto& a, const auto& b) { return profile::comes_before(a.first, b.first); });
  for (const auto& [place, site] : places) {
    if (!done.insns.empty() && done.insns.back() == place) continue;
    done.insns.push_back(place);
    done.texts.push_back(plans.text_of(plans.site(site)));
  }
  const uint64_t first = line_of_terminal(row.hottest.front());
  for (const uint64_t terminal : row.hottest) {
    const auto at = std::ranges::lower_bound(done.insns, place_of(site_of_terminal(terminal)),
                                             profile::comes_before);
    done.references.push_back({static_cast<uint32_t>(at - done.insns.begin()),
                               static_cast<int64_t>(line_of_terminal(terminal) - first)});
  }
  // One sample tells nothing: the whole of the references.
  const bool tells = sizes_.worth() >= 2;
  if (errors && !tells) done.error = counts.references;
  if (errors && tells) {
    const uint64_t error = row.error.error(
        observations_, sizes_,
        static_cast<double>(row.sums.heat) / static_cast<double>(counts.references));
    done.error =
        static_cast<uint64_t>(profile::error_of_few(sizes_.worth(), static_cast<double>(error)));
  }
  return done;
}

void StreamRows::finish(const AccessPlans& plans, const TableBuilder& builder, bool errors,
                        profile::StreamTable& rows) {
  std::vector<const Row*> order;
  for (const Row& row : rows_) order.push_back(&row);
  std::ranges::sort(order, [](const Row* a, const Row* b) {
    return a->sums.heat != b->sums.heat ? a->sums.heat > b->sums.heat : a->sites < b->sites;
  });
  for (const Row* row : order) {
    if (rows.size() < kMostRowsOfFile)
      rows.push_back(finished(*row, plans, builder, errors));
    else
      counts.pruned += row->sums.heat;
  }
}

}  // namespace shadowprof::collect
