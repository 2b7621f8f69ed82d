// SPDX-License-Identifier: MIT
//
// The file: a line that says what it is, the conditions, an empty line, then the modules' names and
// the places. A place is what it has over the one before, if that is in the same module.
#include "sample/code_history.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "base/packed_numbers.h"
#include "base/spread.h"

namespace shadowprof::sample {
namespace {

using emu::OrderedPlace;

constexpr std::string_view kFirstLine = "shadowprof code history 1\n";

// Tells one state of a file from another; empty: there is no such file.
std::string stamp_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  return fmt::format("{} {:x}:{} {} {}.{:09}", path, info.st_dev, info.st_ino, info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

// Its path leads to another file where that has taken its place: then the hints are bad ones.
std::string name_of_module(const trace::Module& module) {
  if (module.inode == 0 || !module.path.starts_with('/')) return {};
  return stamp_of(module.path);
}

std::string file_name(const std::string& program, const std::string& conditions) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(program, error);
  constexpr size_t kMostOfName = 32;
  return fmt::format("{}-{:016x}", path.filename().string().substr(0, kMostOfName),
                     std::hash<std::string>()(path.string() + '\n' + conditions));
}

// Numbers that go up and down by little.
uint64_t zigzag(uint64_t difference) {
  return difference << 1 ^ (static_cast<int64_t>(difference) < 0 ? ~uint64_t{0} : 0);
}
uint64_t from_zigzag(uint64_t packed) {
  return packed >> 1 ^ ((packed & 1) != 0 ? ~uint64_t{0} : 0);
}

struct PlaceHash {
  size_t operator()(const OrderedPlace& place) const {
    return spread(place.offset + place.module);
  }
};
struct SamePlace {
  bool operator()(const OrderedPlace& a, const OrderedPlace& b) const {
    return a.module == b.module && a.offset == b.offset;
  }
};

}  // namespace

// Places that were executed, in order and once each.
class CodeHistory::Gatherer {
 public:
  // Code that is in no file has no place.
  void add(const trace::Module& module, GuestAddr at) {
    const auto place = place_of(module, at);
    if (place && known_.places.size() < kMostPlaces && executed_.insert(*place).second)
      known_.places.push_back(*place);
  }
  void is_reached_by_branch(const trace::Module& module, GuestAddr at) {
    if (const auto place = place_of(module, at)) by_branch_.insert(*place);
  }
  // Behind the others, what only earlier runs have executed. How many are new?
  size_t add_earlier(const emu::CodeOrder& order) {
    const size_t of_this_run = known_.places.size();
    size_t seen_before = 0;
    std::vector<uint32_t> modules;
    for (const std::string& name : order.modules()) modules.push_back(number_of(name));
    for (OrderedPlace place : order.places()) {
      place.module = modules[place.module];
      if (place.by_branch) by_branch_.insert(place);
      if (executed_.contains(place)) {
        seen_before++;
      } else if (known_.places.size() < kMostPlaces) {
        known_.places.push_back(place);
      }
    }
    return of_this_run - seen_before;
  }
  Known take() {
    for (OrderedPlace& place : known_.places) place.by_branch = by_branch_.contains(place);
    return std::move(known_);
  }

 private:
  uint32_t number_of(const std::string& name) {
    const auto known = std::ranges::find(known_.modules, name);
    if (known == known_.modules.end()) {
      known_.modules.push_back(name);
      return static_cast<uint32_t>(known_.modules.size() - 1);
    }
    return static_cast<uint32_t>(known - known_.modules.begin());
  }
  std::optional<OrderedPlace> place_of(const trace::Module& module, GuestAddr at) {
    const auto [entry, is_new] = modules_.try_emplace(&module);
    if (is_new) {
      if (const std::string name = name_of_module(module); !name.empty())
        entry->second = number_of(name);
    }
    if (!entry->second) return std::nullopt;
    return OrderedPlace{*entry->second, false, static_cast<uint64_t>(at - module.file_start)};
  }

  Known known_;
  std::unordered_map<const trace::Module*, std::optional<uint32_t>> modules_;
  std::unordered_set<OrderedPlace, PlaceHash, SamePlace> executed_;
  std::unordered_set<OrderedPlace, PlaceHash, SamePlace> by_branch_;
};

CodeHistory::CodeHistory(CacheFolder folder, const std::string& program,
                         const std::string& conditions)
    : folder_(std::move(folder)),
      head_(fmt::format("{}program {}\n{}\n", kFirstLine, stamp_of(program), conditions)),
      name_(file_name(program, conditions)),
      order_(make_order()) {}

emu::CodeOrder CodeHistory::make_order() {
  Known known = load();
  return {std::move(known.modules), std::move(known.places), name_of_module};
}

CodeHistory::Known CodeHistory::load() const {
  const std::optional<std::string> body = folder_.read_body(name_, head_, kMostBytes);
  if (!body) return {};
  Known known;
  NumberReader from(*body);
  for (uint32_t count = from.count(); count > 0 && from.good(); count--)
    known.modules.emplace_back(from.text());
  OrderedPlace before;
  for (uint32_t count = from.count(); count > 0 && from.good(); count--) {
    // Bit 0: by branch; bit 1: another module, which follows.
    const uint32_t how = from.below(4);
    OrderedPlace place{before.module, (how & 1) != 0, 0};
    if ((how & 2) != 0) place.module = from.below(known.modules.size());
    place.offset = before.offset + from_zigzag(from.number());
    known.places.push_back(place);
    before = place;
  }
  const bool has_none = known.modules.empty() && !known.places.empty();
  return from.at_end() && !has_none && known.places.size() <= kMostPlaces ? known : Known();
}

void CodeHistory::write(const Known& known) const {
  NumberWriter to;
  to.number(known.modules.size());
  for (const std::string& name : known.modules) to.text(name);
  to.number(known.places.size());
  OrderedPlace before;
  for (const OrderedPlace& place : known.places) {
    const bool other = place.module != before.module;
    to.number((place.by_branch ? 1u : 0u) | (other ? 2u : 0u));
    if (other) to.number(place.module);
    to.number(zigzag(place.offset - before.offset));
    before = place;
  }
  folder_.write_body(name_, head_, to.take());
  folder_.keep_latest(kMostFiles, kMostBytesOfAll);
}

void CodeHistory::keep(const trace::BlockTable& table, std::span<const uint64_t> executions,
                       std::span<const trace::PairCount> pairs) {
  if (!folder_.valid()) return;
  Gatherer gatherer;
  const size_t runs = std::min(executions.size(), table.run_count());
  for (uint32_t r = 0; r < runs; r++) {
    if (executions[r] == 0) continue;
    const trace::Run& run = table.run(RunId(r));
    const trace::Block& block = table.block(run.first_block);
    const trace::Module& module = table.module(block.module);
    gatherer.add(module, block.start);
    if (run.exit == trace::RunExit::syscall) gatherer.is_reached_by_branch(module, run.target);
  }
  for (const trace::PairCount& pair : pairs) {
    const trace::Block& block = table.block(pair.successor);
    gatherer.is_reached_by_branch(table.module(block.module), block.start);
  }
  if (gatherer.add_earlier(order_) == 0) return;
  write(gatherer.take());
}

}  // namespace shadowprof::sample
