// SPDX-License-Identifier: MIT
//
// The plug-ins of a run: each was loaded once in a process of its own, and has said what it wants.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "plugin/description.h"
#include "plugin/plugin_file.h"

namespace shadowprof::plugin {

class Keeper;

inline constexpr size_t kMostPlugins = 8;

struct Plugin {
  PluginFile file;
  Description description;
};

struct Plugins {
  std::shared_ptr<Keeper> keeper;  // null: there are none
  std::vector<std::shared_ptr<const Plugin>> all;

  bool empty() const { return all.empty(); }
  bool want(uint32_t what) const;  // SHADOWPROF_WANTS_...
};

// While this process has one thread. An Error: one of them is of no use, or two have one name.
Result<Plugins> open_plugins(const std::vector<std::string>& paths);

}  // namespace shadowprof::plugin
