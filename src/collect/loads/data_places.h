// SPDX-License-Identifier: MIT
//
// Addresses of data as places in a profile. After the trace: the modules are complete then.
#pragma once

#include <algorithm>
#include <vector>

#include "collect/table_builder.h"
#include "profile/tables/memory_table.h"

namespace shadowprof::collect {

class DataPlaces {
 public:
  DataPlaces(const trace::BlockTable& table, const TableBuilder& builder)
      : table_(table), builder_(builder) {
    for (uint32_t m = 0; m < table.module_count(); m++)
      if (!table.module(ModuleId(m)).path.empty()) modules_.push_back(ModuleId(m));
  }
  // Where several modules have been, the latest.
  profile::DataRef of(GuestAddr address) const {
    const auto module = std::find_if(modules_.rbegin(), modules_.rend(), [&](ModuleId m) {
      return table_.module(m).image.contains(address);
    });
    if (module == modules_.rend()) return {false, {0, address.value}};
    return {true, builder_.at(address, *module)};
  }

 private:
  const trace::BlockTable& table_;
  const TableBuilder& builder_;
  std::vector<ModuleId> modules_;
};

}  // namespace shadowprof::collect
