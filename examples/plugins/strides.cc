// SPDX-License-Identifier: MIT
//
// A plug-in that says how far the addresses of each load are apart from one execution to the next:
// for each instruction its most frequent strides. What a hardware prefetcher would have to learn.
//
//   c++ -shared -fPIC -O2 -o strides.so strides.cc
//   shadowprof run --mode full --plugin ./strides.so -- program
#include <shadowprof/collector.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr size_t kMostStrides = 64;  // of a load; the rest is "other"
constexpr size_t kShown = 4;

struct Load {
  std::map<int64_t, uint64_t> strides;
  uint64_t others = 0;
};

class Strides {
 public:
  void take(const shadowprof_record& r) {
    switch (r.kind) {
      case SHADOWPROF_THREAD:
        stream_ = r.place;
        break;
      case SHADOWPROF_SAMPLE_BEGIN:
        last_.erase(stream_);
        break;
      case SHADOWPROF_LOAD:
        if ((r.flags & (SHADOWPROF_UNKNOWN | SHADOWPROF_STACK)) == 0) load(r.place, r.number);
        break;
      default:
        break;
    }
  }

  void give(shadowprof_table* table) const {
    for (const auto& [place, load] : loads_) {
      std::vector<std::pair<uint64_t, int64_t>> hottest;
      for (const auto& [stride, times] : load.strides) hottest.emplace_back(times, stride);
      std::sort(hottest.rbegin(), hottest.rend());
      uint64_t others = load.others;
      for (size_t i = 0; i < hottest.size(); i++) {
        const auto& [times, stride] = hottest[i];
        if (i < kShown)
          add(table, place, (stride > 0 ? "+" : "") + std::to_string(stride), times);
        else
          others += times;
      }
      if (others != 0) add(table, place, "other", others);
    }
  }

 private:
  void load(uint32_t place, uint64_t address) {
    const auto [last, is_first] = last_[stream_].try_emplace(place, address);
    if (is_first) return;
    const auto stride = static_cast<int64_t>(address - last->second);
    last->second = address;
    Load& load = loads_[place];
    const auto known = load.strides.find(stride);
    if (known != load.strides.end())
      known->second++;
    else if (load.strides.size() < kMostStrides)
      load.strides.emplace(stride, 1);
    else
      load.others++;
  }

  static void add(shadowprof_table* table, uint32_t place, const std::string& stride,
                  uint64_t times) {
    const shadowprof_cell cells[] = {{place, nullptr}, {0, stride.c_str()}};
    table->add(table, cells, times);
  }

  uint32_t stream_ = 0;
  // By thread, or stream of a replica's: where each load went last.
  std::unordered_map<uint32_t, std::unordered_map<uint32_t, uint64_t>> last_;
  std::unordered_map<uint32_t, Load> loads_;  // by place
};

void* begin() {
  return new Strides;
}

void records(void* self, const shadowprof_record* records, size_t count) {
  for (size_t i = 0; i < count; i++) static_cast<Strides*>(self)->take(records[i]);
}

void table(void* self, shadowprof_table* table) {
  static_cast<Strides*>(self)->give(table);
}

constexpr shadowprof_column kColumns[] = {{"load", SHADOWPROF_CELL_PLACE},
                                          {"stride", SHADOWPROF_CELL_TEXT}};

}  // namespace

const shadowprof_plugin* shadowprof_collector(void) {
  static constexpr shadowprof_plugin plugin = {SHADOWPROF_PLUGIN_VERSION,
                                               SHADOWPROF_WANTS_ACCESSES,
                                               "strides",
                                               "times",
                                               kColumns,
                                               2,
                                               0,
                                               begin,
                                               nullptr,
                                               records,
                                               table};
  return &plugin;
}
