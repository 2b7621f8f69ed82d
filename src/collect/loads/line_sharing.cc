// SPDX-License-Identifier: MIT
#include "collect/loads/line_sharing.h"

#include <algorithm>
#include <utility>

#include "base/spread.h"
#include "collect/loads/data_places.h"

namespace shadowprof::collect {
namespace {

using profile::SharingKind;

constexpr int kSiteBits = 22;
constexpr uint64_t kSiteMask = (uint64_t{1} << kSiteBits) - 1;
static_assert(AccessPlans::kMostSites == kSiteMask, "sites fit into a key");

}  // namespace

void LineSharing::add(uint64_t line, const Shared& shared) {
  auto found = pairs_.find(shared.key);
  if (found == pairs_.end()) {
    if (pairs_.size() >= kMostPairs) {
      pruned_ += shared.count;
      return;
    }
    found = pairs_.emplace(shared.key, Pair()).first;
  }
  Pair& pair = found->second;
  pair.count += shared.count;
  pair.stretches++;
  const auto hash = static_cast<uint32_t>(spread(line) >> 32);
  if (pair.lines.size() < profile::kMostSharedLines && !std::ranges::count(pair.lines, hash))
    pair.lines.push_back(hash);
  if (pair.line == line) {
    pair.lead += shared.count;
    pair.line_count += shared.count;
    pair.from_bytes |= shared.from_bytes;
    pair.to_bytes |= shared.to_bytes;
  } else if (pair.lead >= shared.count) {
    pair.lead -= shared.count;
  } else {
    pair.line = line;
    pair.lead = shared.count - pair.lead;
    pair.line_count = shared.count;
    pair.from_bytes = shared.from_bytes;
    pair.to_bytes = shared.to_bytes;
  }
}

void LineSharing::finish(const AccessPlans& plans, const trace::BlockTable& table,
                         const TableBuilder& builder, profile::Profile& into) {
  const DataPlaces places(table, builder);
  std::vector<std::pair<uint64_t, const Pair*>> sorted;
  for (const auto& [key, pair] : pairs_) sorted.emplace_back(key, &pair);
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second->count != b.second->count ? a.second->count > b.second->count
                                              : a.first < b.first;
  });
  for (const auto& [key, pair] : sorted) {
    const uint32_t from = key >> kSiteBits & kSiteMask, to = key & kSiteMask;
    if (into.tables.sharing.size() >= kMostRows) {
      pruned_ += pair->count;
      continue;
    }
    const AccessPlans::Site &writer = plans.site(from), &other = plans.site(to);
    into.tables.sharing.push_back(
        {.kind = static_cast<SharingKind>(key >> 2 * kSiteBits),
         .from = builder.at(writer.address, writer.module),
         .to = builder.at(other.address, other.module),
         .count = pair->count,
         .stretches = pair->stretches,
         .lines = pair->lines.size(),
         .from_executions = writer.executions,
         .to_executions = other.executions,
         .line = places.of(GuestAddr(pair->line * profile::kCacheLineBytes)),
         .line_count = pair->line_count,
         .from_bytes = pair->from_bytes,
         .to_bytes = pair->to_bytes,
         .from_text = plans.text_of(writer),
         .to_text = plans.text_of(other)});
  }
  if (pruned_ != 0) into.coverage.events["sharing_pruned"] += pruned_;
  if (crowded_ != 0) into.coverage.events["sharing_crowded_lines"] += crowded_;
}

SharedLines::SharedLines(LineSharing& sharing, const AccessPlans& plans)
    : sharing_(sharing), plans_(plans), lines_(kPlaces) {
  sharing_.threads_.push_back(this);
}

void SharedLines::enter(const trace::Chunk& chunk) {
  sharing_.next_buffer(chunk.until);
  if (chunk.thread != thread_) {
    generation_++;
    began_ = 0;
  }
  thread_ = chunk.thread;
  guest_ = chunk.guest == Tid() ? chunk.thread : chunk.guest;
  process_ = chunk.process;
  stretch_ = 0;
  stretch_ends_.clear();
}

void SharedLines::begin(const trace::SampleStart& start) {
  settle_touched();
  generation_++;
  sample_ = start.number();
  stretch_ = 0;
  stretch_ends_.clear();
}

void SharedLines::close_stretch(uint64_t end) {
  constexpr size_t kMostStretches = 0xffff;
  if (stretch_ends_.size() == kMostStretches) {
    stretch_ends_.back() = end;
    return;
  }
  stretch_ends_.push_back(end);
  stretch_ = static_cast<uint16_t>(stretch_ends_.size());
}

void SharedLines::note_moment(uint64_t time) {
  close_stretch(time);
  began_ = time;
}

// False: who is there has been there more often.
bool SharedLines::take_place(Line& line, uint64_t number) {
  if (line.generation == generation_) {
    if (line.patience > 0) {
      line.patience--;
      return false;
    }
    if (line.is_touched) settle(line);
  }
  line = Line();
  line.line = number;
  line.generation = generation_;
  return true;
}

void SharedLines::count_visit(Line& line, size_t use, const Access& access) {
  if (!line.is_touched) {
    line.is_touched = true;
    touched_.push_back(static_cast<uint32_t>(&line - lines_.data()));
    if (line.visits == 0) line.begin = began_;
  }
  line.stretch = stretch_;
  if (line.last_visit != visit_ || line.visits == 0) {
    line.last_visit = visit_;
    if (line.visits++ != 0 && line.patience < UINT8_MAX) line.patience++;
  }
  if (line.last_of[use] == visit_) return;
  line.last_of[use] = visit_;
  // What was shared has been told with its bytes.
  if (line.visits_of[use]++ == 0) line.bytes[use] = access.bytes;
}

// Who has no visits left makes place.
void SharedLines::add_use(Line& line, const Access& access) {
  const auto least = std::ranges::min_element(line.visits_of);
  const auto use = static_cast<size_t>(least - line.visits_of.begin());
  if (*least != 0) {
    sharing_.crowded_++;
    return;
  }
  line.sites[use] = access.site;
  line.last_of[use] = visit_ - 1;
  line.writers &= ~(1u << use);
  line.writers |= uint32_t{access.writes} << use;
  count_visit(line, use, access);
}

bool SharedLines::is_beside(const SharedLines& other, const Line& own, const Line& others) const {
  if (process_ != other.process_) return false;
  if (sharing_.moments_ == Moments::samples) {
    const uint64_t first = std::min(sample_, other.sample_);
    return guest_ != other.guest_ && std::max(sample_, other.sample_) - first <= kNearSamples;
  }
  return others.end > own.begin && own.end > others.begin;
}

// Where both write, the lower place is first: which thread came first says nothing.
LineSharing::Shared SharedLines::shared_by(const Line& own, size_t use, const Line& other,
                                           size_t others_use) const {
  uint64_t from_bytes = own.bytes[use], to_bytes = other.bytes[others_use];
  uint32_t from = own.sites[use], to = other.sites[others_use];
  const bool both_write = own.writes(use) && other.writes(others_use);
  if (both_write ? plans_.site(to).address < plans_.site(from).address : !own.writes(use)) {
    std::swap(from, to);
    std::swap(from_bytes, to_bytes);
  }
  const bool is_true = (from_bytes & to_bytes) != 0;
  return {.key = uint64_t{is_true} << 2 * kSiteBits | uint64_t{from} << kSiteBits | to,
          .count = 2 * uint64_t{std::min(own.visits_of[use], other.visits_of[others_use])},
          .from_bytes = from_bytes,
          .to_bytes = to_bytes};
}

// The visits that count here do so no more. Two threads that execute the same code can have one
// pair of instructions both ways.
void SharedLines::compare(Line& own, Line& other) {
  const uint32_t most = std::min(own.visits, other.visits);
  std::array<LineSharing::Shared, kMostUses * kMostUses> found;
  size_t size = 0;
  for (size_t i = 0; i < kMostUses; i++) {
    for (size_t k = 0; k < kMostUses; k++) {
      if (own.visits_of[i] == 0 || other.visits_of[k] == 0) continue;
      if (!own.writes(i) && !other.writes(k)) continue;
      const LineSharing::Shared shared = shared_by(own, i, other, k);
      const auto same = std::find_if(found.begin(), found.begin() + size,
                                     [&](const auto& f) { return f.key == shared.key; });
      if (same == found.begin() + size) {
        found[size++] = shared;
      } else {
        same->count += shared.count;
        same->from_bytes |= shared.from_bytes;
        same->to_bytes |= shared.to_bytes;
      }
    }
  }
  if (size == 0) return;
  for (size_t i = 0; i < size; i++) {
    found[i].count = std::min(found[i].count, 2 * uint64_t{most});
    sharing_.add(own.line, found[i]);
  }
  for (Line* line : {&own, &other}) {
    line->visits -= most;
    for (uint32_t& visits : line->visits_of) visits -= std::min(visits, most);
  }
}

// What the other threads have of a line whose part in this buffer is complete, or is forgotten.
void SharedLines::settle(Line& line) {
  line.end = line.stretch < stretch_ends_.size() ? stretch_ends_[line.stretch] : sharing_.now_;
  const auto place = static_cast<size_t>(&line - lines_.data());
  for (SharedLines* other : sharing_.threads_) {
    if (other == this) continue;
    Line& theirs = other->lines_[place];
    if (theirs.line != line.line || theirs.generation != other->generation_) continue;
    if (is_beside(*other, line, theirs)) compare(line, theirs);
  }
}

void SharedLines::settle_touched() {
  for (const uint32_t place : touched_) {
    Line& line = lines_[place];
    if (!std::exchange(line.is_touched, false)) continue;  // it was listed twice
    if (line.generation == generation_) settle(line);
  }
  touched_.clear();
}

void SharedLines::leave() {
  settle_touched();
  began_ = sharing_.now_;
}

}  // namespace shadowprof::collect
